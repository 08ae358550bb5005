package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S116: a replica stays while its host makes a clone, a snapshot or a member of a group from
// it; one that serves for none of them may leave meanwhile.
func TestAReplicaStaysWhileItIsCopiedFrom(t *testing.T) {
	leave := func(node string) *fsmpb.RemoveReplica {
		return &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: node, HostId: "host-" + node, Reason: "drained"}
	}
	for name, tc := range map[string]struct{ make, end func(*world) }{
		"volume": {
			make: func(w *world) { w.ok(controller, createClone(2, 1, nil, terms("n2"))) },
			end: func(w *world) {
				w.report("n2", volumeObservation(2, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gib}}))
			},
		},
		"snapshot": {
			make: func(w *world) {
				w.setUnreachable("n1", true)
				w.ok(controller, &fsmpb.CreateSnapshot{SnapshotId: snapshotID(2), Name: "snap", SourceVolumeId: volumeID(1)})
				w.setUnreachable("n1", false)
			},
			end: func(w *world) {
				w.report("n2", snapshotObservation(2, &fsmpb.SnapshotCut{SizeBytes: gib, CutUnixNano: 5}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := withThird(t)
			tc.make(w)
			require.Contains(t, w.rejected(Busy, admin, leave("n2")).GetRejection().GetMessage(), name+" h")
			other := &world{t: t, s: w.s.Fork(), index: w.index, calls: w.calls}
			other.ok(admin, leave("n1"))
			tc.end(w)
			w.ok(admin, leave("n2"))
		})
	}
}

// S72: at level 1 it may leave, as it could.
func TestS72_AtLevel1AReplicaLeavesThatIsCopiedFrom(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.ok(controller, createClone(2, 1, nil, nil))
	w.ok(admin, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: "n1", HostId: "host-n1", Reason: "drained"})
}

// S116, S72: what failed at level 1 is made again at level 2 only where its source is.
func TestAFailedCloneIsRetriedWhereItsSourceIs(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.ok(controller, createClone(2, 1, nil, nil))
	w.report("n1", volumeObservation(2, &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "copy", Error: "I/O error", Final: true}}))
	retry := &fsmpb.RetryOperation{OperationId: uint64(w.volume(2).Operation.ID)}
	w.ok(admin, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: "n1", HostId: "host-n1", Reason: "drained"})
	w.report("n1", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	w.ok(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	w.rejected(Precondition, admin, retry)
}

// S72: what failed at level 1, and whose source is gone, is not made again, and the answer says what is gone.
func TestAFailedCloneOfWhatIsGoneIsNotRetried(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.takeSnapshot(1, 1)
	w.ok(controller, createFrom(2, fromSnapshot(1)))
	w.report("n1", volumeObservation(2, &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "copy", Error: "I/O error", Final: true}}))
	w.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	w.ok(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	out := w.rejected(NotFound, admin, &fsmpb.RetryOperation{OperationId: uint64(w.volume(2).Operation.ID)})
	require.Contains(t, out.GetRejection().GetMessage(), "snapshot "+snapshotID(1)+" is not known")
}

// S15, S49: what a replica had that lost while the volume was being formatted is no
// filesystem: a volume of that copy is one that nothing was made on yet.
func TestS49_AKeptCopyOfAVolumeThatWasJustFormatted(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok("node/n1", w.stage(1, "n1", 1))
	epoch := w.volume(1).Publication("n1").Epoch
	publicationRevoked1(w)
	takeover1(w)
	w.setUnreachable("n1", false)
	w.reportCurrent(1, "n1", ReplicaObservation{Unconfigured: true})
	w.unstaged(1, "n1", epoch)
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, w.volume(1).Format.Phase)
	w.keptCopy(1, "n1")

	w.ready(3, createFrom(3, &fsmpb.Source{SnapshotId: snapshotID(1)}))
	require.Equal(t, Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED}, w.volume(3).Format)
	w.ok(controller, publish(3, "n1"))
	c := w.stage(3, "n1", 1)
	c.FsUuid = "uuid-3"
	require.Equal(t, "uuid-3", w.ok("node/n1", c).GetGrant().GetFormat().GetFsUuid(), "it is formatted as one of its own")
}
