package mount

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

func stat(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	return st
}

// groupHost is a host with a staged filesystem and the options to bind it for a group.
func groupHost(t *testing.T, fsType string) (h *testHost, d executor.Device, staging string, b executor.BindOptions) {
	h = newHost(t)
	d, staging = h.stageNew(fsType)
	return h, d, staging, executor.BindOptions{StagingPath: staging, Path: h.mkdir("pod") + "/target", FSType: fsType}
}

func (h *testHost) boundFor(d executor.Device, b executor.BindOptions, group string) {
	h.t.Helper()
	require.NoError(h.t, h.Unmount(h.t.Context(), d, b.Path))
	b.MountGroup = group
	for range 2 {
		require.NoError(h.t, h.Bind(h.t.Context(), d, b))
	}
}

// S73, CSI-CTRL-VolumeCapability-06, CSI-NODE-NodeGetCapabilities-03: what is there, a
// restored volume's files too, becomes the group's of each publication in turn.
func TestEveryFileIsTheGroupsOfThePublication(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			h, d, staging, b := groupHost(t, fsType)
			require.NoError(t, os.MkdirAll(staging+"/a/b", 0o700))
			require.NoError(t, os.WriteFile(staging+"/a/b/private", nil, 0o600))
			require.NoError(t, os.WriteFile(staging+"/a/program", nil, 0o755))
			require.NoError(t, os.Symlink("/etc/hostname", staging+"/a/link"))
			require.NoError(t, unix.Mkfifo(staging+"/a/pipe", 0o600))
			for group, name := range map[uint32]string{4711: "4711", 12: "12"} {
				h.boundFor(d, b, name)
				for path, want := range map[string]uint32{
					"": 0o2775, "/a": 0o2770, "/a/b": 0o2770, "/a/b/private": 0o660, "/a/program": 0o775, "/a/pipe": 0o660, "/a/link": 0o777,
				} {
					st := stat(t, b.Path+path)
					require.Equal(t, group, st.Gid, path)
					require.Equal(t, want, st.Mode&0o7777, "%s has %o", path, st.Mode)
				}
			}
			require.Zero(t, stat(t, "/etc/hostname").Gid, "links are not followed")
		})
	}
}

// S73, CSI-CTRL-VolumeCapability-07: the group has what is made, whatever the umask,
// and nobody else gains by that the umask does not count.
func TestNewFilesBelongToTheGroupOnly(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			h, d, _, b := groupHost(t, fsType)
			h.boundFor(d, b, "4711")
			for umask, name := range map[int]string{0o077: "/closed", 0o022: "/usual", 0o000: "/open"} {
				func() {
					defer unix.Umask(unix.Umask(umask))
					require.NoError(t, os.Mkdir(b.Path+name, 0o777))
					require.NoError(t, os.WriteFile(b.Path+name+"/file", nil, 0o666))
				}()
				require.NoError(t, os.WriteFile(b.Path+name+"/key", nil, 0o600))
				for path, want := range map[string]uint32{"": 0o2770, "/file": 0o660, "/key": 0o600} {
					st := stat(t, b.Path+name+path)
					require.EqualValues(t, 4711, st.Gid, path)
					require.Equal(t, want, st.Mode&0o7777, "%s%s has %o", name, path, st.Mode)
				}
			}
		})
	}
}

// S73: to give files to a group gives nothing to anybody else.
func TestTheMountGroupGivesNobodyElseAccess(t *testing.T) {
	h, d, staging, b := groupHost(t, "ext4")
	held := acl{{aclOwner, 7, aclNobody}, {aclUser, 6, 1000}, {aclGroup, 4, aclNobody}, {aclMask, 4, aclNobody}, {aclOther, 0, aclNobody}}
	require.NoError(t, os.WriteFile(staging+"/listed", nil, 0o600))
	require.NoError(t, acl(nil).write(staging+"/listed", accessACL, held))
	require.NoError(t, os.Mkdir(staging+"/folder", 0o700))
	require.NoError(t, acl(nil).write(staging+"/folder", defaultACL, held))
	require.NoError(t, os.WriteFile(staging+"/program", nil, 0o700))
	require.NoError(t, unix.Chmod(staging+"/program", 0o6755))
	require.NoError(t, unix.Mknod(staging+"/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
	h.boundFor(d, b, "4711")
	for name, path := range map[string]string{accessACL: "/listed", defaultACL: "/folder"} {
		got, err := readACL(b.Path+path, name)
		require.NoError(t, err)
		bits := map[uint16]uint16{}
		for _, e := range got {
			bits[e.tag] = e.bits
		}
		require.EqualValues(t, 4, bits[aclUser], "what the mask held down stays down: %v", got)
		require.EqualValues(t, 6, bits[aclGroup]&6)
		require.EqualValues(t, 6, bits[aclMask]&6)
		require.Zero(t, bits[aclOther])
	}
	require.EqualValues(t, 0o775, stat(t, b.Path+"/program").Mode&0o7777, "a program runs as nobody else any more")
	disk := stat(t, b.Path+"/disk")
	require.Zero(t, disk.Gid)
	require.EqualValues(t, 0o600, disk.Mode&0o7777)
}

func TestAReadOnlyTargetLeavesTheGroupsAlone(t *testing.T) {
	h, d, staging, b := groupHost(t, "ext4")
	b.MountGroup, b.ReadOnly = "4711", true
	require.NoError(t, h.Bind(t.Context(), d, b))
	require.Zero(t, stat(t, staging).Gid)
}

// An interrupted walk is completed when the call is repeated.
func TestTheGroupIsGivenAgainAfterAnInterruption(t *testing.T) {
	h, d, staging, b := groupHost(t, "ext4")
	require.NoError(t, os.WriteFile(staging+"/file", nil, 0o600))
	b.MountGroup = "4711"
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.Bind(gone, d, b), context.Canceled)
	require.NotContains(t, h.mounts(d), executor.Mount{Path: b.Path})
	require.NoError(t, h.Bind(t.Context(), d, b))
	require.EqualValues(t, 4711, stat(t, b.Path+"/file").Gid)
}

func TestFoldersThatAreTooDeepAreRefused(t *testing.T) {
	h, d, staging, b := groupHost(t, "ext4")
	deep := staging
	for len(deep) < 4000-len(staging) {
		deep = filepath.Join(deep, "d")
	}
	require.NoError(t, os.MkdirAll(deep, 0o700))
	b.MountGroup = "4711"
	requireRejected(t, fsm.Precondition, h.Bind(t.Context(), d, b))
}

func TestAGroupThatIsNoNumberIsRefused(t *testing.T) {
	h, d, _, b := groupHost(t, "ext4")
	for _, bad := range []string{"wheel", "-1", "4294967295", "4294967296", "1;2"} {
		b.MountGroup = bad
		requireRejected(t, fsm.Invalid, h.Bind(t.Context(), d, b))
		require.Len(t, h.mounts(d), 1)
	}
}
