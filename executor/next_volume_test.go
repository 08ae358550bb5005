package executor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	testFS         = Filesystem{Type: "ext4", UUID: "uuid-1"}
	otherFS        = Filesystem{Type: "ext4", UUID: "uuid-2"}
	testGib        = int64(1 << 30)
	imageDevice    = Device{Exists: true, Size: testGib}
	activeDevice   = Device{Exists: true, Size: testGib, Path: "/dev/loop0", Number: 7}
	emptyContent   = Content{Read: true, Empty: true}
	ownContent     = Content{Read: true, Found: testFS}
	unknownContent = Content{Read: true}
)

func formattedGrant() *grant  { return &grant{path: "/staging", fs: testFS} }
func formattingGrant() *grant { return &grant{path: "/staging", fs: testFS, formatting: true} }
func rawGrant() *grant        { return &grant{path: "/staging", block: true} }

func TestNextVolumeStep(t *testing.T) {
	missing := Device{}
	absent := Device{Absent: true}
	for name, tc := range map[string]struct {
		want   volumeSpec
		have   observedVolume
		kind   stepKind
		reason fsm.Reason
	}{
		"a creating volume is made":              {volumeSpec{goal: fsm.GoalCreate, size: testGib}, observedVolume{Device: missing}, stepCreate, 0},
		"once":                                   {volumeSpec{goal: fsm.GoalCreate, size: testGib}, observedVolume{Device: imageDevice}, stepNone, 0},
		"not over an image of another size":      {volumeSpec{goal: fsm.GoalCreate, size: 2 * testGib}, observedVolume{Device: imageDevice}, stepRefuse, fsm.Incompatible},
		"S12 not in an absent pool":              {volumeSpec{goal: fsm.GoalCreate, size: testGib}, observedVolume{Device: absent}, stepRefuse, fsm.Unreachable},
		"S14 a ready volume is never made again": {volumeSpec{goal: fsm.GoalKeep, size: testGib}, observedVolume{Device: missing}, stepNone, 0},
		"S14 a ready volume is never removed":    {volumeSpec{goal: fsm.GoalKeep, size: testGib}, observedVolume{Device: imageDevice}, stepNone, 0},
		"S14 nothing is done without a wish":     {volumeSpec{}, observedVolume{Device: activeDevice, staged: true}, stepNone, 0},

		"a deleting volume is removed":              {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: imageDevice}, stepRemove, 0},
		"and what an interrupted create left":       {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: Device{Unfinished: true}}, stepRemove, 0},
		"then it is done":                           {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: missing}, stepNone, 0},
		"not while it is attached":                  {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: activeDevice}, stepDeactivate, 0},
		"not while it is mounted":                   {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: activeDevice, staged: true}, stepUnmount, 0},
		"not while it is bound":                     {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: activeDevice, staged: true, boundTargets: []string{"/t"}}, stepUnbind, 0},
		"not while it is mounted where nobody said": {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: activeDevice, foreignMounts: []string{"/x"}}, stepRefuse, fsm.Busy},
		"S12 nor from an absent pool":               {volumeSpec{goal: fsm.GoalRemove}, observedVolume{Device: absent}, stepRefuse, fsm.Unreachable},

		"down: targets first":             {volumeSpec{takeDown: true}, observedVolume{Device: activeDevice, staged: true, boundTargets: []string{"/t"}}, stepUnbind, 0},
		"down: then the staging mount":    {volumeSpec{takeDown: true}, observedVolume{Device: activeDevice, staged: true}, stepUnmount, 0},
		"down: then the device":           {volumeSpec{takeDown: true}, observedVolume{Device: activeDevice}, stepDeactivate, 0},
		"down: the image stays":           {volumeSpec{takeDown: true, goal: fsm.GoalRemove}, observedVolume{Device: imageDevice}, stepNone, 0},
		"down: also with the pool absent": {volumeSpec{takeDown: true}, observedVolume{Device: Device{Absent: true, Path: "/dev/loop0"}}, stepDeactivate, 0},
		"down: before any bring-up":       {volumeSpec{takeDown: true, grant: formattedGrant()}, observedVolume{Device: activeDevice}, stepDeactivate, 0},
		"a target that is to go goes":     {volumeSpec{dropTargets: []string{"/t"}}, observedVolume{Device: activeDevice, staged: true}, stepUnbind, 0},

		"stage: attach first":                      {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: imageDevice}, stepActivate, 0},
		"stage: then look what is on it":           {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice}, stepProbe, 0},
		"stage: then record":                       {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, content: ownContent}, stepWriteRecord, 0},
		"stage: then mount":                        {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, content: ownContent, recorded: true}, stepMount, 0},
		"stage: then it is done":                   {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, content: ownContent, recorded: true, staged: true}, stepNone, 0},
		"stage: what is staged is not read":        {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, recorded: true, staged: true}, stepNone, 0},
		"stage: a mount without a record is noted": {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, content: ownContent, staged: true}, stepWriteRecord, 0},
		"stage: not another filesystem":            {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, content: Content{Read: true, Found: otherFS}}, stepRefuse, fsm.Precondition},
		"stage: not an empty device":               {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, content: emptyContent}, stepRefuse, fsm.Precondition},
		"S14 stage: not a missing device":          {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: missing}, stepRefuse, fsm.Precondition},
		"S12 stage: not in an absent pool":         {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: absent}, stepRefuse, fsm.Precondition},
		"stage: not a device of another size":      {volumeSpec{size: 2 * testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice}, stepRefuse, fsm.Precondition},

		"S3 stage: an older mount goes first": {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: activeDevice, staged: true, olderEpoch: true}, stepUnmount, 0},
		"S3 stage: and an older raw device":   {volumeSpec{size: testGib, grant: rawGrant()}, observedVolume{Device: activeDevice, olderEpoch: true}, stepDeactivate, 0},
		"S3 stage: then the way is free":      {volumeSpec{size: testGib, grant: formattedGrant()}, observedVolume{Device: imageDevice, olderEpoch: true}, stepActivate, 0},

		"S15 format: recorded first":                  {volumeSpec{size: testGib, grant: formattingGrant()}, observedVolume{Device: activeDevice, content: emptyContent}, stepWriteRecord, 0},
		"S15 format: an empty device":                 {volumeSpec{size: testGib, grant: formattingGrant()}, observedVolume{Device: activeDevice, content: emptyContent, recorded: true, formatBegun: true}, stepFormat, 0},
		"S15 format: again over its own pieces":       {volumeSpec{size: testGib, grant: formattingGrant()}, observedVolume{Device: activeDevice, content: unknownContent, recorded: true, formatBegun: true}, stepFormat, 0},
		"S15 format: again over its own filesystem":   {volumeSpec{size: testGib, grant: formattingGrant()}, observedVolume{Device: activeDevice, content: ownContent}, stepWriteRecord, 0},
		"S15 format: never over what is not its own":  {volumeSpec{size: testGib, grant: formattingGrant()}, observedVolume{Device: activeDevice, content: unknownContent}, stepRefuse, fsm.Precondition},
		"S15 format: nor over another filesystem":     {volumeSpec{size: testGib, grant: formattingGrant()}, observedVolume{Device: activeDevice, content: Content{Read: true, Found: otherFS}, recorded: true}, stepRefuse, fsm.Precondition},
		"S15 format: reported before the first mount": {volumeSpec{size: testGib, grant: formattingGrant()}, observedVolume{Device: activeDevice, content: ownContent, recorded: true, formatBegun: true, formatted: true}, stepReportFormatted, 0},

		"raw: recorded before it is given out": {volumeSpec{size: testGib, grant: rawGrant()}, observedVolume{Device: imageDevice}, stepWriteRecord, 0},
		"raw: attach is all":                   {volumeSpec{size: testGib, grant: rawGrant()}, observedVolume{Device: imageDevice, recorded: true}, stepActivate, 0},
		"raw: nothing is read or made":         {volumeSpec{size: testGib, grant: rawGrant()}, observedVolume{Device: activeDevice, recorded: true}, stepNone, 0},
		"raw: read-only as granted":            {volumeSpec{size: testGib, grant: &grant{block: true, readOnly: true}}, observedVolume{Device: activeDevice, recorded: true}, stepActivate, 0},

		"bind: not what is not staged":  {volumeSpec{grant: formattedGrant(), bind: &targetRecord{Path: "/t"}}, observedVolume{Device: activeDevice, recorded: true}, stepRefuse, fsm.Precondition},
		"bind: not without a record":    {volumeSpec{grant: formattedGrant(), bind: &targetRecord{Path: "/t"}}, observedVolume{Device: activeDevice, staged: true}, stepRefuse, fsm.Precondition},
		"bind: record first":            {volumeSpec{grant: formattedGrant(), bind: &targetRecord{Path: "/t"}}, observedVolume{Device: activeDevice, staged: true, recorded: true}, stepWriteRecord, 0},
		"bind: then bind":               {volumeSpec{grant: formattedGrant(), bind: &targetRecord{Path: "/t"}}, observedVolume{Device: activeDevice, staged: true, recorded: true, targetRecorded: true}, stepBind, 0},
		"bind: once":                    {volumeSpec{grant: formattedGrant(), bind: &targetRecord{Path: "/t"}}, observedVolume{Device: activeDevice, staged: true, recorded: true, targetRecorded: true, boundTargets: []string{"/t"}}, stepNone, 0},
		"bind: a raw device":            {volumeSpec{grant: rawGrant(), bind: &targetRecord{Path: "/t"}}, observedVolume{Device: activeDevice, recorded: true, targetRecorded: true}, stepBind, 0},
		"bind: not a raw device not up": {volumeSpec{grant: rawGrant(), bind: &targetRecord{Path: "/t"}}, observedVolume{Device: imageDevice, recorded: true}, stepRefuse, fsm.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got := nextVolumeStep(&tc.want, &tc.have)
				require.Equal(t, tc.kind, got.kind)
				require.Equal(t, tc.reason, got.refusal.Why())
			}
		})
	}
}

