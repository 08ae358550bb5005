package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	testFS         = executor.Filesystem{Type: "ext4", UUID: "uuid-1"}
	otherFS        = executor.Filesystem{Type: "ext4", UUID: "uuid-2"}
	testGib        = int64(1 << 30)
	imageDevice    = executor.Device{Exists: true, Size: testGib}
	activeDevice   = executor.Device{Exists: true, Size: testGib, Path: "/dev/loop0", Number: 7}
	emptyContent   = executor.Content{Read: true, Empty: true}
	ownContent     = executor.Content{Read: true, Found: testFS}
	unknownContent = executor.Content{Read: true}
)

func formattedGrant() *Grant { return &Grant{Path: "/staging", FS: testFS} }

func formattingGrant() *Grant { return &Grant{Path: "/staging", FS: testFS, Formatting: true} }

// formatBegunGrant is of a publication after the one under which the format was begun.
func formatBegunGrant() *Grant {
	return &Grant{Path: "/staging", FS: testFS, Formatting: true, FormatBegunBefore: true}
}

func rawGrant() *Grant { return &Grant{Path: "/staging", Block: true} }

func TestNextVolumeStep(t *testing.T) {
	missing := executor.Device{}
	absent := executor.Device{Absent: true}
	for name, tc := range map[string]struct {
		want   VolumeSpec
		have   ObservedVolume
		kind   StepKind
		reason fsm.Reason
	}{
		"a creating volume is made":                   {VolumeSpec{Goal: fsm.GoalCreate, Size: testGib}, ObservedVolume{Device: missing}, StepCreate, 0},
		"once":                                        {VolumeSpec{Goal: fsm.GoalCreate, Size: testGib}, ObservedVolume{Device: imageDevice}, StepNone, 0},
		"not over an image of another size":           {VolumeSpec{Goal: fsm.GoalCreate, Size: 2 * testGib}, ObservedVolume{Device: imageDevice}, StepRefuse, fsm.Incompatible},
		"S12 not in an absent pool":                   {VolumeSpec{Goal: fsm.GoalCreate, Size: testGib}, ObservedVolume{Device: absent}, StepRefuse, fsm.Unreachable},
		"S14 a ready volume is never made again":      {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib}, ObservedVolume{Device: missing}, StepNone, 0},
		"S14 a ready volume is never removed":         {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib}, ObservedVolume{Device: imageDevice}, StepNone, 0},
		"S14 nothing is done without a desired state": {VolumeSpec{}, ObservedVolume{Device: activeDevice, Staged: true}, StepNone, 0},

		"a deleting volume is removed":              {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: imageDevice}, StepRemove, 0},
		"and what an interrupted create left":       {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: executor.Device{Unfinished: true}}, StepRemove, 0},
		"then it is done":                           {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: missing}, StepNone, 0},
		"not while it is attached":                  {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: activeDevice}, StepDeactivate, 0},
		"not while it is mounted":                   {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: activeDevice, Staged: true}, StepUnmount, 0},
		"not while it is bound":                     {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: activeDevice, Staged: true, BoundTargets: []string{"/t"}}, StepUnbind, 0},
		"not while it is mounted where nobody said": {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: activeDevice, ForeignMounts: []string{"/x"}}, StepRefuse, fsm.Busy},
		"S12 nor from an absent pool":               {VolumeSpec{Goal: fsm.GoalRemove}, ObservedVolume{Device: absent}, StepRefuse, fsm.Unreachable},

		"down: targets first":             {VolumeSpec{TakeDown: true}, ObservedVolume{Device: activeDevice, Staged: true, BoundTargets: []string{"/t"}}, StepUnbind, 0},
		"down: then the staging mount":    {VolumeSpec{TakeDown: true}, ObservedVolume{Device: activeDevice, Staged: true}, StepUnmount, 0},
		"down: then the device":           {VolumeSpec{TakeDown: true}, ObservedVolume{Device: activeDevice}, StepDeactivate, 0},
		"down: the image stays":           {VolumeSpec{TakeDown: true, Goal: fsm.GoalRemove}, ObservedVolume{Device: imageDevice}, StepNone, 0},
		"down: also with the pool absent": {VolumeSpec{TakeDown: true}, ObservedVolume{Device: executor.Device{Absent: true, Path: "/dev/loop0"}}, StepDeactivate, 0},
		"down: before any bring-up":       {VolumeSpec{TakeDown: true, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice}, StepDeactivate, 0},
		"a target that is to go goes":     {VolumeSpec{DropTargets: []string{"/t"}}, ObservedVolume{Device: activeDevice, Staged: true}, StepUnbind, 0},

		"stage: attach first":                      {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: imageDevice}, StepActivate, 0},
		"stage: then look what is on it":           {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice}, StepProbe, 0},
		"stage: then record":                       {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, Content: ownContent}, StepWriteRecord, 0},
		"stage: then mount":                        {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, Content: ownContent, recorded: true}, StepMount, 0},
		"stage: then it is done":                   {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, Content: ownContent, recorded: true, Staged: true}, StepNone, 0},
		"stage: what is staged is not read":        {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, recorded: true, Staged: true}, StepNone, 0},
		"stage: a mount without a record is noted": {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, Content: ownContent, Staged: true}, StepWriteRecord, 0},
		"stage: not another filesystem":            {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, Content: executor.Content{Read: true, Found: otherFS}}, StepRefuse, fsm.Precondition},
		"stage: not an empty device":               {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, Content: emptyContent}, StepRefuse, fsm.Precondition},
		"S14 stage: not a missing device":          {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: missing}, StepRefuse, fsm.Precondition},
		"S12 stage: not in an absent pool":         {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: absent}, StepRefuse, fsm.Precondition},
		"stage: not a device of another size":      {VolumeSpec{Size: 2 * testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice}, StepRefuse, fsm.Precondition},

		"S3 stage: an older mount goes first": {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: activeDevice, Staged: true, olderEpoch: true}, StepUnmount, 0},
		"S3 stage: and an older raw device":   {VolumeSpec{Size: testGib, Grant: rawGrant()}, ObservedVolume{Device: activeDevice, olderEpoch: true}, StepDeactivate, 0},
		"S3 stage: then the way is free":      {VolumeSpec{Size: testGib, Grant: formattedGrant()}, ObservedVolume{Device: imageDevice, olderEpoch: true}, StepActivate, 0},

		"S15 format: recorded first":                         {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Content: emptyContent}, StepWriteRecord, 0},
		"S15 format: an empty device":                        {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Content: emptyContent, recorded: true, formatBegun: true}, StepFormat, 0},
		"S15 format: again over its own pieces":              {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Content: unknownContent, recorded: true, formatBegun: true}, StepFormat, 0},
		"S15 format: again over its own filesystem":          {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Content: ownContent}, StepWriteRecord, 0},
		"S15 format: never over what is not its own":         {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Content: unknownContent}, StepRefuse, fsm.Precondition},
		"S15 format: nor begun under an earlier publication": {VolumeSpec{Size: testGib, Grant: formatBegunGrant()}, ObservedVolume{Device: activeDevice, Content: unknownContent}, StepRefuse, fsm.Precondition},
		"S15 format: a replica's peer may have left it":      {VolumeSpec{Size: testGib, Grant: formatBegunGrant()}, ObservedVolume{Device: activeDevice, Replica: &ObservedReplica{}, Content: unknownContent}, StepWriteRecord, 0},
		"S15 format: but not before it was published there":  {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Replica: &ObservedReplica{}, Content: unknownContent}, StepRefuse, fsm.Precondition},
		"S15 format: and no peer leaves another filesystem":  {VolumeSpec{Size: testGib, Grant: formatBegunGrant()}, ObservedVolume{Device: activeDevice, Replica: &ObservedReplica{}, Content: executor.Content{Read: true, Found: otherFS}}, StepRefuse, fsm.Precondition},
		"S15 format: nor over another filesystem":            {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Content: executor.Content{Read: true, Found: otherFS}, recorded: true}, StepRefuse, fsm.Precondition},
		"S15 format: reported before the first mount":        {VolumeSpec{Size: testGib, Grant: formattingGrant()}, ObservedVolume{Device: activeDevice, Content: ownContent, recorded: true, formatBegun: true, Formatted: true}, StepReportFormatted, 0},

		"raw: recorded before it is given out": {VolumeSpec{Size: testGib, Grant: rawGrant()}, ObservedVolume{Device: imageDevice}, StepWriteRecord, 0},
		"raw: attach is all":                   {VolumeSpec{Size: testGib, Grant: rawGrant()}, ObservedVolume{Device: imageDevice, recorded: true}, StepActivate, 0},
		"raw: nothing is read or made":         {VolumeSpec{Size: testGib, Grant: rawGrant()}, ObservedVolume{Device: activeDevice, recorded: true}, StepNone, 0},
		"raw: read-only as granted":            {VolumeSpec{Size: testGib, Grant: &Grant{Block: true, ReadOnly: true}}, ObservedVolume{Device: activeDevice, recorded: true}, StepActivate, 0},

		"bind: not what is not staged":  {VolumeSpec{Grant: formattedGrant(), Bind: &records.TargetRecord{Path: "/t"}}, ObservedVolume{Device: activeDevice, recorded: true}, StepRefuse, fsm.Precondition},
		"bind: not without a record":    {VolumeSpec{Grant: formattedGrant(), Bind: &records.TargetRecord{Path: "/t"}}, ObservedVolume{Device: activeDevice, Staged: true}, StepRefuse, fsm.Precondition},
		"bind: record first":            {VolumeSpec{Grant: formattedGrant(), Bind: &records.TargetRecord{Path: "/t"}}, ObservedVolume{Device: activeDevice, Staged: true, recorded: true}, StepWriteRecord, 0},
		"bind: then bind":               {VolumeSpec{Grant: formattedGrant(), Bind: &records.TargetRecord{Path: "/t"}}, ObservedVolume{Device: activeDevice, Staged: true, recorded: true, targetRecorded: true}, StepBind, 0},
		"bind: once":                    {VolumeSpec{Grant: formattedGrant(), Bind: &records.TargetRecord{Path: "/t"}}, ObservedVolume{Device: activeDevice, Staged: true, recorded: true, targetRecorded: true, BoundTargets: []string{"/t"}}, StepNone, 0},
		"bind: a raw device":            {VolumeSpec{Grant: rawGrant(), Bind: &records.TargetRecord{Path: "/t"}}, ObservedVolume{Device: activeDevice, recorded: true, targetRecorded: true}, StepBind, 0},
		"bind: not a raw device not up": {VolumeSpec{Grant: rawGrant(), Bind: &records.TargetRecord{Path: "/t"}}, ObservedVolume{Device: imageDevice, recorded: true}, StepRefuse, fsm.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got := NextVolumeStep(&tc.want, &tc.have)
				require.Equal(t, tc.kind, got.Kind)
				require.Equal(t, tc.reason, got.Refusal.Why())
			}
		})
	}
}

