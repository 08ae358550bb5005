package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// page runs commands as a page has them, in a shell in which kubectl, its plugin, holdfast and helm are this cluster's. $CHART is the
// chart's folder, $VALUES the values with which it was installed. It ends at the first command that fails.
func page(ctx context.Context, t *story.Teller, commands string) (string, error) {
	env, err := environment(t)
	if err != nil {
		return "", err
	}
	return t.Run(ctx, env, "sh", "-ec", commands)
}

// environment is that of a person who works with this cluster and no other: certificates are kept in the cluster's own folder.
func environment(t *story.Teller) ([]string, error) {
	folder := filepath.Join(t.Cluster.Dir, "tools")
	err := os.MkdirAll(folder, 0o755)
	for name, program := range map[string]string{
		"kubectl": t.Cluster.Program("kubectl", t.Cluster.Version), "helm": t.Cluster.Program("helm", t.Settings.Helm),
		"holdfast": t.Settings.Holdfast, "kubectl-holdfast": t.Settings.Holdfast,
	} {
		err = errors.Join(err, link(program, filepath.Join(folder, name)))
	}
	return []string{
		"PATH=" + folder + ":" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + filepath.Join(t.Cluster.Dir, "person"),
		"CHART=" + t.Settings.Chart, "VALUES=" + valuesFile(t),
	}, err
}

func link(program, at string) error {
	return errors.Join(removeFile(at), os.Symlink(program, at))
}

// ask has holdfast answer a command as JSON. What it printed is read also where it ends with an error, which is returned.
func ask(ctx context.Context, t *story.Teller, answer any, args ...string) error {
	out, failed := holdfast(ctx, t, append(args, "-o", "json")...)
	if out == "" && failed != nil {
		return failed
	}
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		return errors.Join(failed, fmt.Errorf("read the answer of holdfast %v: %w: %q", args, err, out))
	}
	return failed
}

// holdfast asks the controllers, wherever they run.
func holdfast(ctx context.Context, t *story.Teller, args ...string) (string, error) {
	env, err := environment(t)
	if err != nil {
		return "", err
	}
	if !t.Settings.OnHosts {
		return t.Run(ctx, env, t.Cluster.Program("kubectl", t.Cluster.Version), append([]string{"holdfast"}, args...)...)
	}
	if _, err := t.Run(ctx, env, t.Settings.Holdfast, "ca", "issue", "--ca-dir", tlsFolder(t, "ca"), "--out", tlsFolder(t, "admin"),
		"--role", "admin", "--name", "stories"); err != nil {
		return "", err
	}
	args = append(args, "--endpoints="+cluster.Control+":9802")
	return t.Run(ctx, env, t.Settings.Holdfast, append(args, certificate(t, "admin", "stories")...)...)
}