// FuzzNextVolumeStep plays next against a host in which every step works, from any
// beginning: it must come to rest, and never do what the rules forbid.
func FuzzNextVolumeStep(f *testing.F) {
	f.Add(uint32(0), uint8(0))
	f.Add(uint32(0xffffffff), uint8(7))
	f.Add(uint32(0x1234567), uint8(2))
	f.Fuzz(func(t *testing.T, bits uint32, kind uint8) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		have := observedVolume{Device: Device{Exists: bit(0), Unfinished: bit(1), Absent: bit(2), Size: testGib, ReadOnly: bit(3)}}
		if bit(4) {
			have.Path = "/dev/loop0"
			have.staged = bit(5)
		}
		have.content = []Content{{}, emptyContent, ownContent, unknownContent}[bits>>6&3]
		have.recorded, have.formatBegun, have.targetRecorded, have.formatted = bit(8), bit(9), bit(10), bit(11)
		have.olderEpoch = bit(18) && !have.recorded
		if bit(12) && have.Path != "" {
			have.boundTargets = []string{"/t"}
		}
		if bit(13) && have.Path != "" {
			have.foreignMounts = []string{"/x"}
		}
		want := volumeSpec{size: testGib, goal: fsm.Goal(kind & 3), takeDown: bit(14)}
		if kind&4 != 0 {
			want.grant = []*grant{formattedGrant(), formattingGrant(), rawGrant()}[int(bits>>15&3)%3]
		}
		if bit(17) {
			want.bind = &targetRecord{Path: "/t"}
		}
		for range 20 {
			s := nextVolumeStep(&want, &have)
			requireAllowed(t, &want, &have, s)
			if s.kind == stepNone || s.kind == stepRefuse {
				return
			}
			simulate(&want, &have, s)
		}
		t.Fatalf("it does not come to rest: want %+v, have %+v", want, have)
	})
}

