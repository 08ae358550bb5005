package executor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	testFS   = Filesystem{Type: "ext4", UUID: "uuid-1"}
	otherFS  = Filesystem{Type: "ext4", UUID: "uuid-2"}
	testGib  = int64(1 << 30)
	image    = Device{Exists: true, Size: testGib}
	attached = Device{Exists: true, Size: testGib, Path: "/dev/loop0", Number: 7}
	empty    = Content{Read: true, Empty: true}
	ours     = Content{Read: true, Found: testFS}
	unknown  = Content{Read: true}
)

func formattedGrant() *grant  { return &grant{path: "/staging", fs: testFS} }
func formattingGrant() *grant { return &grant{path: "/staging", fs: testFS, formatting: true} }
func rawGrant() *grant        { return &grant{path: "/staging", block: true} }

func TestNext(t *testing.T) {
	missing := Device{}
	absent := Device{Absent: true}
	for name, tc := range map[string]struct {
		want   desired
		have   observed
		kind   stepKind
		reason fsm.Reason
	}{
		"a creating volume is made":              {desired{verb: fsm.GoalCreate, size: testGib}, observed{Device: missing}, stepCreate, 0},
		"once":                                   {desired{verb: fsm.GoalCreate, size: testGib}, observed{Device: image}, stepNone, 0},
		"not over an image of another size":      {desired{verb: fsm.GoalCreate, size: 2 * testGib}, observed{Device: image}, stepRefuse, fsm.Incompatible},
		"S12 not in an absent pool":              {desired{verb: fsm.GoalCreate, size: testGib}, observed{Device: absent}, stepRefuse, fsm.Unreachable},
		"S14 a ready volume is never made again": {desired{verb: fsm.GoalKeep, size: testGib}, observed{Device: missing}, stepNone, 0},
		"S14 a ready volume is never removed":    {desired{verb: fsm.GoalKeep, size: testGib}, observed{Device: image}, stepNone, 0},
		"S14 nothing is done without a wish":     {desired{}, observed{Device: attached, staged: true}, stepNone, 0},

		"a deleting volume is removed":              {desired{verb: fsm.GoalRemove}, observed{Device: image}, stepRemove, 0},
		"and what an interrupted create left":       {desired{verb: fsm.GoalRemove}, observed{Device: Device{Unfinished: true}}, stepRemove, 0},
		"then it is done":                           {desired{verb: fsm.GoalRemove}, observed{Device: missing}, stepNone, 0},
		"not while it is attached":                  {desired{verb: fsm.GoalRemove}, observed{Device: attached}, stepDetach, 0},
		"not while it is mounted":                   {desired{verb: fsm.GoalRemove}, observed{Device: attached, staged: true}, stepUnmount, 0},
		"not while it is bound":                     {desired{verb: fsm.GoalRemove}, observed{Device: attached, staged: true, bound: []string{"/t"}}, stepUnbind, 0},
		"not while it is mounted where nobody said": {desired{verb: fsm.GoalRemove}, observed{Device: attached, strange: []string{"/x"}}, stepRefuse, fsm.Busy},
		"S12 nor from an absent pool":               {desired{verb: fsm.GoalRemove}, observed{Device: absent}, stepRefuse, fsm.Unreachable},

		"down: targets first":             {desired{down: true}, observed{Device: attached, staged: true, bound: []string{"/t"}}, stepUnbind, 0},
		"down: then the staging mount":    {desired{down: true}, observed{Device: attached, staged: true}, stepUnmount, 0},
		"down: then the device":           {desired{down: true}, observed{Device: attached}, stepDetach, 0},
		"down: the image stays":           {desired{down: true, verb: fsm.GoalRemove}, observed{Device: image}, stepNone, 0},
		"down: also with the pool absent": {desired{down: true}, observed{Device: Device{Absent: true, Path: "/dev/loop0"}}, stepDetach, 0},
		"down: before any bring-up":       {desired{down: true, grant: formattedGrant()}, observed{Device: attached}, stepDetach, 0},
		"a target that is to go goes":     {desired{drop: []string{"/t"}}, observed{Device: attached, staged: true}, stepUnbind, 0},

		"stage: attach first":                      {desired{size: testGib, grant: formattedGrant()}, observed{Device: image}, stepAttach, 0},
		"stage: then look what is on it":           {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached}, stepProbe, 0},
		"stage: then record":                       {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, content: ours}, stepRecord, 0},
		"stage: then mount":                        {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, content: ours, recorded: true}, stepMount, 0},
		"stage: then it is done":                   {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, content: ours, recorded: true, staged: true}, stepNone, 0},
		"stage: what is staged is not read":        {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, recorded: true, staged: true}, stepNone, 0},
		"stage: a mount without a record is noted": {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, content: ours, staged: true}, stepRecord, 0},
		"stage: not another filesystem":            {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, content: Content{Read: true, Found: otherFS}}, stepRefuse, fsm.Precondition},
		"stage: not an empty device":               {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, content: empty}, stepRefuse, fsm.Precondition},
		"S14 stage: not a missing device":          {desired{size: testGib, grant: formattedGrant()}, observed{Device: missing}, stepRefuse, fsm.Precondition},
		"S12 stage: not in an absent pool":         {desired{size: testGib, grant: formattedGrant()}, observed{Device: absent}, stepRefuse, fsm.Precondition},
		"stage: not a device of another size":      {desired{size: 2 * testGib, grant: formattedGrant()}, observed{Device: attached}, stepRefuse, fsm.Precondition},

		"S3 stage: an older mount goes first": {desired{size: testGib, grant: formattedGrant()}, observed{Device: attached, staged: true, older: true}, stepUnmount, 0},
		"S3 stage: and an older raw device":   {desired{size: testGib, grant: rawGrant()}, observed{Device: attached, older: true}, stepDetach, 0},
		"S3 stage: then the way is free":      {desired{size: testGib, grant: formattedGrant()}, observed{Device: image, older: true}, stepAttach, 0},

		"S15 format: recorded first":                  {desired{size: testGib, grant: formattingGrant()}, observed{Device: attached, content: empty}, stepRecord, 0},
		"S15 format: an empty device":                 {desired{size: testGib, grant: formattingGrant()}, observed{Device: attached, content: empty, recorded: true, marked: true}, stepFormat, 0},
		"S15 format: again over its own pieces":       {desired{size: testGib, grant: formattingGrant()}, observed{Device: attached, content: unknown, recorded: true, marked: true}, stepFormat, 0},
		"S15 format: again over its own filesystem":   {desired{size: testGib, grant: formattingGrant()}, observed{Device: attached, content: ours}, stepRecord, 0},
		"S15 format: never over what is not its own":  {desired{size: testGib, grant: formattingGrant()}, observed{Device: attached, content: unknown}, stepRefuse, fsm.Precondition},
		"S15 format: nor over another filesystem":     {desired{size: testGib, grant: formattingGrant()}, observed{Device: attached, content: Content{Read: true, Found: otherFS}, recorded: true}, stepRefuse, fsm.Precondition},
		"S15 format: reported before the first mount": {desired{size: testGib, grant: formattingGrant()}, observed{Device: attached, content: ours, recorded: true, marked: true, formatted: true}, stepReportFormatted, 0},

		"raw: recorded before it is given out": {desired{size: testGib, grant: rawGrant()}, observed{Device: image}, stepRecord, 0},
		"raw: attach is all":                   {desired{size: testGib, grant: rawGrant()}, observed{Device: image, recorded: true}, stepAttach, 0},
		"raw: nothing is read or made":         {desired{size: testGib, grant: rawGrant()}, observed{Device: attached, recorded: true}, stepNone, 0},
		"raw: read-only as granted":            {desired{size: testGib, grant: &grant{block: true, readOnly: true}}, observed{Device: attached, recorded: true}, stepAttach, 0},

		"bind: not what is not staged":  {desired{grant: formattedGrant(), bind: &target{Path: "/t"}}, observed{Device: attached, recorded: true}, stepRefuse, fsm.Precondition},
		"bind: not without a record":    {desired{grant: formattedGrant(), bind: &target{Path: "/t"}}, observed{Device: attached, staged: true}, stepRefuse, fsm.Precondition},
		"bind: record first":            {desired{grant: formattedGrant(), bind: &target{Path: "/t"}}, observed{Device: attached, staged: true, recorded: true}, stepRecord, 0},
		"bind: then bind":               {desired{grant: formattedGrant(), bind: &target{Path: "/t"}}, observed{Device: attached, staged: true, recorded: true, targetRecorded: true}, stepBind, 0},
		"bind: once":                    {desired{grant: formattedGrant(), bind: &target{Path: "/t"}}, observed{Device: attached, staged: true, recorded: true, targetRecorded: true, bound: []string{"/t"}}, stepNone, 0},
		"bind: a raw device":            {desired{grant: rawGrant(), bind: &target{Path: "/t"}}, observed{Device: attached, recorded: true, targetRecorded: true}, stepBind, 0},
		"bind: not a raw device not up": {desired{grant: rawGrant(), bind: &target{Path: "/t"}}, observed{Device: image, recorded: true}, stepRefuse, fsm.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got := next(&tc.want, &tc.have)
				require.Equal(t, tc.kind, got.kind)
				require.Equal(t, tc.reason, got.refusal.Why())
			}
		})
	}
}

