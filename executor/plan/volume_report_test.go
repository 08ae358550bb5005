package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Each fact becomes its own case of an observation, with the size that was observed.
func TestEachFactHasItsObservation(t *testing.T) {
	view := &VolumeView{Have: ObservedVolume{Device: executor.Device{Size: 7}}, Desired: &fsm.DesiredVolume{Limits: fsm.Limits{ReadIOPS: 100}}}
	for _, tc := range []struct {
		fact Fact
		want *fsmpb.Observation
	}{
		{Fact{Name: factDeviceCreated}, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 7}}}},
		{Fact{Name: factDeviceExpanded}, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: 7}}}},
		{Fact{Name: factDevicePresent}, &fsmpb.Observation{Fact: &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{SizeBytes: 7}}}},
		{Fact{Name: factDeviceGone}, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}}},
		{Fact{Name: FactLimitsApplied}, &fsmpb.Observation{Fact: &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: view.Desired.Limits.Proto()}}}},
		{Fact{Name: FactStaged, Path: "/s"}, &fsmpb.Observation{Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/s"}}}},
		{Fact{Name: FactTargetBound, Path: "/t"}, &fsmpb.Observation{Fact: &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: "/t"}}}},
	} {
		got := &fsmpb.Observation{}
		tc.fact.FillObservation(got, view)
		require.EqualExportedValues(t, tc.want, got, tc.fact.Name)
	}
}

func TestOperationSteps(t *testing.T) {
	for want, d := range map[string]fsm.DesiredVolume{
		"create":   {Goal: fsm.GoalCreate, Teardown: &fsm.Teardown{}},
		"remove":   {Goal: fsm.GoalRemove, Teardown: &fsm.Teardown{}},
		"teardown": {Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{}},
		"change":   {Goal: fsm.GoalKeep},
	} {
		require.Equal(t, want, OperationStep(&d))
	}
}

// Each of these alone keeps a volume's device in use.
func TestWhatIsUp(t *testing.T) {
	for name, o := range map[string]ObservedVolume{
		"staged":          {Staged: true},
		"bound":           {BoundTargets: []string{"/t"}},
		"mounted by else": {ForeignMounts: []string{"/m"}},
		"active":          {Device: activeDevice},
	} {
		require.True(t, o.isUp(), name)
		require.Equal(t, name != "active", o.isMounted(), name)
	}
	require.False(t, (&ObservedVolume{Device: imageDevice}).isUp())
}

// A replica's device is smaller than what is below it, once its size is known.
func TestDeviceSizeOfAPrimary(t *testing.T) {
	replica := func(primary bool, size int64) *ObservedReplica {
		return &ObservedReplica{ResourceStatus: executor.ResourceStatus{Primary: primary, Size: size}}
	}
	for _, tc := range []struct {
		replica *ObservedReplica
		size    int64
	}{{nil, testGib}, {replica(true, 7), 7}, {replica(false, 7), testGib}, {replica(true, 0), testGib}} {
		require.Equal(t, tc.size, (&ObservedVolume{Device: imageDevice, Replica: tc.replica}).DeviceSize())
	}
}

// Limits are reported once they are in force, and where there never were any only to an operation that waits for that.
func TestLimitsAreReportedWhenTheyAreInForce(t *testing.T) {
	e5 := fsm.Epoch{Incarnation: 1, Index: 5}
	some, none := fsm.Limits{ReadIOPS: 100}, fsm.Limits{}
	for name, tc := range map[string]struct {
		desired   fsm.Limits
		inForce   *fsm.Limits
		acked     *fsm.Limits
		left      bool
		operation fsm.OperationID
		reported  bool
	}{
		"in force":                               {desired: some, inForce: &some, reported: true},
		"in force and acknowledged":              {desired: some, inForce: &some, acked: &some},
		"in force, and others were acknowledged": {desired: some, inForce: &some, acked: &none, reported: true},
		"others in force":                        {desired: some, inForce: &none},
		"not known":                              {desired: some, operation: 3},
		"none, and an operation waits":           {desired: none, operation: 3, reported: true},
		"none, and nobody waits":                 {desired: none},
		"none, and some may be left":             {desired: none, left: true, operation: 3},
	} {
		t.Run(name, func(t *testing.T) {
			view := &VolumeView{Boot: "boot", Actionable: true, AckedLimits: tc.acked,
				Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Size: 2 * testGib, Limits: tc.desired, Operation: tc.operation,
					Publication: &fsm.Publication{Node: "n1", Epoch: e5, Staging: &fsm.Staging{Path: "/s", Boot: "boot", Done: true}}},
				Record: &records.VolumeRecord{Staging: &records.StagingRecord{Epoch: e5, Path: "/s"}},
				Have:   ObservedVolume{Device: activeDevice, Staged: true, Limits: tc.inForce, mayBeLimited: tc.left}}
			var want []Fact
			if tc.reported {
				want = []Fact{{Name: FactLimitsApplied, Path: fmt.Sprint(tc.desired), Epoch: e5}}
			}
			require.Equal(t, want, UnreportedFacts(view))
		})
	}
}

