package kit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Kubectl runs the real kubectl in this namespace and returns its output.
func (k *Kit) Kubectl(ctx context.Context, args ...string) (string, error) {
	return k.run(ctx, k.Cluster.Program("kubectl", k.Cluster.Version), append([]string{"-n", k.Namespace}, args...)...)
}

// Exec runs a shell command in a pod's first container and returns its output.
func (k *Kit) Exec(ctx context.Context, pod, command string) (string, error) {
	return k.Kubectl(ctx, "exec", pod, "--", "sh", "-c", command)
}

// Helm runs the real helm in this namespace and returns its output.
func (k *Kit) Helm(ctx context.Context, version string, args ...string) (string, error) {
	return k.run(ctx, k.Cluster.Program("helm", version), append([]string{"-n", k.Namespace}, args...)...)
}

func (k *Kit) run(ctx context.Context, program string, args ...string) (string, error) {
	return k.Run(ctx, nil, program, args...)
}

// Run runs a program of this host that may reach the cluster, with more of its environment, as NAME=VALUE, and returns its output, also
// beside an error; what it says beside that is part of the error.
func (k *Kit) Run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+k.Cluster.Kubeconfig("admin")), env...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), err
}
