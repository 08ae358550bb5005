package cluster

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// lostSnapshots are snapshots of a volume that is never deleted, taken before the backup and after it.
type lostSnapshots struct {
	*lostLog
	of    *harness.Volume
	ids   map[string]string // that the orchestrator has, by name
	group *csi.VolumeGroupSnapshot
}

// newLostSnapshots has two snapshots before the backup. The volume's name is none of those that operate changes.
func newLostSnapshots(l *lostLog) *lostSnapshots {
	s := &lostSnapshots{lostLog: l, of: l.create("source-2"), ids: map[string]string{}}
	l.use(s.of)
	s.take("before-kept")
	s.take("before-deleted")
	return s
}

func (s *lostSnapshots) take(name string) {
	s.t.Helper()
	id, err := s.co.Snapshot(s.t.Context(), name, s.of)
	require.NoError(s.t, err)
	s.ids[name] = id
}

// goOn takes and deletes snapshots after the backup.
func (s *lostSnapshots) goOn() {
	s.t.Helper()
	s.take("after")
	require.NoError(s.t, s.co.DeleteSnapshot(s.t.Context(), s.ids["before-deleted"]))
	delete(s.ids, "before-deleted")
	group, err := s.co.Group(s.t.Context(), "group-after", s.of)
	require.NoError(s.t, err)
	s.group = group
	kept := []string{s.ids["after"]}
	for _, member := range group.GetSnapshots() {
		kept = append(kept, member.GetSnapshotId())
	}
	for _, id := range kept {
		require.NoError(s.t, s.AwaitManifest(s.t.Context(), "n1", id), "what its host did not hear before the log is lost it cannot say")
	}
}

// images are the files of snapshots on all hosts.
func (s *lostSnapshots) images() (names []string) {
	s.t.Helper()
	layout, err := s.Layout()
	require.NoError(s.t, err)
	for _, n := range layout.Nodes {
		entries, err := os.ReadDir(filepath.Join(n.PoolDir, "snapshots"))
		require.NoError(s.t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// requireAdopted: the orchestrator has each snapshot that it had, under its id; what it asks for again it gets; and what was
// in it is there.
func (s *lostSnapshots) requireAdopted() {
	s.t.Helper()
	var want []string // the members of groups are not among them
	for _, id := range s.ids {
		want = append(want, id)
	}
	have, err := s.co.Snapshots(s.t.Context())
	require.NoError(s.t, err)
	require.ElementsMatch(s.t, want, have)
	for name, id := range s.ids {
		again, err := s.co.Snapshot(s.t.Context(), name, s.of)
		require.NoError(s.t, err)
		require.Equal(s.t, id, again)
	}
	group, err := s.co.Group(s.t.Context(), "group-after", s.of)
	require.NoError(s.t, err)
	require.Equal(s.t, s.group.GetGroupSnapshotId(), group.GetGroupSnapshotId())
	v, err := s.co.Restore(s.t.Context(), harness.Spec{Name: "restored", Node: "n1"}, s.ids["after"])
	require.NoError(s.t, err)
	require.NoError(s.t, s.co.PublishStageBind(s.t.Context(), v, "n1"))
	require.NoError(s.t, sameData(v, s.data[s.of.Name]))
	require.NoError(s.t, s.co.UnbindUnstageUnpublish(s.t.Context(), v))
}

// remove deletes all snapshots.
func (s *lostSnapshots) remove() {
	s.t.Helper()
	for _, id := range s.ids {
		require.NoError(s.t, s.co.DeleteSnapshot(s.t.Context(), id))
	}
	require.NoError(s.t, s.co.DeleteGroup(s.t.Context(), s.group))
}