// FuzzNext plays next against a host in which every step works, from any
// beginning: it must come to rest, and never do what the rules forbid.
func FuzzNext(f *testing.F) {
	f.Add(uint32(0), uint8(0))
	f.Add(uint32(0xffffffff), uint8(7))
	f.Add(uint32(0x1234567), uint8(2))
	f.Fuzz(func(t *testing.T, bits uint32, kind uint8) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		have := observed{Device: Device{Exists: bit(0), Unfinished: bit(1), Absent: bit(2), Size: testGib, ReadOnly: bit(3)}}
		if bit(4) {
			have.Path = "/dev/loop0"
			have.staged = bit(5)
		}
		have.content = []Content{{}, empty, ours, unknown}[bits>>6&3]
		have.recorded, have.marked, have.targetRecorded, have.formatted = bit(8), bit(9), bit(10), bit(11)
		have.older = bit(18) && !have.recorded
		if bit(12) && have.Path != "" {
			have.bound = []string{"/t"}
		}
		if bit(13) && have.Path != "" {
			have.strange = []string{"/x"}
		}
		want := desired{size: testGib, verb: fsm.Goal(kind & 3), down: bit(14)}
		if kind&4 != 0 {
			want.grant = []*grant{formattedGrant(), formattingGrant(), rawGrant()}[int(bits>>15&3)%3]
		}
		if bit(17) {
			want.bind = &target{Path: "/t"}
		}
		for range 20 {
			s := next(&want, &have)
			allowed(t, &want, &have, s)
			if s.kind == stepNone || s.kind == stepRefuse {
				return
			}
			play(&want, &have, s)
		}
		t.Fatalf("it does not come to rest: want %+v, have %+v", want, have)
	})
}

