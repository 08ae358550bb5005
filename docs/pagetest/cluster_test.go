package pagetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/cli"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// needMore are the commands that are no questions to a cluster of processes: they ask Kubernetes or read its list, are processes
// themselves, are for a controller that is stopped, or for a report. Tests of their own run them: kube/why, cmd/cli, jepsen/cluster/runbooks
// and verbs.
var needMore = []string{"why", "volumes orphans", "volumes leaks", "dev", "dev clean", "ca make", "ca issue", "recover", "certify verify"}

// changes are the flags with which a command changes something; without them it shows a plan.
var changes = []string{"--yes", "--return"}

// onPods are the flags with which a command needs pods. The stories of jepsen/kubernetes run it.
var onPods = []string{"--write", "--restart-controllers"}

// Every question of the pages is answered by a real cluster, with an answer or with a refusal: never as a wrong use of the program.
func TestQuestionsAreAnswered(t *testing.T) {
	if why := harness.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	binary := program(t)
	all := questions(t)
	require.NotEmpty(t, all)
	t.Chdir(t.TempDir()) // where backups and bundles go
	c, err := harness.Start(t.Context(), harness.Options{Binary: binary})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Clean(context.Background())) })
	require.Zero(t, ask(t, c, Words{"volumes", "create", variables["VOLUME"], "--size", "64MiB", "--yes"}))
	for _, words := range all {
		t.Run(words.String(), func(t *testing.T) { require.NotEqual(t, usage, ask(t, c, words)) })
	}
	require.Equal(t, usage, ask(t, c, Words{"nodes", "lost"}))
}

// The exit codes of a wrong use, and of a cluster that cannot answer now.
const usage, unavailable = 2, 3

// ask is the exit code of a command, which is repeated while there is no leader.
func ask(t *testing.T, c *harness.Cluster, words Words) int {
	t.Helper()
	var res harness.Result
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, words.String()+" to be answered", func() (bool, error) {
		res = c.Run(t.Context(), append(words[:len(words):len(words)], "--dir", c.Dir)...)
		return res.Code >= 0 && res.Code < unavailable, fmt.Errorf("exit code %d: %s", res.Code, res.Stderr)
	}))
	t.Log(res.Code, strings.TrimSpace(res.Stderr))
	return res.Code
}

// program is the one that make builds, or that the environment names.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv(harness.BinaryVariable)
	if path == "" {
		path = filepath.Join(root, "bin", "holdfast")
	}
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("skipped: build the program first (make build): %v", err)
	}
	return path
}

// questions are the calls of holdfast that the pages have, each once, without the program and without the cluster's folder.
func questions(t *testing.T) (all []Words) {
	t.Helper()
	seen := map[string]bool{}
	for _, path := range pages(t) {
		blocks, err := Blocks(path)
		require.NoError(t, err)
		for _, b := range blocks {
			commands, err := Check(b)
			require.NoError(t, err)
			for _, words := range commands {
				if args, ok := question(t, words); ok && !seen[args.String()] {
					seen[args.String()] = true
					all = append(all, args)
				}
			}
		}
	}
	return all
}

func question(t *testing.T, words Words) (Words, bool) {
	t.Helper()
	if len(words) > 1 && words[0] == "kubectl" && words[1] == "holdfast" {
		words = words[1:]
	}
	if filepath.Base(words[0]) != "holdfast" {
		return nil, false
	}
	args := slices.Clone(words[1:])
	if at := slices.Index(args, "--dir"); at >= 0 {
		args = slices.Delete(args, at, at+2)
	}
	found, _, err := cli.Root().Find(args)
	require.NoError(t, err)
	_, path, _ := strings.Cut(found.CommandPath(), " ")
	has := func(flag string) bool { return slices.Contains(args, flag) }
	return args, !slices.ContainsFunc(changes, has) && !slices.ContainsFunc(onPods, has) && !slices.Contains(needMore, path)
}