// FuzzNextVolumeStep plays NextVolumeStep against a host on which every step works, from any
// initial state: it must converge, and never do what the rules forbid.
func FuzzNextVolumeStep(f *testing.F) {
	f.Add(uint32(0), uint8(0))
	f.Add(uint32(0xffffffff), uint8(7))
	f.Add(uint32(0x1234567), uint8(2))
	f.Fuzz(func(t *testing.T, bits uint32, kind uint8) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		have := ObservedVolume{Device: executor.Device{Exists: bit(0), Unfinished: bit(1), Absent: bit(2), Size: testGib, ReadOnly: bit(3)}}
		if bit(4) {
			have.Path = "/dev/loop0"
			have.Staged = bit(5)
		}
		have.Content = []executor.Content{{}, emptyContent, ownContent, unknownContent}[bits>>6&3]
		have.recorded, have.formatBegun, have.targetRecorded, have.Formatted = bit(8), bit(9), bit(10), bit(11)
		have.olderEpoch = bit(18) && !have.recorded
		if bit(12) && have.Path != "" {
			have.BoundTargets = []string{"/t"}
		}
		if bit(13) && have.Path != "" {
			have.ForeignMounts = []string{"/x"}
		}
		want := VolumeSpec{Size: testGib, Goal: fsm.Goal(kind & 3), TakeDown: bit(14)}
		if kind&4 != 0 {
			want.Grant = []*Grant{formattedGrant(), formattingGrant(), rawGrant()}[int(bits>>15&3)%3]
		}
		if bit(17) {
			want.Bind = &records.TargetRecord{Path: "/t"}
		}
		for range 20 {
			s := NextVolumeStep(&want, &have)
			requireAllowed(t, &want, &have, s)
			if s.Kind == StepNone || s.Kind == StepRefuse {
				return
			}
			simulate(&want, &have, s)
		}
		t.Fatalf("it does not come to rest: want %+v, have %+v", want, have)
	})
}

