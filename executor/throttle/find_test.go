package throttle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S73: limits reach the pods of every way in which a kubelet keeps them.
func TestKubepodsGroupsAreFound(t *testing.T) {
	d := executor.Device{Path: "/dev/loop7", Number: unix.Mkdev(7, 7)}
	limits := fsm.Limits{ReadIOPS: 5}
	for name, groups := range map[string][]string{
		"systemd":                       {"kubepods.slice"},
		"cgroupfs":                      {"kubepods"},
		"kind, seen from inside":        {"kubelet.slice/kubelet-kubepods.slice"},
		"kind with cgroupfs":            {"kubelet/kubepods"},
		"kind, seen from its host":      {"system.slice/docker-0123.scope/kubelet.slice/kubelet-kubepods.slice"},
		"kind in podman, with a folder": {"machine.slice/libpod-0123.scope/container/kubelet.slice/kubelet-kubepods.slice"},
		"two kubelets":                  {"docker/a/kubelet/kubepods", "docker/b/kubelet/kubepods"},
	} {
		t.Run(name, func(t *testing.T) {
			th := &Throttle{root: t.TempDir(), version: 2}
			require.NoError(t, os.MkdirAll(filepath.Join(th.root, "user.slice/user-0.slice/a/b/c/d/e/f"), 0o755))
			require.NoError(t, th.Apply(t.Context(), d, fsm.Limits{}), "there is nothing to end")
			var rej *fsm.Rejection
			require.ErrorAs(t, th.Apply(t.Context(), d, limits), &rej)
			require.Equal(t, fsm.Precondition, rej.Reason)
			require.Contains(t, rej.Message, "--io-cgroup")
			for _, group := range groups {
				below := filepath.Join(th.root, group, "burstable/kubepods")
				require.NoError(t, os.MkdirAll(below, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(th.root, group, "io.max"), nil, 0o600))
			}
			for range 2 {
				require.NoError(t, th.Check())
				require.NoError(t, th.Apply(t.Context(), d, limits))
			}
			for _, group := range groups {
				text, err := os.ReadFile(filepath.Join(th.root, group, "io.max"))
				require.NoError(t, err)
				require.Equal(t, "7:7 rbps=max wbps=max riops=5 wiops=max", string(text))
			}
		})
	}
}

// With v1 the pods' groups are not bounded by the one above them, and nothing says so
// but this.
func TestWithV1TheGroupMustBeNamed(t *testing.T) {
	th := &Throttle{root: t.TempDir(), version: 1}
	require.NoError(t, os.MkdirAll(filepath.Join(th.root, "kubepods.slice"), 0o755))
	var rej *fsm.Rejection
	require.True(t, th.NeedsGroup())
	require.ErrorAs(t, th.Check(), &rej)
	require.Contains(t, rej.Message, "--io-cgroup")
	d := executor.Device{Path: "/dev/loop7", Number: unix.Mkdev(7, 7)}
	require.ErrorAs(t, th.Apply(t.Context(), d, fsm.Limits{ReadIOPS: 5}), &rej)
	require.Contains(t, rej.Message, "--io-cgroup")
	require.NoError(t, th.Apply(t.Context(), d, fsm.Limits{}), "there is nothing to end")

	th.group = "writers"
	require.False(t, th.NeedsGroup())
	require.NoError(t, os.Mkdir(filepath.Join(th.root, th.group), 0o755))
	for _, kind := range []string{"read_bps", "write_bps", "read_iops", "write_iops"} {
		require.NoError(t, os.WriteFile(filepath.Join(th.root, th.group, "blkio.throttle."+kind+"_device"), nil, 0o600))
	}
	for range 2 {
		require.NoError(t, th.Check())
		require.NoError(t, th.Apply(t.Context(), d, fsm.Limits{ReadIOPS: 5}))
	}
	text, err := os.ReadFile(filepath.Join(th.root, th.group, "blkio.throttle.read_iops_device"))
	require.NoError(t, err)
	require.Equal(t, "7:7 5", string(text))
}
