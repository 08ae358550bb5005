package node

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestMissingRequirementsAreReportedInOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		euid    int
		missing string
		pools   []string
		want    string
	}{
		"root":      {euid: 1000, want: "run it as root"},
		"mkfs.ext4": {missing: "mkfs.ext4", want: "e2fsprogs"},
		"mkfs.xfs":  {missing: "mkfs.xfs", want: "xfsprogs"},
		"lvm":       {missing: "lvm", pools: []string{"lvm:vg/pool"}, want: "lvm2"},
		"thin_ls":   {missing: "thin_ls", pools: []string{"lvm:vg/pool"}, want: "thin-provisioning-tools"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { effectiveUID = os.Geteuid })
			effectiveUID = func() int { return tc.euid }
			for range 2 {
				err := checkHost(&options{pools: tc.pools}, func(tool string) (string, error) {
					if tool == tc.missing {
						return "", &run.MissingError{Tool: tool, Package: tc.want}
					}
					return "/sbin/" + tool, nil
				})
				require.ErrorContains(t, err, tc.want)
				require.Equal(t, exit.Refused, exit.Code(err))
				require.NotContains(t, exit.Line(err), "\n")
			}
		})
	}
}

func TestRequiredToolsFollowThePools(t *testing.T) {
	t.Cleanup(func() { effectiveUID = os.Geteuid })
	effectiveUID = func() int { return 0 }
	asked := map[string]bool{}
	look := func(tool string) (string, error) { asked[tool] = true; return "/sbin/" + tool, nil }
	require.NoError(t, checkHost(&options{pools: []string{"lvm:vg/pool"}}, look), "without loop devices")
	require.True(t, asked["thin_dump"])
	clear(asked)
	if err := checkHost(&options{poolDir: "/p"}, look); err != nil {
		require.ErrorContains(t, err, "modprobe loop")
	}
	require.False(t, asked["lvm"])
}

func TestTheFolderPoolIsTheDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		pools    []string
		explicit bool
		folder   string
	}{
		"nothing is said":       {folder: "/default"},
		"a thin pool":           {pools: []string{"lvm:vg/pool"}},
		"a thin pool and files": {pools: []string{"lvm:vg/pool"}, explicit: true, folder: "/default"},
		"files":                 {explicit: true, folder: "/default"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{poolDir: "/default", pools: tc.pools}
			for range 2 {
				o.applyPoolDefaults(tc.explicit)
				require.NoError(t, (&node{options: o}).rootPoolDir())
				require.Equal(t, tc.folder, o.poolDir)
			}
		})
	}
	o := &options{pools: []string{"lvm:vg-a/pool.0", "lvm:vg/pool"}}
	pools, err := o.thinPools()
	require.NoError(t, err)
	require.Equal(t, []thinPool{{"vg-a", "pool.0"}, {"vg", "pool"}}, pools)
	require.Equal(t, "lvm:vg-a/pool.0", pools[0].name())
	for _, wrong := range []string{"", "lvm:", "lvm:vg", "lvm:/pool", "lvm:vg/", "zfs:a/b", "vg/pool"} {
		_, err := (&options{pools: []string{wrong}}).thinPools()
		require.Error(t, err, wrong)
	}
}

// S25.
func TestS25_PoolsOfEachKindAreOvercommittedAlike(t *testing.T) {
	require.Equal(t, map[string]uint32{"loopfile": 200, "lvm": 200}, (&options{}).overcommitPercents())
	require.Equal(t, map[string]uint32{"loopfile": 150, "lvm": 150}, (&options{overcommit: 1.5}).overcommitPercents())
}

func TestS12_OnlyAFolderThatWasNeverAPoolBecomesOne(t *testing.T) {
	data, pool := t.TempDir(), filepath.Join(t.TempDir(), "pool")
	require.NoError(t, os.Chmod(data, 0o700))
	first := openTestComponents(t, data, pool)
	id := first.pools[0].ID()
	require.NotEmpty(t, id)
	require.NoError(t, first.close())
	require.NoError(t, os.RemoveAll(pool))
	require.NoError(t, os.MkdirAll(pool, 0o700)) // as when its filesystem is not mounted
	for range 2 {
		again := openTestComponents(t, data, pool)
		require.Equal(t, id, again.pools[0].ID())
		require.True(t, again.pools[0].Facts(t.Context()).Absent)
		require.NoError(t, again.close())
	}
	left, err := os.ReadDir(pool)
	require.NoError(t, err)
	require.Empty(t, left, "nothing was made in it")
}

func openTestComponents(t *testing.T, data, pool string) *components {
	t.Helper()
	p := &components{}
	require.NoError(t, p.openIdentity(data))
	require.NoError(t, p.openFolderPool(pool, run.New(), false))
	return p
}

func TestTwoNodesDoNotShareADataFolder(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.Chmod(data, 0o700))
	first := &components{}
	require.NoError(t, first.openIdentity(data))
	for range 2 {
		second := &components{}
		require.ErrorContains(t, second.openIdentity(data), "stop it first")
		require.NoError(t, second.close())
	}
	require.NoError(t, first.close())
}

func TestS125_ANodeWarnsOfMountsThatAreNotPropagated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	root := t.TempDir()
	require.NoError(t, unix.Mount("none", root, "tmpfs", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) })
	for propagation, want := range map[uintptr]string{unix.MS_PRIVATE: "mount --make-rshared " + root, unix.MS_SHARED: ""} {
		require.NoError(t, unix.Mount("", root, "", propagation, ""))
		p := &components{}
		require.NoError(t, p.openMounter([]string{root}, fsm.MountPolicy{}, run.New()))
		var logged bytes.Buffer
		require.NoError(t, p.checkPropagation(slog.New(slog.NewTextHandler(&logged, nil))))
		require.NoError(t, p.close())
		require.Contains(t, logged.String(), want)
		require.Equal(t, want == "", logged.Len() == 0)
	}
}