// allowed holds the rules that no combination may break.
func allowed(t *testing.T, want *desired, have *observed, s step) {
	t.Helper()
	switch s.kind {
	case stepCreate:
		require.True(t, want.verb == fsm.GoalCreate && !have.Exists && !have.Absent)
	case stepRemove:
		require.True(t, want.verb == fsm.GoalRemove && !have.Absent && !have.up())
	case stepFormat:
		require.True(t, want.grant.formatting && have.recorded && have.content.Read && !have.staged)
		require.True(t, have.content.Empty || have.marked || have.content.Found == want.grant.fs)
	case stepMount:
		require.True(t, want.grant != nil && !want.grant.formatting && have.recorded && have.content.Found == want.grant.fs)
	case stepBind:
		require.True(t, want.grant != nil && have.recorded && have.targetRecorded)
	case stepAttach:
		require.NotNil(t, want.grant)
		require.True(t, have.Exists && !have.Absent)
		require.True(t, !want.grant.block || have.recorded)
	case stepDetach:
		require.True(t, !have.staged && len(have.bound) == 0 && len(have.strange) == 0)
	}
}

// play is a host on which the step works.
func play(want *desired, have *observed, s step) {
	switch s.kind {
	case stepCreate:
		have.Exists, have.Unfinished = true, false
	case stepRemove:
		have.Exists, have.Unfinished = false, false
	case stepAttach:
		have.Path, have.ReadOnly = "/dev/loop0", want.grant.readOnly
	case stepDetach:
		have.Path, have.content = "", Content{}
	case stepProbe:
		have.content = ours
	case stepRecord:
		have.older = false
		have.recorded, have.marked = true, want.grant.formatting
		have.targetRecorded = want.bind != nil
	case stepFormat:
		have.content, have.formatted = ours, true
	case stepReportFormatted:
		want.grant.formatting, have.formatted = false, false
	case stepMount:
		have.staged = true
	case stepUnmount:
		have.staged = false
	case stepBind:
		have.bound = append(have.bound, s.path)
	case stepUnbind:
		have.bound, want.drop = nil, nil
	}
}

