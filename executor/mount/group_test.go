package mount

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// CSI-CTRL-VolumeCapability-06, CSI-NODE-NodeGetCapabilities-03.
func TestNewFilesAreTheGroupsToReadAndWrite(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			h := newHost(t)
			d, dir := h.formatted(fsType), h.mkdir("staging")
			o := executor.MountOptions{Path: dir, FSType: fsType, Group: "4711"}
			for range 2 {
				require.NoError(t, h.Mount(t.Context(), d, o))
			}
			defer unix.Umask(unix.Umask(0o027))
			require.NoError(t, os.WriteFile(dir+"/file", nil, 0o666))
			require.NoError(t, os.Mkdir(dir+"/sub", 0o777))
			require.NoError(t, os.WriteFile(dir+"/sub/file", nil, 0o666))
			for path, want := range map[string]uint32{dir: 0o2070, dir + "/file": 0o060, dir + "/sub": 0o2070, dir + "/sub/file": 0o060} {
				var st unix.Stat_t
				require.NoError(t, unix.Stat(path, &st))
				require.EqualValues(t, 4711, st.Gid, path)
				require.Equal(t, want, st.Mode&0o2070, path)
			}
			require.NoError(t, h.Unmount(t.Context(), d, dir))
			o.Group, o.ReadOnly = "12", true
			require.NoError(t, h.Mount(t.Context(), d, o), "what is read-only is left as it is")
		})
	}
}

func TestAGroupThatIsNoNumberIsRefused(t *testing.T) {
	h := newHost(t)
	d := h.formatted("ext4")
	for _, bad := range []string{"wheel", "-1", "4294967295", "4294967296", "1;2"} {
		refused(t, fsm.Invalid, h.Mount(t.Context(), d, executor.MountOptions{Path: h.mkdir("staging"), FSType: "ext4", Group: bad}))
		require.Empty(t, h.mounts(d))
	}
}
