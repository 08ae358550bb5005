package verbs

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/faultfs"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestS24_BackupsWhileAMemberInstallsARaftSnapshot: a controller with an empty folder installs the leader's Raft snapshot, which its disk holds up.
// Asked then, it refuses with a reason, also for what it has itself; the leader gives whole backups, and the older ones stay.
func TestS24_BackupsWhileAMemberInstallsARaftSnapshot(t *testing.T) {
	if why := faultfs.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	o := start(t, harness.Options{Flags: []string{"--controller-arg=--snapshot-threshold=8", "--controller-arg=--snapshot-interval=100ms",
		"--controller-arg=--disk-hang=10m", "--controller-arg=--log-store=boltdb"}})
	b := &backups{operator: o, co: o.NewCO(), folder: t.TempDir()}
	for range 12 { // more entries than the leader keeps behind a snapshot
		b.create()
	}
	require.NoError(t, o.AwaitAgreement(t.Context()))
	require.True(t, b.backup(b.api("c3")...))
	held := b.installsSlowly("c3")
	b.refuses("c3")
	require.True(t, b.backup(b.api("c1")...))
	b.create()
	require.True(t, b.backup(b.api("c1")...))
	require.Equal(t, 1, held.Hits(), "it installs the snapshot still")
	o.must("backup", "verify", filepath.Join(b.folder, "backup-1"))
	held.End()
	require.NoError(t, o.AwaitAgreement(t.Context()))
	require.True(t, b.backup(b.api("c3")...))
}

// refuses: a controller without a state gives no backup, also not of its own state.
func (b *backups) refuses(id string) {
	b.t.Helper()
	path := filepath.Join(b.folder, "refused")
	for _, own := range [][]string{nil, {"--stale"}} {
		res := b.Run(b.t.Context(), append(append([]string{"backup", path, "--timeout", "1s"}, own...), b.flags(b.api(id)...)...)...)
		require.Contains(b.t, []int{1, 3}, res.Code, res.Stderr)
		require.Regexp(b.t, "back up to .*: .+", res.Stderr)
		require.NoFileExists(b.t, path)
		b.t.Log(res.Stderr)
	}
}

// installsSlowly has a controller lose its folder, and returns once its disk holds up the snapshot that it gets.
func (b *backups) installsSlowly(id string) *faultfs.Injection {
	b.t.Helper()
	l, err := b.Layout()
	require.NoError(b.t, err)
	member := regexp.MustCompile(`"id": "` + id + `",\s*"member_id": "([0-9a-f-]+)"`).FindStringSubmatch(b.ask("members", "-o", "json"))
	require.NotNil(b.t, member)
	_, err = b.Signal(id, syscall.SIGKILL)
	require.NoError(b.t, err)
	require.NoError(b.t, b.AwaitDead(b.t.Context(), id))
	require.NoError(b.t, os.RemoveAll(l.DataDir(id)))
	require.NoError(b.t, os.Mkdir(l.DataDir(id), 0o700))
	fs, err := faultfs.Mount(b.t.TempDir(), l.DataDir(id))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { // before the cluster is removed
		fs.Heal()
		require.NoError(b.t, b.Stop(context.Background()))
		require.NoError(b.t, fs.Unmount())
	})
	held := fs.Inject(faultfs.Rule{Fault: faultfs.Hang, Files: "state.bin", Times: 1})
	res := b.Run(b.t.Context(), "dev", "start", "--dir", b.Dir, id)
	require.Contains(b.t, []int{0, 3}, res.Code, res.Stderr)
	b.ask("members", "replace", member[1], "--yes")
	require.NoError(b.t, harness.Poll(b.t.Context(), harness.Patience, id+" to install a snapshot", func() (bool, error) { return held.Hits() > 0, nil }))
	return held
}

// TestS28_BackupsOfAControllerWhoseOwnDiskIsFull: it gives a whole backup where there is room for it, and leaves the older ones on the full disk.
func TestS28_BackupsOfAControllerWhoseOwnDiskIsFull(t *testing.T) {
	o := start(t, harness.Options{Controllers: 1, Flags: []string{"--controller-arg=--log-store=boltdb", "--controller-arg=--disk-reserve=-1"}})
	b := &backups{operator: o, co: o.NewCO(), folder: t.TempDir()}
	b.create()
	require.NoError(t, o.Stop(t.Context()))
	disk, err := o.PutOnDisk(t.Context(), "c1", 64*harness.Mi)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, o.Stop(context.Background()))
		require.NoError(t, disk.Remove(context.Background()))
	})
	require.NoError(t, o.Resume(t.Context()))
	older := filepath.Join(disk.Root(), "older")
	o.ask("backup", older)
	before, err := os.ReadFile(older)
	require.NoError(t, err)
	require.NoError(t, disk.Fill(0))
	elsewhere := filepath.Join(b.folder, "elsewhere")
	for range 2 {
		b.wholeOrRefused(elsewhere)
		b.wholeOrRefused(elsewhere, "--since-backup", older)
		require.Zero(t, b.wholeOrRefused(elsewhere, "--stale"), "its own state is in memory")
		require.NotZero(t, b.wholeOrRefused(older), "there is no room for it")
		now, err := os.ReadFile(older)
		require.NoError(t, err)
		require.Equal(t, before, now)
	}
	require.NoError(t, disk.Free())
	b.create()
	require.True(t, b.backup(b.api("c1")...))
}

// wholeOrRefused asks c1 for a backup in the place of one, and returns how that ended. One that is refused says why, and leaves what was there.
func (b *backups) wholeOrRefused(path string, more ...string) int {
	b.t.Helper()
	before, _ := os.ReadFile(path)
	res := b.Run(b.t.Context(), append(append([]string{"backup", path}, more...), b.flags(b.api("c1")...)...)...)
	if res.Code != 0 {
		require.Contains(b.t, []int{1, 3}, res.Code)
		require.Regexp(b.t, "no space left|disk is full|take a full backup", res.Stderr)
		after, _ := os.ReadFile(path)
		require.Equal(b.t, before, after)
		return res.Code
	}
	if len(more) == 2 {
		b.must("backup", "verify", more[1], path)
		require.NoError(b.t, os.Remove(path)) // an increment
		return 0
	}
	b.must("backup", "verify", path)
	return 0
}
