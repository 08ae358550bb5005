package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S2, S3, S15: what is observed is compared with the record in every part that a grant brings up.
func TestS15_TheRecordIsComparedInEveryPart(t *testing.T) {
	e5, e9 := fsm.Epoch{Incarnation: 1, Index: 5}, fsm.Epoch{Incarnation: 1, Index: 9}
	target := records.TargetRecord{Path: "/target"}
	staged := &records.StagingRecord{Epoch: e5, Path: "/staging"}
	full := records.VolumeRecord{Staging: staged, Formatting: "uuid", Targets: []records.TargetRecord{target}, Size: 7, FilesystemFor: 6, MayBeLimited: true, MayBeTorn: true}
	grant := func(change func(*Grant)) *VolumeSpec {
		g := &Grant{Epoch: e5, Path: "/staging", FS: executor.Filesystem{Type: "ext4", UUID: "uuid"}}
		if change != nil {
			change(g)
		}
		return &VolumeSpec{Grant: g, Bind: &target}
	}
	sizes := ObservedVolume{recordedSize: 7, FilesystemFor: 6, mayBeLimited: true, mayBeTorn: true}
	with := func(change func(*ObservedVolume)) ObservedVolume {
		o := sizes
		change(&o)
		return o
	}
	for name, tc := range map[string]struct {
		record records.VolumeRecord
		want   *VolumeSpec
		has    ObservedVolume
	}{
		"without a spec what is recorded of the image": {full, nil, sizes},
		"so without a grant":                           {full, &VolumeSpec{}, sizes},
		"all of it is recorded":                        {full, grant(nil), with(func(o *ObservedVolume) { o.recorded, o.formatBegun, o.targetRecorded = true, true, true })},
		"under an older epoch": {full, grant(func(g *Grant) { g.Epoch = e9 }),
			with(func(o *ObservedVolume) { o.olderEpoch, o.formatBegun, o.targetRecorded = true, true, true })},
		"at another path":                     {full, grant(func(g *Grant) { g.Path = "/elsewhere" }), with(func(o *ObservedVolume) { o.formatBegun, o.targetRecorded = true, true })},
		"of another filesystem":               {full, grant(func(g *Grant) { g.FS.UUID = "other" }), with(func(o *ObservedVolume) { o.recorded, o.targetRecorded = true, true })},
		"without a filesystem none was begun": {records.VolumeRecord{Staging: staged}, grant(func(g *Grant) { g.FS.UUID = "" }), ObservedVolume{recorded: true}},
		"nothing is recorded":                 {records.VolumeRecord{}, grant(nil), ObservedVolume{}},
		"another target is recorded":          {records.VolumeRecord{Targets: []records.TargetRecord{{Path: "/target", ReadOnly: true}}}, grant(nil), ObservedVolume{}},
	} {
		t.Run(name, func(t *testing.T) {
			var o ObservedVolume
			o.CompareRecord(&tc.record, tc.want)
			require.Equal(t, tc.has, o)
		})
	}
}

// An image that has exactly the recorded size lost nothing, and may grow; limits are for a device that is active.
func TestAnImageOfTheRecordedSizeGrows(t *testing.T) {
	limits := &fsm.Limits{ReadIOPS: 100}
	for name, tc := range map[string]struct {
		want VolumeSpec
		have ObservedVolume
		kind StepKind
	}{
		"of the recorded size":              {VolumeSpec{Goal: fsm.GoalKeep, Size: 2 * testGib, Expanding: true}, ObservedVolume{Device: imageDevice, recordedSize: testGib}, StepExpand},
		"one byte shorter":                  {VolumeSpec{Goal: fsm.GoalKeep, Size: 2 * testGib, Expanding: true}, ObservedVolume{Device: imageDevice, recordedSize: testGib + 1}, StepRefuse},
		"no limits on one without a device": {VolumeSpec{Goal: fsm.GoalKeep, Limits: limits, CanThrottle: true}, ObservedVolume{Device: imageDevice}, StepNone},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.kind, NextVolumeStep(&tc.want, &tc.have).Kind)
		})
	}
}