// What a message says of a device's content tells another filesystem from what nobody knows.
func TestContentInWords(t *testing.T) {
	require.Equal(t, "another xfs", describeContent(executor.Content{Found: executor.Filesystem{Type: "xfs"}}))
	require.Equal(t, "nothing", describeContent(executor.Content{Empty: true}))
	require.Equal(t, "something unknown", describeContent(executor.Content{}))
}

// S19: a filesystem is frozen where it is mounted; a volume that is handed out raw has none.
func TestS19_WhereAFilesystemIsFrozen(t *testing.T) {
	mounted := &records.StagingRecord{Path: "/s"}
	for name, tc := range map[string]struct {
		have   ObservedVolume
		staged *records.StagingRecord
		want   string
	}{
		"raw":                        {ObservedVolume{Staged: true, BoundTargets: []string{"/t"}}, &records.StagingRecord{Path: "/s", Block: true}, ""},
		"staged":                     {ObservedVolume{Staged: true, BoundTargets: []string{"/t"}}, mounted, "/s"},
		"bound, its staging is gone": {ObservedVolume{BoundTargets: []string{"/t"}}, mounted, "/t"},
		"mounted by another":         {ObservedVolume{ForeignMounts: []string{"/m"}}, nil, "/m"},
		"staged without a record":    {ObservedVolume{Staged: true, StagingPath: "/seen"}, nil, "/seen"},
		"nowhere":                    {ObservedVolume{}, mounted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, MountedAt(&tc.have, tc.staged))
		})
	}
}

// A replica that became primary for a publication stays so while it is staged; not while an earlier publication ends here.
func TestS3_APrimaryThatIsNotStagedYetStays(t *testing.T) {
	view := func(teardown *fsm.Teardown) *VolumeView {
		return &VolumeView{Actionable: true, Record: &records.VolumeRecord{}, Have: ObservedVolume{Device: activeDevice}, Desired: &fsm.DesiredVolume{
			Goal: fsm.GoalKeep, Teardown: teardown, Replication: &fsm.DesiredReplica{Primary: true}, Publication: &fsm.Publication{Node: "n1"}}}
	}
	require.False(t, BackgroundSpec(view(nil)).TakeDown)
	require.True(t, BackgroundSpec(view(&fsm.Teardown{})).TakeDown)
	for name, change := range map[string]func(*fsm.DesiredVolume){
		"without a publication": func(d *fsm.DesiredVolume) { d.Publication = nil },
		"not a primary":         func(d *fsm.DesiredVolume) { d.Replication.Primary = false },
		"not replicated":        func(d *fsm.DesiredVolume) { d.Replication = nil },
		"staged elsewhere":      func(d *fsm.DesiredVolume) { d.Publication.Staging = &fsm.Staging{Path: "/staging"} },
	} {
		v := view(nil)
		change(v.Desired)
		require.True(t, BackgroundSpec(v).TakeDown, name)
	}
}

// Only a volume that is kept, and of which the log waits for something, may be expanding.
func TestWhatIsExpanding(t *testing.T) {
	for _, tc := range []struct {
		goal      fsm.Goal
		operation fsm.OperationID
		want      bool
	}{{fsm.GoalKeep, 7, true}, {fsm.GoalKeep, 0, false}, {fsm.GoalCreate, 7, false}, {fsm.GoalRemove, 7, false}} {
		v := &VolumeView{Actionable: true, Record: &records.VolumeRecord{}, Desired: &fsm.DesiredVolume{Goal: tc.goal, Operation: tc.operation}}
		require.Equal(t, tc.want, BackgroundSpec(v).Expanding)
	}
}