func TestBackground(t *testing.T) {
	e5, e9 := fsm.Epoch{Incarnation: 1, Index: 5}, fsm.Epoch{Incarnation: 1, Index: 9}
	published := func(epoch fsm.Epoch, staging *fsm.Staging, targets ...fsm.Target) *fsm.Publication {
		return &fsm.Publication{Node: "n1", Epoch: epoch, Staging: staging, Targets: targets}
	}
	ending := func(epoch fsm.Epoch, staging *fsm.Staging) *fsm.Publication {
		p := published(epoch, staging)
		p.Ending = true
		return p
	}
	at := &fsm.Staging{Path: "/staging", Boot: "boot", Done: true}
	held := func(epoch fsm.Epoch, targets ...target) *record {
		return &record{Staging: &staging{Epoch: epoch, Path: "/staging"}, Targets: targets}
	}
	up := observed{Device: attached, staged: true}
	bound := observed{Device: attached, staged: true, bound: []string{"/t"}}
	for name, tc := range map[string]struct {
		s      situation
		verb   fsm.Goal
		down   bool
		drop   []string
		missed []owed
		news   []string
	}{
		"a wish that is not fresh is not acted on": {
			s: situation{wish: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: held(e5), have: up},
		},
		"S14 nothing is done for a volume that the log does not know": {
			s: situation{fresh: true, record: held(e5), have: up},
		},
		"what is up as it should be stays": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at)}, record: held(e5), have: up},
			verb: fsm.GoalKeep,
		},
		"S3 what is up from an older publication goes down": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e9, nil)}, record: held(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"what is up without a publication goes down": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep}, record: held(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S31 a revoked publication goes down": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, record: held(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S31 one that was never up is told to be down": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Teardown: &fsm.Teardown{Epoch: e5}}, record: &record{}, have: observed{Device: image}},
			verb: fsm.GoalKeep, missed: []owed{{Epoch: e5}},
		},
		"S31 a newer one is not ended by it": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e9, at), Teardown: &fsm.Teardown{Epoch: e5}}, record: held(e9), have: up},
			verb: fsm.GoalKeep, missed: []owed{{Epoch: e5}},
		},
		"S31 one whose end was asked for goes down": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: ending(e5, at)}, record: held(e5), have: up},
			verb: fsm.GoalKeep, down: true,
		},
		"S2 an interrupted bring-up goes down": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at)}, record: held(e5), have: observed{Device: attached}},
			verb: fsm.GoalKeep, down: true,
		},
		"a staging that never came up is told to be down": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at)}, record: &record{}, have: observed{Device: image}},
			verb: fsm.GoalKeep, missed: []owed{{Epoch: e5}},
		},
		"S16 not while something of it is up": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at)}, record: &record{}, have: observed{Device: attached}},
			verb: fsm.GoalKeep, down: true,
		},
		"a staging mount that vanished under its targets is left to people": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at, fsm.Target{Path: "/t", Done: true})}, record: held(e5, target{Path: "/t"}), have: observed{Device: attached, bound: []string{"/t"}}},
			verb: fsm.GoalKeep,
		},
		"a target whose binding was interrupted goes": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at, fsm.Target{Path: "/t"})}, record: held(e5, target{Path: "/t"}), have: up},
			verb: fsm.GoalKeep, drop: []string{"/t"},
		},
		"a target that the log does not want goes": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at)}, record: held(e5, target{Path: "/t"}), have: bound},
			verb: fsm.GoalKeep, drop: []string{"/t"},
		},
		"a target that was never bound is told to be gone": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, at, fsm.Target{Path: "/t"})}, record: held(e5), have: up},
			verb: fsm.GoalKeep, missed: []owed{{Epoch: e5, Target: "/t"}},
		},
		"what is up and not known to be is told": {
			s:    situation{fresh: true, boot: "boot", wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Publication: published(e5, &fsm.Staging{Path: "/staging", Boot: "boot"}, fsm.Target{Path: "/t"})}, record: held(e5, target{Path: "/t"}), have: bound},
			verb: fsm.GoalKeep, news: []string{factStaged, factBound},
		},
		"a deleting volume's staging goes with it": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: held(e5), have: up},
			verb: fsm.GoalRemove,
		},
		"a made volume is told": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalCreate, Size: testGib}, record: &record{}, have: observed{Device: image}},
			verb: fsm.GoalCreate, news: []string{factCreated},
		},
		"a removed volume is told": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: &record{}, have: observed{}},
			verb: fsm.GoalRemove, news: []string{factGone},
		},
		"S12 nothing is gone from an absent pool": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalRemove}, record: &record{}, have: observed{Device: Device{Absent: true}}},
			verb: fsm.GoalRemove,
		},
		"S12 nothing is missing from an absent pool": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent}, record: &record{}, have: observed{Device: Device{Absent: true}}},
			verb: fsm.GoalKeep,
		},
		"S14 a ready volume's missing device is told": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent, Size: testGib}, record: &record{}, have: observed{}},
			verb: fsm.GoalKeep, news: []string{factMissing},
		},
		"a device that is there again is told": {
			s:    situation{fresh: true, wish: &fsm.DesiredVolume{Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaMissing, Size: testGib}, record: &record{}, have: observed{Device: image}},
			verb: fsm.GoalKeep, news: []string{factPresent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.volume = "hf-1"
			for range 2 {
				want := background(&tc.s)
				require.Equal(t, tc.verb, want.verb)
				require.Equal(t, tc.down, want.down)
				require.Equal(t, tc.drop, want.drop)
				require.Nil(t, want.grant, "S2: the background is never granted anything")
				require.Equal(t, tc.missed, missed(&tc.s))
				var told []string
				for _, f := range news(&tc.s) {
					told = append(told, f.name)
				}
				require.Equal(t, tc.news, told)
			}
		})
	}
}