// requireAllowed holds the rules that no combination may break.
func requireAllowed(t *testing.T, want *volumeSpec, have *observedVolume, s step) {
	t.Helper()
	switch s.kind {
	case stepCreate:
		require.True(t, want.goal == fsm.GoalCreate && !have.Exists && !have.Absent)
	case stepRemove:
		require.True(t, want.goal == fsm.GoalRemove && !have.Absent && !have.isUp())
	case stepFormat:
		require.True(t, want.grant.formatting && have.recorded && have.content.Read && !have.staged)
		require.True(t, have.content.Empty || have.formatBegun || have.content.Found == want.grant.fs)
	case stepMount:
		require.True(t, want.grant != nil && !want.grant.formatting && have.recorded && have.content.Found == want.grant.fs)
	case stepBind:
		require.True(t, want.grant != nil && have.recorded && have.targetRecorded)
	case stepActivate:
		require.NotNil(t, want.grant)
		require.True(t, have.Exists && !have.Absent)
		require.True(t, !want.grant.block || have.recorded)
	case stepDeactivate:
		require.True(t, !have.staged && len(have.boundTargets) == 0 && len(have.foreignMounts) == 0)
	}
}

// simulate is a host on which the step works.
func simulate(want *volumeSpec, have *observedVolume, s step) {
	switch s.kind {
	case stepCreate:
		have.Exists, have.Unfinished = true, false
	case stepRemove:
		have.Exists, have.Unfinished = false, false
	case stepActivate:
		have.Path, have.ReadOnly = "/dev/loop0", want.grant.readOnly
	case stepDeactivate:
		have.Path, have.content = "", Content{}
	case stepProbe:
		have.content = ownContent
	case stepWriteRecord:
		have.olderEpoch = false
		have.recorded, have.formatBegun = true, want.grant.formatting
		have.targetRecorded = want.bind != nil
	case stepFormat:
		have.content, have.formatted = ownContent, true
	case stepReportFormatted:
		want.grant.formatting, have.formatted = false, false
	case stepMount:
		have.staged = true
	case stepUnmount:
		have.staged = false
	case stepBind:
		have.boundTargets = append(have.boundTargets, s.path)
	case stepUnbind:
		have.boundTargets, want.dropTargets = nil, nil
	}
}

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
	recordWith := func(epoch fsm.Epoch, targets ...targetRecord) *volumeRecord {
		return &volumeRecord{Staging: &stagingRecord{Epoch: epoch, Path: "/staging"}, Targets: targets}
	}
	up := observedVolume{Device: activeDevice, staged: true}
	bound := observedVolume{Device: activeDevice, staged: true, boundTargets: []string{"/t"}}
	for name, tc := range map[string]struct {
		s      volumeView
		verb   fsm.Goal
		down   bool
		drop   []string
		missed []pendingTeardown
		news   []string
	}{
		"a wish that is not fresh is not acted on": {
			s: volumeView{desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: recordWith(e5), have: up},
		},
		"S14 nothing is done for a volume that the log does not know": {
			s: volumeView{actionable: true, record: recordWith(e5), have: up},
		},
		"what is up as it should be stays": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, record: recordWith(e5), have: up},
			verb: fsm.GoalKeep,
		},
		"S3 what is up from an older publication goes down": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e9, nil)}, record: recordWith(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"what is up without a publication goes down": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep}, record: recordWith(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S31 a revoked publication goes down": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, record: recordWith(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S31 one that was never up is told to be down": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, record: &volumeRecord{}, have: observedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep, missed: []pendingTeardown{{Epoch: e5}},
		},
		"S31 a newer one is not ended by it": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e9, stagedAt), Teardown: &fsm.Teardown{Epoch: e5}}, record: recordWith(e9), have: up},
			verb: fsm.GoalKeep, missed: []pendingTeardown{{Epoch: e5}},
		},
		"S31 one whose end was asked for goes down": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: endingPublication(e5, stagedAt)}, record: recordWith(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S2 an interrupted bring-up goes down": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, record: recordWith(e5), have: observedVolume{Device: activeDevice}},
			verb: fsm.GoalKeep, down: true,
		},
		"a staging that never came up is told to be down": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, record: &volumeRecord{}, have: observedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep, missed: []pendingTeardown{{Epoch: e5}},
		},
		"S16 not while something of it is up": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, record: &volumeRecord{}, have: observedVolume{Device: activeDevice}},
			verb: fsm.GoalKeep, down: true,
		},
		"a staging mount that vanished under its targets is left to people": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt, fsm.Target{Path: "/t", Done: true})}, record: recordWith(e5, targetRecord{Path: "/t"}), have: observedVolume{Device: activeDevice, boundTargets: []string{"/t"}}},
			verb: fsm.GoalKeep,
		},
		"a target whose binding was interrupted goes": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt, fsm.Target{Path: "/t"})}, record: recordWith(e5, targetRecord{Path: "/t"}), have: up},
			verb: fsm.GoalKeep, drop: []string{"/t"},
		},
		"a target that the log does not want goes": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt)}, record: recordWith(e5, targetRecord{Path: "/t"}), have: bound},
			verb: fsm.GoalKeep, drop: []string{"/t"},
		},
		"a target that was never bound is told to be gone": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, stagedAt, fsm.Target{Path: "/t"})}, record: recordWith(e5), have: up},
			verb: fsm.GoalKeep, missed: []pendingTeardown{{Epoch: e5, Target: "/t"}},
		},
		"what is up and not known to be is told": {
			s:    volumeView{actionable: true, boot: "boot", desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, &fsm.Staging{Path: "/staging", Boot: "boot"}, fsm.Target{Path: "/t"})}, record: recordWith(e5, targetRecord{Path: "/t"}), have: bound},
			verb: fsm.GoalKeep, news: []string{factStaged, factTargetBound},
		},
		"a deleting volume's staging goes with it": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: recordWith(e5), have: up},
			verb: fsm.GoalRemove,
		},
		"a made volume is told": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalCreate, Size: testGib}, record: &volumeRecord{}, have: observedVolume{Device: imageDevice}},
			verb: fsm.GoalCreate, news: []string{factDeviceCreated},
		},
		"a removed volume is told": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: &volumeRecord{}, have: observedVolume{}},
			verb: fsm.GoalRemove, news: []string{factDeviceGone},
		},
		"S12 nothing is gone from an absent pool": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: &volumeRecord{}, have: observedVolume{Device: Device{Absent: true}}},
			verb: fsm.GoalRemove,
		},
		"S12 nothing is missing from an absent pool": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent}, record: &volumeRecord{}, have: observedVolume{Device: Device{Absent: true}}},
			verb: fsm.GoalKeep,
		},
		"S14 a ready volume's missing device is told": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent, Size: testGib}, record: &volumeRecord{}, have: observedVolume{}},
			verb: fsm.GoalKeep, news: []string{factDeviceMissing},
		},
		"a device that is there again is told": {
			s:    volumeView{actionable: true, desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaMissing, Size: testGib}, record: &volumeRecord{}, have: observedVolume{Device: imageDevice}},
			verb: fsm.GoalKeep, news: []string{factDevicePresent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.volume = "hf-1"
			for range 2 {
				want := backgroundSpec(&tc.s)
				require.Equal(t, tc.verb, want.goal)
				require.Equal(t, tc.down, want.takeDown)
				require.Equal(t, tc.drop, want.dropTargets)
				require.Nil(t, want.grant, "S2: the background is never granted anything")
				require.Equal(t, tc.missed, missedTeardowns(&tc.s))
				var acked []string
				for _, f := range unreportedFacts(&tc.s) {
					acked = append(acked, f.name)
				}
				require.Equal(t, tc.news, acked)
			}
		})
	}
}
