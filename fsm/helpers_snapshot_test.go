package fsm

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// createSnapshot requests snapshot n, named after it, of a volume.
func createSnapshot(n, volume int) *fsmpb.CreateSnapshot {
	return &fsmpb.CreateSnapshot{SnapshotId: snapshotID(n), Name: fmt.Sprintf("snap-%d", n), SourceVolumeId: volumeID(volume), Fingerprint: bytesOf("class", 32)}
}

// createGroup asks for group n of volumes; member i is snapshot 100n+i.
func createGroup(n int, volumes ...int) *fsmpb.CreateGroupSnapshot {
	c := &fsmpb.CreateGroupSnapshot{GroupSnapshotId: groupID(n), Name: fmt.Sprintf("group-%d", n), Fingerprint: bytesOf("class", 32)}
	for i, v := range volumes {
		c.Members = append(c.Members, &fsmpb.GroupMember{SourceVolumeId: volumeID(v), SnapshotId: snapshotID(100*n + i)})
	}
	return c
}

func (w *world) snapshot(n int) *Snapshot {
	w.t.Helper()
	s, ok := w.s.Snapshot(SnapshotID(snapshotID(n)))
	require.True(w.t, ok, "snapshot %d", n)
	return s
}

func (w *world) groupSnapshot(n int) *GroupSnapshot {
	w.t.Helper()
	g, ok := w.s.GroupSnapshot(GroupSnapshotID(groupID(n)))
	require.True(w.t, ok, "group %d", n)
	return g
}

// snapshotObservation is an observation of snapshot n.
func snapshotObservation(n int, fact any) *fsmpb.Observation {
	o := &fsmpb.Observation{SnapshotId: snapshotID(n)}
	switch f := fact.(type) {
	case *fsmpb.SnapshotCut:
		o.Fact = &fsmpb.Observation_SnapshotCut{SnapshotCut: f}
	case *fsmpb.SnapshotGone:
		o.Fact = &fsmpb.Observation_SnapshotGone{SnapshotGone: f}
	case *fsmpb.SnapshotMissing:
		o.Fact = &fsmpb.Observation_SnapshotMissing{SnapshotMissing: f}
	case *fsmpb.Frozen:
		o.Fact = &fsmpb.Observation_Frozen{Frozen: f}
	case *fsmpb.Thawed:
		o.Fact = &fsmpb.Observation_Thawed{Thawed: f}
	case *fsmpb.StepFailed:
		o.Fact = &fsmpb.Observation_StepFailed{StepFailed: f}
	case *fsmpb.Progress:
		o.Fact = &fsmpb.Observation_Progress{Progress: f}
	}
	return o
}

// takenReport reports that snapshot n was taken, at so many nanoseconds, in an attempt.
func takenReport(n int, at int64, attempt uint32) *fsmpb.Observation {
	return snapshotObservation(n, &fsmpb.SnapshotCut{SizeBytes: gib, CutUnixNano: at, Attempt: attempt})
}

func frozenReport(n int, attempt uint32) *fsmpb.Observation {
	return snapshotObservation(n, &fsmpb.Frozen{Attempt: attempt})
}

func goneReport(n int, attempt uint32) *fsmpb.Observation {
	return snapshotObservation(n, &fsmpb.SnapshotGone{Attempt: attempt})
}

// takeSnapshot takes snapshot n of a volume of 1 GiB on node n1.
func (w *world) takeSnapshot(n, volume int) *Snapshot {
	w.t.Helper()
	w.ok("controller/c1", createSnapshot(n, volume))
	w.report("n1", takenReport(n, int64(n), 0))
	require.Equal(w.t, SnapshotReady, w.snapshot(n).Phase)
	return w.snapshot(n)
}

// takeGroup makes group n of volumes on node n1.
func (w *world) takeGroup(n int, volumes ...int) *GroupSnapshot {
	w.t.Helper()
	w.ok("controller/c1", createGroup(n, volumes...))
	attempt := w.groupSnapshot(n).Attempt
	for i := range volumes {
		w.report("n1", frozenReport(100*n+i, attempt))
	}
	for i := range volumes {
		w.report("n1", takenReport(100*n+i, int64(50-i), attempt))
	}
	require.Equal(w.t, GroupReady, w.groupSnapshot(n).Phase)
	return w.groupSnapshot(n)
}

// createFrom requests volume n from a source, without a size.
func createFrom(n int, source *fsmpb.Source) *fsmpb.CreateVolume {
	c := create(n)
	c.RequiredBytes, c.Source = 0, source
	return c
}

func fromSnapshot(n int) *fsmpb.Source { return &fsmpb.Source{SnapshotId: snapshotID(n)} }
func fromVolume(n int) *fsmpb.Source   { return &fsmpb.Source{VolumeId: volumeID(n)} }

// snapshotGoal is node n1's goal for snapshot n; zero for none.
func (w *world) snapshotGoal(n int) SnapshotGoal {
	desired, _ := w.s.DesiredSnapshot("n1", SnapshotID(snapshotID(n)))
	return desired.Goal
}
