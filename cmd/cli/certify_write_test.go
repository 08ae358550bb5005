package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-storage/holdfast/admin/certify"
	"github.com/holdfast-storage/holdfast/cmd/certify/blocks"
	"github.com/holdfast-storage/holdfast/kube/scratch"
)

func TestWritesThatNoClusterCanFollow(t *testing.T) {
	for _, tc := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--write"}, "--write makes pods: it needs --kube"},
		{[]string{"--write-class", "fast", "--kube"}, "--write-class does nothing without --write"},
		{[]string{"--write-hosts=2"}, "--write-hosts does nothing without --write"},
		{[]string{"--restart-node-plugins"}, "--restart-node-plugins does nothing without --write"},
		{[]string{"--kube", "--write", "--write-hosts=0"}, "--write-hosts 0: choose 1 to 32"},
		{[]string{"--kube", "--write", "--write-size=1MiB"}, "--write-size 1048576: choose 16777216 to"},
	} {
		_, stderr := run(t, 2, append([]string{"certify"}, tc.flags...)...)
		require.Contains(t, stderr, tc.says)
	}
}

// TestAReportThatCannotBeWrittenIsNoDrillsEnd: nothing is asked of the cluster before.
func TestAReportThatCannotBeWrittenIsNoDrillsEnd(t *testing.T) {
	folder := t.TempDir()
	for _, out := range []string{folder, filepath.Join(folder, "none", "report"), "/dev/null"} {
		_, stderr := run(t, 2, "certify", "--yes", "--out", out)
		require.Contains(t, stderr, "the report could not be written")
	}
	file := filepath.Join(folder, "report")
	require.NoError(t, os.WriteFile(file, []byte("former"), 0o600))
	_, stderr := run(t, 2, "certify", "--yes", "--out", file)
	require.NotContains(t, stderr, "the report could not be written")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "former", string(content))
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestTheImageIsTheControllers(t *testing.T) {
	pod := controllerPod("a", corev1.ConditionTrue)
	_, ok := scratch.ProgramOf(pod)
	require.False(t, ok)
	pod.Spec = corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}, Containers: []corev1.Container{{Name: "csi-attacher"}, {Name: "holdfast", Image: "i", ImagePullPolicy: corev1.PullNever}}}
	program, ok := scratch.ProgramOf(pod)
	require.True(t, ok)
	require.Equal(t, scratch.Program{Image: "i", Policy: corev1.PullNever, Pull: pod.Spec.ImagePullSecrets}, program)
}

// TestThePodsReadWhatTheyWrote by the program that they run.
func TestThePodsReadWhatTheyWrote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "blocks")
	flags := []string{"--file", file, "--run", "0123456789abcdef", "--places", "8"}
	run(t, 2, scratch.Blocks, "write", "--file", file)
	run(t, 1, append([]string{scratch.Blocks, "read"}, flags...)...)
	stopped, stop := context.WithCancel(t.Context())
	stop() // it writes one block
	w := blocks.Writer{Run: "0123456789abcdef", Path: file, Places: 8}
	require.NoError(t, w.Write(stopped, t.Output()))
	for acknowledged, missing := range map[string]uint64{"1": 0, "2": 1} {
		out, _ := run(t, 0, append([]string{scratch.Blocks, "read", "--acknowledged", acknowledged}, flags...)...)
		var found certify.ReadBack
		require.NoError(t, json.Unmarshal([]byte(out), &found))
		require.Equal(t, missing, found.Missing)
	}
	run(t, 1, append([]string{scratch.Blocks, "write"}, flags...)...)
}
