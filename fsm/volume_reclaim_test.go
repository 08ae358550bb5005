package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func beginReclaim(n int) *fsmpb.BeginReclaim { return &fsmpb.BeginReclaim{VolumeId: volumeID(n)} }

func endReclaim(n int) *fsmpb.EndReclaim { return &fsmpb.EndReclaim{VolumeId: volumeID(n)} }

func reclaimedFact(epoch Epoch, sequence uint64, reason Reason) *fsmpb.Observation {
	f := &fsmpb.Reclaimed{Known: true, BeforeBytes: 9, AfterBytes: 4, Reason: uint32(reason)}
	if reason != 0 {
		f.Error = "it is so"
	}
	return &fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch.Proto(), Sequence: sequence, Fact: &fsmpb.Observation_Reclaimed{Reclaimed: f}}
}

// newFormatted has a volume with a filesystem that is not published.
func newFormatted(t *testing.T) *world {
	w := newWorld(t)
	w.ready(1, create(1))
	w.changeVolume(func(v *Volume) {
		v.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: ext4, FSUUID: "u", Epoch: Epoch{1, 1}}
	})
	return w
}

// stageReclaim has the host begin.
func (w *world) stageReclaim(sequence uint64) *fsmpb.StageVolume {
	s := w.stage(1, "n1", sequence)
	s.StagingPath = ReclaimPath
	return s
}

// ADD-RS-ControllerReclaimSpace-02, -14, S61: the host with the content gets an internal publication, a
// repetition joins it, and what came of it is told when the host has taken everything down.
func TestS61_AReclaimIsAnInternalPublication(t *testing.T) {
	w := newFormatted(t)
	epoch := EpochFrom(w.twice(controller, beginReclaim(1)).GetEpoch())
	require.Equal(t, epoch, w.volume(1).Publication("n1").Epoch)
	require.Zero(t, w.s.PublicationCount("n1"), "no orchestrator counts it")
	require.Empty(t, w.s.UnpublishProgress(controller, VolumeID(volumeID(1)), "").Held, "nor ends it")
	w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.rejected(Precondition, "node/n1", w.stage(1, "n1", 1)) // at a path of the orchestrator
	w.ok("node/n1", w.stageReclaim(1))
	w.report("n1", reclaimedFact(epoch, 2, 0))
	r, rej := w.s.VolumeReclaim(VolumeID(volumeID(1)), epoch)
	require.Nil(t, rej)
	require.Nil(t, r, "it is still up")
	w.report("n1", unstaged(1, epoch, 3))
	require.Empty(t, w.volume(1).Publications())
	require.Empty(t, w.volume(1).Teardowns)
	r, rej = w.s.VolumeReclaim(VolumeID(volumeID(1)), epoch)
	require.Nil(t, rej)
	require.Equal(t, &Reclaimed{Epoch: epoch, Known: true, Before: 9, After: 4}, r)
	require.NoError(t, w.s.Check())
}

// ADD-RS-ControllerReclaimSpace-11, S61: nothing else is done to the volume until the reclaim ended, which is
// asked for, and then all of it is.
func TestS61_AReclaimEndsBeforeAnythingElse(t *testing.T) {
	others := map[string]proto.Message{
		"publish":  publish(1, "n1"),
		"delete":   &fsmpb.DeleteVolume{VolumeId: volumeID(1)},
		"expand":   &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 4 << 30},
		"snapshot": &fsmpb.CreateSnapshot{SnapshotId: snapshotID(1), Name: "s", SourceVolumeId: volumeID(1)},
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			w := newFormatted(t)
			epoch := EpochFrom(w.ok(controller, beginReclaim(1)).GetEpoch())
			w.ok("node/n1", w.stageReclaim(1))
			w.rejected(Busy, controller, other)
			require.Equal(t, VolumeID(volumeID(1)), w.s.ReclaimInTheWay(envelope(controller, "x", 1, other)))
			w.twice(controller, endReclaim(1))
			require.True(t, w.volume(1).Publication("n1").Ending)
			w.rejected(Busy, controller, other)
			w.rejected(Busy, controller, beginReclaim(1))
			w.report("n1", unstaged(1, epoch, 2))
			_, rej := w.s.VolumeReclaim(VolumeID(volumeID(1)), epoch)
			require.Equal(t, Busy, rej.Why(), "its caller retries")
			w.ok(controller, other)
		})
	}
}

// S61: a reclaim that its host has not begun ends at once, and one on an unreachable host as any publication.
func TestS61_AReclaimThatNobodyBeganEndsAtOnce(t *testing.T) {
	w := newFormatted(t)
	w.ok(controller, beginReclaim(1))
	w.twice(controller, endReclaim(1))
	require.Empty(t, w.volume(1).Publications())
	w.twice(controller, endReclaim(1))
	w.twice(controller, endReclaim(9))

	w.ok(controller, beginReclaim(1))
	w.ok("node/n1", w.stageReclaim(1))
	w.setUnreachable("n1", true)
	w.ok(controller, endReclaim(1))
	require.Empty(t, w.volume(1).Publications())
	require.Len(t, w.volume(1).Teardowns, 1)
	require.NoError(t, w.s.Check())
}

// ADD-RS-ControllerReclaimSpace-03, -10, S61: what has nothing to discard is left as it is.
func TestS61_WhatHasNothingToDiscardIsNotPublished(t *testing.T) {
	for name, change := range map[string]func(*Volume){
		"never formatted":                func(v *Volume) { v.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED} },
		"raw":                            func(v *Volume) { v.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_RAW} },
		"a clone that was never mounted": func(v *Volume) { v.Format.Cloned, v.Format.Epoch = true, Epoch{} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFormatted(t)
			w.changeVolume(change)
			require.Nil(t, w.twice(controller, beginReclaim(1)).GetEpoch())
			require.Empty(t, w.volume(1).Publications())
		})
	}
	w := newFormatted(t)
	w.ok(controller, publish(1, "n1"))
	require.Nil(t, w.twice(controller, beginReclaim(1)).GetEpoch(), "it is published")
	w.rejected(NotFound, controller, beginReclaim(7))
	w = newFormatted(t)
	w.setUnreachable("n1", true)
	require.Equal(t, uint32(Unreachable), w.apply(controller, beginReclaim(1)).GetRejection().GetReason())
}

// S61: a failure is told with its reason, and a report of another epoch tells nothing.
func TestS61_WhatCameOfAReclaimIsOfItsEpoch(t *testing.T) {
	w := newFormatted(t)
	epoch := EpochFrom(w.ok(controller, beginReclaim(1)).GetEpoch())
	w.report("n1", reclaimedFact(Epoch{1, 1}, 1, 0))
	require.Nil(t, w.volume(1).Reclaimed)
	w.report("n1", reclaimedFact(epoch, 2, Unsupported))
	require.Empty(t, w.volume(1).Publications(), "it had not begun")
	_, rej := w.s.VolumeReclaim(VolumeID(volumeID(1)), epoch)
	require.Equal(t, Unsupported, rej.Why())
}