// requireAllowed checks the rules that hold for every combination.
func requireAllowed(t *testing.T, want *VolumeSpec, have *ObservedVolume, s Step) {
	t.Helper()
	switch s.Kind {
	case StepCreate:
		require.True(t, want.Goal == fsm.GoalCreate && !have.Exists && !have.Absent)
	case StepRemove:
		require.True(t, want.Goal == fsm.GoalRemove && !have.Absent && !have.isUp())
	case StepFormat:
		require.True(t, want.Grant.Formatting && have.recorded && have.Content.Read && !have.Staged)
		require.True(t, have.Content.Empty || have.formatBegun || have.Content.Found == want.Grant.FS)
	case StepMount:
		require.True(t, want.Grant != nil && !want.Grant.Formatting && have.recorded && have.Content.Found == want.Grant.FS)
	case StepBind:
		require.True(t, want.Grant != nil && have.recorded && have.targetRecorded)
	case StepActivate:
		require.NotNil(t, want.Grant)
		require.True(t, have.Exists && !have.Absent)
		require.True(t, !want.Grant.Block || have.recorded)
	case StepDeactivate:
		require.True(t, !have.Staged && len(have.BoundTargets) == 0 && len(have.ForeignMounts) == 0)
	}
}

// simulate changes the host as the step does when it works.
func simulate(want *VolumeSpec, have *ObservedVolume, s Step) {
	switch s.Kind {
	case StepCreate:
		have.Exists, have.Unfinished = true, false
	case StepRemove:
		have.Exists, have.Unfinished = false, false
	case StepActivate:
		have.Path, have.ReadOnly = "/dev/loop0", want.Grant.ReadOnly
	case StepDeactivate:
		have.Path, have.Content = "", executor.Content{}
	case StepProbe:
		have.Content = ownContent
	case StepWriteRecord:
		have.olderEpoch = false
		have.recorded, have.formatBegun = true, want.Grant.Formatting
		have.targetRecorded = want.Bind != nil
	case StepFormat:
		have.Content, have.Formatted = ownContent, true
	case StepReportFormatted:
		want.Grant.Formatting, have.Formatted = false, false
	case StepMount:
		have.Staged = true
	case StepUnmount:
		have.Staged = false
	case StepBind:
		have.BoundTargets = append(have.BoundTargets, s.Path)
	case StepUnbind:
		have.BoundTargets, want.DropTargets = nil, nil
	}
}
