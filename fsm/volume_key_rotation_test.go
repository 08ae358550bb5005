package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// stagedEncrypted has volume 1, encrypted and staged on n1.
func stagedEncrypted(t *testing.T) *rotating {
	w := &rotating{world: encryptedWorld(t), sequence: 1}
	w.ok("node/n1", w.stageEncrypted(1, "luks-1", w.sequence))
	w.headerMade(1, "luks-1")
	w.reportNext(&fsmpb.Observation{Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: w.volume(1).Format.FSUUID}}})
	w.reportNext(&fsmpb.Observation{Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
	return w
}

type rotating struct {
	*world
	sequence uint64
}

func (w *rotating) next() uint64 {
	w.sequence++
	return w.sequence
}

func (w *rotating) reportNext(o *fsmpb.Observation) *fsmpb.Outcome {
	w.t.Helper()
	o.VolumeId, o.Epoch, o.Sequence = volumeID(1), w.volume(1).Publication("n1").Epoch.Proto(), w.next()
	return w.report("n1", o)
}

func (w *rotating) unstage() {
	w.t.Helper()
	w.reportNext(&fsmpb.Observation{Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
}

func (w *rotating) added(slot uint32) *fsmpb.Outcome {
	w.t.Helper()
	return w.reportNext(&fsmpb.Observation{Fact: &fsmpb.Observation_KeyAdded{KeyAdded: &fsmpb.KeyAdded{Slot: slot}}})
}

func (w *rotating) dropped(slot uint32) *fsmpb.Outcome {
	w.t.Helper()
	return w.reportNext(&fsmpb.Observation{Fact: &fsmpb.Observation_KeyDropped{KeyDropped: &fsmpb.KeyDropped{Slot: slot}}})
}

// rotation is a host's question, whose header has these slots, of which the new key opens some.
func (w *rotating) rotation(slots, opened []uint32) *fsmpb.BeginKeyRotation {
	w.t.Helper()
	return &fsmpb.BeginKeyRotation{
		VolumeId: volumeID(1), NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Epoch: w.volume(1).Publication("n1").Epoch.Proto(), Sequence: w.next(),
		Slots: slots, Opened: opened,
	}
}

func (w *rotating) begin(slots, opened []uint32) *fsmpb.KeyRotation {
	w.t.Helper()
	return w.ok("node/n1", w.rotation(slots, opened)).GetGrant().GetCrypt().GetRotation()
}

// S64: begun, added and done are in the log, each once, and a repetition goes on.
func TestS64_ARotationGoesThroughTheLog(t *testing.T) {
	w := stagedEncrypted(t)
	for range 2 {
		r := w.begin([]uint32{0}, nil)
		require.EqualValues(t, 1, r.GetSlot())
		require.False(t, r.GetAdded())
	}
	condition, _ := w.s.StoredCondition(w.volume(1))
	require.True(t, condition.Abnormal, "an unfinished rotation is a condition")
	require.Len(t, w.dropped(1).GetOvertaken(), 1, "not before the key was added")
	require.Len(t, w.added(2).GetOvertaken(), 1, "another slot")
	require.Zero(t, w.volume(1).Crypt.KeyGeneration)
	for range 2 {
		require.Empty(t, w.added(1).GetOvertaken())
	}
	r := w.begin([]uint32{0, 1}, []uint32{1})
	require.EqualValues(t, 1, r.GetSlot())
	require.True(t, r.GetAdded(), "a repetition goes on where it was")
	out := w.dropped(1)
	require.Empty(t, out.GetOvertaken())
	require.EqualValues(t, 1, out.GetKeyRotated()[0].GetKeyGeneration())
	require.Equal(t, &Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: "luks-1", KeyGeneration: 1}, w.volume(1).Crypt)
	require.Empty(t, w.dropped(1).GetKeyRotated(), "once")
	require.EqualValues(t, 1, w.volume(1).Crypt.KeyGeneration)
	require.Nil(t, w.begin([]uint32{1}, []uint32{1}), "it was done before")
	condition, _ = w.s.StoredCondition(w.volume(1))
	require.False(t, condition.Abnormal)
}

// S64: what the host reads of the header decides whether a rotation goes on or another takes its place.
func TestS64_TheSlotOfARotation(t *testing.T) {
	for name, tc := range map[string]struct {
		before        func(w *rotating)
		slots, opened []uint32
		renew         bool
		slot          uint32
		added         bool
	}{
		"the first free one":                   {slots: []uint32{0, 1, 3}, slot: 2},
		"one that the key opens already":       {slots: []uint32{0, 3}, opened: []uint32{3}, slot: 3},
		"a renewed key gets its own":           {slots: []uint32{0}, opened: []uint32{0}, renew: true, slot: 1},
		"the key was added, and not said so":   {before: begun, slots: []uint32{0, 1}, opened: []uint32{1}, slot: 1},
		"a third key, with the second there":   {before: begunAndAdded, slots: []uint32{0, 1}, slot: 2},
		"the key is gone from its slot":        {before: begunAndAdded, slots: []uint32{0}, slot: 1},
		"the former key is to stay":            {before: begunAndAdded, slots: []uint32{0, 1}, opened: []uint32{0}, slot: 0},
		"the slot was taken by something else": {before: begun, slots: []uint32{0, 1}, slot: 2},
		"all others are removed already":       {before: begunAndAdded, slots: []uint32{1}, opened: []uint32{1}, slot: 1, added: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := stagedEncrypted(t)
			if tc.before != nil {
				tc.before(w)
			}
			c := w.rotation(tc.slots, tc.opened)
			c.Renew = tc.renew
			r := w.ok("node/n1", c).GetGrant().GetCrypt().GetRotation()
			require.Equal(t, tc.slot, r.GetSlot())
			require.Equal(t, tc.added, r.GetAdded())
		})
	}
}

func begun(w *rotating) { w.begin([]uint32{0}, nil) }

func begunAndAdded(w *rotating) {
	begun(w)
	w.added(1)
}

func TestS64_WhatCannotBeRotated(t *testing.T) {
	w := stagedEncrypted(t)
	full := make([]uint32, keySlots)
	for i := range full {
		full[i] = uint32(i)
	}
	for name, tc := range map[string]struct {
		slots, opened []uint32
		why           Reason
	}{
		"no key":            {why: Precondition},
		"no free slot":      {slots: full, why: Precondition},
		"slots twice":       {slots: []uint32{1, 1}, why: Invalid},
		"a slot too many":   {slots: []uint32{keySlots}, why: Invalid},
		"opened and absent": {slots: []uint32{0}, opened: []uint32{1}, why: Invalid},
	} {
		t.Run(name, func(t *testing.T) { w.rejected(tc.why, "node/n1", w.rotation(tc.slots, tc.opened)) })
	}
	c := w.rotation([]uint32{0}, nil)
	c.Sequence = 1
	w.rejected(StaleEpoch, "node/n1", c)
	w.unstage()
	w.rejected(Precondition, "node/n1", w.rotation([]uint32{0}, nil))
	require.Nil(t, w.volume(1).Crypt.Rotation)
	require.Equal(t, Level2, LeastLevel(envelope("node/n1", "1", 1, c)))
}

// S64: a step that a host reports under an earlier publication does not count.
func TestS64_AStepUnderAnEarlierPublicationDoesNotCount(t *testing.T) {
	w := stagedEncrypted(t)
	begun(w)
	former := w.volume(1).Publication("n1").Epoch.Proto()
	w.unstage()
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.ok(controller, publish(1, "n1"))
	late := &fsmpb.Observation{VolumeId: volumeID(1), Epoch: former, Sequence: w.next(), Fact: &fsmpb.Observation_KeyAdded{KeyAdded: &fsmpb.KeyAdded{Slot: 1}}}
	require.Len(t, w.report("n1", late).GetOvertaken(), 1)
	require.False(t, w.volume(1).Crypt.Rotation.Added)
	late.Epoch, late.Sequence = w.volume(1).Publication("n1").Epoch.Proto(), w.next()
	require.Len(t, w.report("n1", late).GetOvertaken(), 1, "nobody began it under this one")
}

// S65: the entry that ends a rotation says which copies the key of before still opens, and a copy knows its key.
func TestS65_AnEndedRotationListsWhatOlderKeysOpen(t *testing.T) {
	w := stagedEncrypted(t)
	w.ok(controller, createSnapshot(1, 1))
	begunAndAdded(w)
	out := w.dropped(1)
	require.Equal(t, []string{snapshotID(1)}, out.GetKeyRotated()[0].GetSnapshotIds())
	require.EqualValues(t, 1, out.GetKeyRotated()[0].GetSnapshots())
	n, _ := w.s.Snapshot(SnapshotID(snapshotID(1)))
	require.Zero(t, n.Crypt.KeyGeneration)
	require.EqualValues(t, 1, w.volume(1).Crypt.KeyGeneration)
}

// S64: what is copied in the middle of a rotation may have either key, and knows it.
func TestS64_ACopyInTheMiddleOfARotationKnowsIt(t *testing.T) {
	w := stagedEncrypted(t)
	begunAndAdded(w)
	w.ready(3, encryptedVolume(createFrom(3, fromVolume(1))))
	require.True(t, w.volume(3).Crypt.Rotation.Added)
	w.dropped(1)
	w.ok(controller, publish(3, "n1"))
	c := w.stage(3, "n1", 1)
	c.LuksUuid = "luks-3"
	w.ok("node/n1", c)
	w.headerMade(3, "luks-3")
	require.NotNil(t, w.volume(3).Crypt.Rotation)
	require.Nil(t, w.volume(1).Crypt.Rotation)
}
