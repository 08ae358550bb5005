package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestBackgroundSpec(t *testing.T) {
	e5, e9 := fsm.Epoch{Incarnation: 1, Index: 5}, fsm.Epoch{Incarnation: 1, Index: 9}
	published := func(epoch fsm.Epoch, staging *fsm.Staging, targets ...fsm.Target) *fsm.Publication {
		return &fsm.Publication{Node: "n1", Epoch: epoch, Staging: staging, Targets: targets}
	}
	endingPublication := func(epoch fsm.Epoch, staging *fsm.Staging) *fsm.Publication {
		p := published(epoch, staging)
		p.Ending = true
		return p
	}
	stagedAt := &fsm.Staging{Path: "/staging", Boot: "boot", Done: true}
	recordWith := func(epoch fsm.Epoch, targets ...records.TargetRecord) *records.VolumeRecord {
		return &records.VolumeRecord{Staging: &records.StagingRecord{Epoch: epoch, Path: "/staging"}, Targets: targets}
	}
	up := ObservedVolume{Device: activeDevice, Staged: true}
	bound := ObservedVolume{Device: activeDevice, Staged: true, BoundTargets: []string{"/t"}}
	for name, tc := range map[string]struct {
		s      VolumeView
		verb   fsm.Goal
		down   bool
		drop   []string
		missed []records.PendingTeardown
		news   []string
	}{
		"a desired state of another session is not acted on": {
			s: VolumeView{Desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, Record: recordWith(e5), Have: up},
		},
		"S14 nothing is done for a volume that the log does not know": {
			s: VolumeView{Actionable: true, Record: recordWith(e5), Have: up},
		},
		"what is up as it should be stays": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, Record: recordWith(e5), Have: up},
			verb: fsm.GoalKeep,
		},
		"S3 what is up from an older publication goes down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e9, nil)}, Record: recordWith(e5), Have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"what is up without a publication goes down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep}, Record: recordWith(e5), Have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S31 a revoked publication goes down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, Record: recordWith(e5), Have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S31 one that was never up is reported down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep, missed: []records.PendingTeardown{{Epoch: e5}},
		},
		"S31 a newer one is not ended by it": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e9, stagedAt), Teardown: &fsm.Teardown{Epoch: e5}}, Record: recordWith(e9), Have: up},
			verb: fsm.GoalKeep, missed: []records.PendingTeardown{{Epoch: e5}},
		},
		"S31 one whose publication was revoked is taken down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: endingPublication(e5, stagedAt)}, Record: recordWith(e5), Have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S2 an interrupted bring-up goes down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, Record: recordWith(e5), Have: ObservedVolume{Device: activeDevice}},
			verb: fsm.GoalKeep, down: true,
		},
		"a staging that never came up is reported down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep, missed: []records.PendingTeardown{{Epoch: e5}},
		},
		"S16 not while something of it is up": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: activeDevice}},
			verb: fsm.GoalKeep, down: true,
		},
		"a staging mount that vanished under its targets is left to people": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt, fsm.Target{Path: "/t", Done: true})}, Record: recordWith(e5, records.TargetRecord{Path: "/t"}), Have: ObservedVolume{Device: activeDevice, BoundTargets: []string{"/t"}}},
			verb: fsm.GoalKeep,
		},
		"a staging that vanished, and that the log has of this boot, is left to people": {
			s:    VolumeView{Actionable: true, Boot: "boot", Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, Record: recordWith(e5), Have: ObservedVolume{Device: activeDevice}},
			verb: fsm.GoalKeep,
		},
		"not one that the log has elsewhere": {
			s:    VolumeView{Actionable: true, Boot: "boot", Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, &fsm.Staging{Path: "/other", Boot: "boot", Done: true})}, Record: recordWith(e5), Have: ObservedVolume{Device: activeDevice}},
			verb: fsm.GoalKeep, down: true,
		},
		"a publication that was never staged is not reported down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, nil)}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep,
		},
		"S31 what is still up is not reported down": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, Record: &records.VolumeRecord{}, Have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S31 nor what is recorded, before its end is": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, Record: recordWith(e5), Have: ObservedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep, down: true,
		},
		"a target whose binding was interrupted goes": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt, fsm.Target{Path: "/t"})}, Record: recordWith(e5, records.TargetRecord{Path: "/t"}), Have: up},
			verb: fsm.GoalKeep, drop: []string{"/t"},
		},
		"a target that the log does not want goes": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, Record: recordWith(e5, records.TargetRecord{Path: "/t"}), Have: bound},
			verb: fsm.GoalKeep, drop: []string{"/t"},
		},
		"a target that was never bound is reported gone": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt, fsm.Target{Path: "/t"})}, Record: recordWith(e5), Have: up},
			verb: fsm.GoalKeep, missed: []records.PendingTeardown{{Epoch: e5, Target: "/t"}},
		},
		"what is up and not known to be is reported": {
			s:    VolumeView{Actionable: true, Boot: "boot", Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, &fsm.Staging{Path: "/staging", Boot: "boot"}, fsm.Target{Path: "/t"})}, Record: recordWith(e5, records.TargetRecord{Path: "/t"}), Have: bound},
			verb: fsm.GoalKeep, news: []string{FactStaged, FactTargetBound},
		},
		"a deleting volume's staging goes with it": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, Record: recordWith(e5), Have: up},
			verb: fsm.GoalRemove,
		},
		"a made volume is reported": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalCreate, Size: testGib}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: imageDevice}},
			verb: fsm.GoalCreate, news: []string{factDeviceCreated},
		},
		"a volume of another size is not reported made": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalCreate, Size: 2 * testGib}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: imageDevice}},
			verb: fsm.GoalCreate,
		},
		"S19 nor is one that may be torn": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalCreate, Size: testGib}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: imageDevice, mayBeTorn: true}},
			verb: fsm.GoalCreate,
		},
		"a removed volume is reported": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, Record: &records.VolumeRecord{}, Have: ObservedVolume{}},
			verb: fsm.GoalRemove, news: []string{factDeviceGone},
		},
		"S12 nothing is gone from an absent pool": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: executor.Device{Absent: true}}},
			verb: fsm.GoalRemove,
		},
		"S12 nothing is missing from an absent pool": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: executor.Device{Absent: true}}},
			verb: fsm.GoalKeep,
		},
		"S14 a ready volume's missing device is reported": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent, Size: testGib}, Record: &records.VolumeRecord{}, Have: ObservedVolume{}},
			verb: fsm.GoalKeep, news: []string{factDeviceMissing},
		},
		"a device that is there again is reported": {
			s:    VolumeView{Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaMissing, Size: testGib}, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep, news: []string{factDevicePresent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.Volume = "hf-1"
			for range 2 {
				want := BackgroundSpec(&tc.s)
				require.Equal(t, tc.verb, want.Goal)
				require.Equal(t, tc.down, want.TakeDown)
				require.Equal(t, tc.drop, want.DropTargets)
				require.Nil(t, want.Grant, "S2: the background is never granted anything")
				require.Equal(t, tc.missed, MissedTeardowns(&tc.s))
				var acked []string
				for _, f := range UnreportedFacts(&tc.s) {
					acked = append(acked, f.Name)
				}
				require.Equal(t, tc.news, acked)
			}
		})
	}
}