// What the log has is not reported again, and what it has not of a replica's image is.
func TestOnlyWhatTheLogLacksIsReported(t *testing.T) {
	e5 := fsm.Epoch{Incarnation: 1, Index: 5}
	up := ObservedVolume{Device: activeDevice, Staged: true}
	published := func(s fsm.Staging) *fsm.DesiredVolume {
		return &fsm.DesiredVolume{Goal: fsm.GoalKeep, Size: testGib, Publication: &fsm.Publication{Node: "n1", Epoch: e5, Staging: &s}}
	}
	record := &records.VolumeRecord{Staging: &records.StagingRecord{Epoch: e5, Path: "/staging"}}
	kept := func(state fsm.ReplicaState) *fsm.DesiredVolume {
		return &fsm.DesiredVolume{Goal: fsm.GoalKeep, Size: testGib, ReplicaState: state}
	}
	for name, tc := range map[string]struct {
		desired *fsm.DesiredVolume
		have    ObservedVolume
		facts   []string
	}{
		"staged, and the log does not have it":   {published(fsm.Staging{Path: "/staging", Boot: "boot"}), up, []string{FactStaged}},
		"staged, and the log has it":             {published(fsm.Staging{Path: "/staging", Boot: "boot", Done: true}), up, nil},
		"staged elsewhere than the log wants it": {published(fsm.Staging{Path: "/other", Boot: "boot"}), up, nil},
		"staged in an earlier boot":              {published(fsm.Staging{Path: "/staging", Boot: "earlier"}), up, nil},
		"present, as the log has it":             {kept(fsm.ReplicaPresent), ObservedVolume{Device: imageDevice}, nil},
		"S14 missing, and the log has it":        {kept(fsm.ReplicaPresent), ObservedVolume{}, []string{factDeviceMissing}},
		"S14 missing, as the log has it":         {kept(fsm.ReplicaMissing), ObservedVolume{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, f := range UnreportedFacts(&VolumeView{Boot: "boot", Actionable: true, Desired: tc.desired, Record: record, Have: tc.have}) {
				names = append(names, f.Name)
			}
			require.Equal(t, tc.facts, names)
		})
	}
}

// S19: a member's report that it is frozen says until when, if it ends by itself.
func TestS19_AReportOfAFreezeSaysUntilWhen(t *testing.T) {
	until := time.Unix(7, 5)
	for _, tc := range []struct {
		hold FreezeState
		want *fsmpb.Frozen
	}{
		{FreezeState{Attempt: 3, Until: until}, &fsmpb.Frozen{Attempt: 3, UntilUnixNano: until.UnixNano()}},
		{FreezeState{Attempt: 3}, &fsmpb.Frozen{Attempt: 3}},
	} {
		ob := ObservationOf("snapshot", "source")
		(&SnapshotView{Desired: &fsm.DesiredSnapshot{Attempt: 3}, FreezeHold: &tc.hold}).FillObservation(factFrozen, ob)
		require.EqualExportedValues(t, tc.want, ob.GetFrozen())
	}
}

// S19: a snapshot's time is when it was taken, as far as that is recorded; else it is now.
func TestS19_AReportOfASnapshotSaysWhenItWasTaken(t *testing.T) {
	taken, now := time.Unix(7, 5), time.Unix(9, 0)
	for _, tc := range []struct {
		record records.SnapshotRecord
		want   time.Time
	}{
		{records.SnapshotRecord{Phase: records.PhaseTaken, TakenAt: taken}, taken},
		{records.SnapshotRecord{Phase: records.PhaseTaken}, now},
		{records.SnapshotRecord{Phase: records.PhaseBegun, TakenAt: taken}, now},
		{records.SnapshotRecord{}, now},
	} {
		ob := ObservationOf("snapshot", "source")
		view := &SnapshotView{Desired: &fsm.DesiredSnapshot{Attempt: 3}, Record: tc.record, Now: now, Have: executor.Device{Size: 7}}
		view.FillObservation(factSnapshotTaken, ob)
		require.EqualExportedValues(t, &fsmpb.SnapshotCut{SizeBytes: 7, CutUnixNano: tc.want.UnixNano(), Attempt: 3}, ob.GetSnapshotCut())
	}
}
