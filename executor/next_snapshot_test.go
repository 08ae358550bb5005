package executor

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestNextSnapshotStep(t *testing.T) {
	now := time.Now()
	single := func(goal fsm.SnapshotGoal) *fsm.DesiredSnapshot { return &fsm.DesiredSnapshot{Goal: goal, Attempt: 1} }
	member := func(goal fsm.SnapshotGoal) *fsm.DesiredSnapshot {
		return &fsm.DesiredSnapshot{Goal: goal, Attempt: 1, Group: "hgs-1"}
	}
	reported := member(fsm.SnapshotGoalFreeze)
	reported.Frozen = true
	file, left, absent := Device{Exists: true}, Device{Unfinished: true}, Device{Absent: true}
	begun, done := snapshotRecord{Phase: phaseBegun, Attempt: 1}, snapshotRecord{Phase: phaseTaken, Attempt: 1}
	unbroken, withoutFreeze := &freezeState{attempt: 1, until: now.Add(time.Second)}, &freezeState{attempt: 1}
	older, ended := &freezeState{attempt: 0, until: now.Add(time.Second)}, &freezeState{attempt: 1, until: now}
	for name, tc := range map[string]struct {
		single   *fsm.DesiredSnapshot
		have     Device
		record   snapshotRecord
		unbroken *freezeState
		kind     stepKind
		news     string
	}{
		"cut what is to be cut":        {single: single(fsm.SnapshotGoalTake), kind: stepTakeSnapshot},
		"once":                         {single: single(fsm.SnapshotGoalTake), have: file, record: done, news: factSnapshotTaken},
		"adopt what nobody began here": {single: single(fsm.SnapshotGoalTake), have: file, news: factSnapshotTaken},
		"S19 not what a dead process may have torn":        {single: single(fsm.SnapshotGoalTake), have: file, record: begun, kind: stepRemoveSnapshot},
		"what was left unfinished is cut anew":             {single: single(fsm.SnapshotGoalTake), have: left, record: begun, kind: stepTakeSnapshot},
		"S12 nothing is cut into an absent pool":           {single: single(fsm.SnapshotGoalTake), have: absent, kind: stepRefuse},
		"freeze a member":                                  {single: member(fsm.SnapshotGoalFreeze), kind: stepFreeze},
		"tell that it is frozen":                           {single: member(fsm.SnapshotGoalFreeze), unbroken: unbroken, record: begun, news: factFrozen},
		"tell that it is held":                             {single: member(fsm.SnapshotGoalFreeze), unbroken: withoutFreeze, record: begun, news: factFrozen},
		"once heard, wait":                                 {single: reported, unbroken: unbroken, record: begun},
		"S19 a freeze of another process is no freeze":     {single: member(fsm.SnapshotGoalFreeze), record: begun, news: factThawed},
		"S19 also without a record of it":                  {single: reported, news: factThawed},
		"what an earlier attempt left goes before":         {single: member(fsm.SnapshotGoalFreeze), have: file, kind: stepRemoveSnapshot},
		"a hold of an earlier attempt goes before":         {single: member(fsm.SnapshotGoalFreeze), unbroken: older, kind: stepThaw},
		"an ended freeze is given back":                    {single: member(fsm.SnapshotGoalFreeze), unbroken: ended, record: begun, kind: stepThaw},
		"cut a member under its freeze":                    {single: member(fsm.SnapshotGoalTake), unbroken: unbroken, record: begun, kind: stepTakeSnapshot},
		"cut a member that is only held":                   {single: member(fsm.SnapshotGoalTake), unbroken: withoutFreeze, record: begun, kind: stepTakeSnapshot},
		"S19 not under an ended one":                       {single: member(fsm.SnapshotGoalTake), unbroken: ended, record: begun, kind: stepThaw},
		"S19 not under none":                               {single: member(fsm.SnapshotGoalTake), record: begun, news: factThawed},
		"S19 not under none, with a file that may be torn": {single: member(fsm.SnapshotGoalTake), have: file, record: begun, news: factThawed},
		"thaw after the cut":                               {single: member(fsm.SnapshotGoalTake), have: file, unbroken: unbroken, record: done, kind: stepThaw},
		"then tell it, also from another process":          {single: member(fsm.SnapshotGoalTake), have: file, record: done, news: factSnapshotTaken},
		"kept: thaw":                                   {single: member(fsm.SnapshotGoalKeep), have: file, unbroken: unbroken, record: done, kind: stepThaw},
		"kept: forget how it was made":                 {single: single(fsm.SnapshotGoalKeep), have: file, record: done, kind: stepForgetSnapshotRecord},
		"kept: what failed stays known as torn":        {single: single(fsm.SnapshotGoalKeep), have: file, record: begun},
		"kept: then nothing":                           {single: single(fsm.SnapshotGoalKeep), have: file},
		"S14 a missing one is noted, never made again": {single: single(fsm.SnapshotGoalKeep), kind: stepRecordMissing},
		"and told":                              {single: single(fsm.SnapshotGoalKeep), record: snapshotRecord{Phase: phaseMissing}, news: factSnapshotMissing},
		"found again":                           {single: single(fsm.SnapshotGoalKeep), have: file, record: snapshotRecord{Phase: phaseMissing}, news: factSnapshotFound},
		"S12 an absent pool says nothing":       {single: single(fsm.SnapshotGoalKeep), have: absent},
		"given up: thaw first":                  {single: member(fsm.SnapshotGoalThaw), have: file, unbroken: unbroken, record: done, kind: stepThaw},
		"given up: remove what was cut":         {single: member(fsm.SnapshotGoalThaw), have: file, record: done, kind: stepRemoveSnapshot},
		"given up: and the record":              {single: member(fsm.SnapshotGoalThaw), record: done, kind: stepForgetSnapshotRecord},
		"given up: then tell it":                {single: member(fsm.SnapshotGoalThaw), news: factSnapshotGone},
		"removed, with what was left":           {single: single(fsm.SnapshotGoalRemove), have: left, kind: stepRemoveSnapshot},
		"removed: then tell it":                 {single: single(fsm.SnapshotGoalRemove), news: factSnapshotGone},
		"S12 not from an absent pool":           {single: single(fsm.SnapshotGoalRemove), have: absent, kind: stepRefuse},
		"nothing is wanted: thaw":               {unbroken: unbroken, record: begun, kind: stepThaw},
		"nothing is wanted: forget":             {record: begun, kind: stepForgetSnapshotRecord},
		"S14 nothing is wanted: the file stays": {have: file},
	} {
		t.Run(name, func(t *testing.T) {
			s := &snapshotView{desired: tc.single, actionable: true, have: tc.have, record: tc.record, freezeHold: tc.unbroken, now: now}
			for range 2 {
				require.Equal(t, tc.kind, nextSnapshotStep(s).kind)
				if tc.kind == stepNone {
					require.Equal(t, tc.news, unreportedSnapshotFact(s))
				}
			}
			s.actionable = false
			if got := nextSnapshotStep(s).kind; got != stepNone && got != stepForgetSnapshotRecord && !(got == stepThaw && (tc.single == nil || tc.unbroken == ended)) {
				t.Errorf("S14: without a wish of this session it would %s", got)
			}
			if tc.single != nil {
				require.Empty(t, unreportedSnapshotFact(s), "S14")
			}
		})
	}
}

// withPeerRole is a replica in the kernel whose peer has a role.
func withPeerRole(role string, connection fsmpb.ConnectionState) observedVolume {
	return observedVolume{replica: &observedReplica{ResourceStatus: ResourceStatus{InKernel: true, PeerRole: role, Connection: connection}}}
}

func TestS19_WhichSourcesCanBeSnapshotted(t *testing.T) {
	for name, tc := range map[string]struct {
		source observedSource
		want   fsm.Reason
	}{
		"nothing is mounted, whatever its size": {observedSource{}, 0},
		"mounted, sharing":                      {observedSource{mountPath: "/s", sharesBlocks: true, canFreeze: true}, 0},
		"mounted, a copy that fits":             {observedSource{mountPath: "/s", copyFitsFreeze: true, canFreeze: true}, 0},
		"mounted, a copy that does not fit":     {observedSource{mountPath: "/s", canFreeze: true}, fsm.Precondition},
		"mounted, and nothing can be frozen":    {observedSource{mountPath: "/s", sharesBlocks: true}, fsm.Precondition},
		"raw and written to, sharing":           {observedSource{rawWritable: true, sharesBlocks: true}, 0},
		"raw and written to, copying":           {observedSource{rawWritable: true, copyFitsFreeze: true}, fsm.Precondition},
		"raw and written to, in a group":        {observedSource{rawWritable: true, sharesBlocks: true, forGroup: true}, fsm.Precondition},
		"nothing is mounted, in a group":        {observedSource{forGroup: true}, 0},
		"used on the other's host, sharing":     {observedSource{observedVolume: withPeerRole("Primary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED), sharesBlocks: true}, 0},
		"used on the other's host, copying":     {observedSource{observedVolume: withPeerRole("Primary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)}, fsm.Precondition},
		"being synchronised, copying":           {observedSource{observedVolume: withPeerRole("Secondary", fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET)}, fsm.Precondition},
		"a replica that nobody uses, copying":   {observedSource{observedVolume: withPeerRole("Secondary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)}, 0},
		"missing":                               {observedSource{observedVolume: observedVolume{Device: Device{}}, sharesBlocks: true}, fsm.Precondition},
		"S12 in an absent pool":                 {observedSource{observedVolume: observedVolume{Device: Device{Absent: true}}}, fsm.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "missing" && !tc.source.Absent {
				tc.source.Exists = true
			}
			rej := tc.source.refusal("hf-1")
			if tc.want == 0 {
				require.Nil(t, rej)
				return
			}
			require.NotNil(t, rej)
			require.Equal(t, tc.want, rej.Reason)
		})
	}
}

func TestNextVolumeStepOfClonesAndExpansions(t *testing.T) {
	limits := &fsm.Limits{ReadIOPS: 1}
	none := &fsm.Limits{}
	source := fsm.Source{Volume: "hf-1"}
	cloned := func() *grant { return &grant{path: "/staging", fs: testFS, cloned: true} }
	smaller := Device{Exists: true, Size: testGib / 2, Path: "/dev/loop0", Number: 7}
	xfs := Filesystem{Type: "xfs", UUID: "uuid-1"}
	for name, tc := range map[string]struct {
		want volumeSpec
		have observedVolume
		kind stepKind
	}{
		"a volume with a source is copied":    {volumeSpec{goal: fsm.GoalCreate, size: testGib, source: source}, observedVolume{}, stepCreateFrom},
		"once":                                {volumeSpec{goal: fsm.GoalCreate, size: testGib, source: source}, observedVolume{Device: imageDevice}, stepNone},
		"S19 what may be torn is made anew":   {volumeSpec{goal: fsm.GoalCreate, size: testGib, source: source}, observedVolume{Device: imageDevice, mayBeTorn: true}, stepRemove},
		"a device grows":                      {volumeSpec{goal: fsm.GoalKeep, size: testGib, expanding: true}, observedVolume{Device: smaller}, stepExpand},
		"not without an operation":            {volumeSpec{goal: fsm.GoalKeep, size: testGib}, observedVolume{Device: smaller}, stepNone},
		"not one that lost its end":           {volumeSpec{goal: fsm.GoalKeep, size: testGib, expanding: true}, observedVolume{Device: smaller, recordedSize: testGib}, stepRefuse},
		"not a missing one":                   {volumeSpec{goal: fsm.GoalKeep, size: testGib, expanding: true}, observedVolume{}, stepNone},
		"never smaller":                       {volumeSpec{goal: fsm.GoalKeep, size: testGib / 4, expanding: true}, observedVolume{Device: smaller}, stepNone},
		"before it is staged":                 {volumeSpec{size: testGib, expanding: true, grant: formattedGrant()}, observedVolume{Device: smaller}, stepExpand},
		"a clone gets an identity":            {volumeSpec{size: testGib, grant: cloned(), canExpandFilesystem: true}, observedVolume{Device: activeDevice, content: Content{Read: true, Found: otherFS}}, stepChangeUUID},
		"which is reported":                   {volumeSpec{size: testGib, grant: cloned(), canExpandFilesystem: true}, observedVolume{Device: activeDevice, content: ownContent}, stepReportFormatted},
		"not one that holds something else":   {volumeSpec{size: testGib, grant: cloned(), canExpandFilesystem: true}, observedVolume{Device: activeDevice, content: Content{Read: true, Found: xfs}}, stepRefuse},
		"S15 an empty clone is not formatted": {volumeSpec{size: testGib, grant: cloned(), canExpandFilesystem: true}, observedVolume{Device: activeDevice, content: emptyContent}, stepRefuse},
		"ext4 grows before the mount":         {volumeSpec{size: testGib, grant: formattedGrant(), canExpandFilesystem: true}, observedVolume{Device: activeDevice, content: ownContent, recorded: true}, stepExpandFilesystem},
		"once for each size":                  {volumeSpec{size: testGib, grant: formattedGrant(), canExpandFilesystem: true}, observedVolume{Device: activeDevice, content: ownContent, recorded: true, filesystemFor: testGib}, stepMount},
		"xfs is mounted first":                {volumeSpec{size: testGib, grant: &grant{fs: xfs}, canExpandFilesystem: true}, observedVolume{Device: activeDevice, content: Content{Read: true, Found: xfs}, recorded: true}, stepMount},
		"and then grows":                      {volumeSpec{size: testGib, grant: &grant{fs: xfs}, canExpandFilesystem: true}, observedVolume{Device: activeDevice, staged: true, recorded: true}, stepExpandFilesystem},
		"not when it is read-only":            {volumeSpec{size: testGib, grant: &grant{fs: xfs, readOnly: true}, canExpandFilesystem: true}, observedVolume{Device: activeDevice, staged: true, recorded: true}, stepNone},
		"limits before the mount":             {volumeSpec{size: testGib, grant: formattedGrant(), limits: limits, canThrottle: true}, observedVolume{Device: activeDevice, content: ownContent, recorded: true}, stepThrottle},
		"then the mount":                      {volumeSpec{size: testGib, grant: formattedGrant(), limits: limits, canThrottle: true}, observedVolume{Device: activeDevice, content: ownContent, recorded: true, limits: limits}, stepMount},
		"limits before a raw device is bound": {volumeSpec{size: testGib, grant: rawGrant(), limits: limits, canThrottle: true}, observedVolume{Device: activeDevice, recorded: true}, stepThrottle},
		"S73: limits that cannot be put in force keep nobody out": {volumeSpec{size: testGib, grant: rawGrant(), limits: limits}, observedVolume{Device: activeDevice, recorded: true}, stepNone},
		"but who asks for them is told":                           {volumeSpec{goal: fsm.GoalKeep, size: testGib, expanding: true, limits: limits}, observedVolume{Device: activeDevice}, stepRefuse},
		"no limits where there never were any":                    {volumeSpec{size: testGib, grant: rawGrant(), limits: none}, observedVolume{Device: activeDevice, recorded: true}, stepNone},
		"limits that may be left are taken off":                   {volumeSpec{size: testGib, grant: rawGrant(), limits: none, canThrottle: true}, observedVolume{Device: activeDevice, recorded: true, mayBeLimited: true}, stepThrottle},
		"limits change while it is up":                            {volumeSpec{goal: fsm.GoalKeep, limits: limits, canThrottle: true}, observedVolume{Device: activeDevice, limits: none}, stepThrottle},
		"and stay":                                                {volumeSpec{goal: fsm.GoalKeep, limits: limits, canThrottle: true}, observedVolume{Device: activeDevice, limits: limits}, stepNone},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.kind, nextVolumeStep(&tc.want, &tc.have).kind)
			}
		})
	}
}

func TestHealthConditions(t *testing.T) {
	well := fsm.Condition{Message: "mounted"}
	whole := Device{Exists: true, Size: testGib}
	for name, tc := range map[string]struct {
		vitals healthInputs
		want   string
	}{
		"well":                           {healthInputs{device: whole, size: testGib, measuredCondition: well}, ""},
		"larger than wanted":             {healthInputs{device: whole, size: testGib / 2, measuredCondition: well}, ""},
		"S12 the pool is absent":         {healthInputs{device: Device{Absent: true}}, "the pool of the volume is absent"},
		"missing":                        {healthInputs{}, "the image of the volume is missing"},
		"short":                          {healthInputs{device: whole, size: 2 * testGib}, "the image of the volume is shorter than it was made"},
		"a stuck command":                {healthInputs{device: whole, parked: true}, "a command on the device cannot be killed"},
		"the mount is gone":              {healthInputs{device: whole, staged: true}, "the volume is staged, but its mount is gone"},
		"an error":                       {healthInputs{device: whole, statsErr: errors.New("EIO")}, "the volume does not answer: EIO"},
		"read-only":                      {healthInputs{device: whole, measuredCondition: fsm.Condition{Abnormal: true, Message: "ro"}}, "ro"},
		"the pool is full":               {healthInputs{device: whole, measuredCondition: well, minFree: 2, pool: PoolFacts{Capacity: testGib, Free: 1}}, "the pool of the volume is full"},
		"the pool has room":              {healthInputs{device: whole, measuredCondition: well, minFree: 2, pool: PoolFacts{Capacity: testGib, Free: testGib}}, ""},
		"the pool is used to 90 %":       {healthInputs{device: whole, measuredCondition: well, pool: PoolFacts{Capacity: 100 * testGib, Free: 10 * testGib}}, ""},
		"to more than that":              {healthInputs{device: whole, measuredCondition: well, pool: PoolFacts{Capacity: 100 * testGib, Free: 10*testGib - 1}}, poolNearlyFull},
		"still to more than 85 %":        {healthInputs{device: whole, measuredCondition: well, wasNearlyFull: true, pool: PoolFacts{Capacity: 100 * testGib, Free: 15*testGib - 1}}, poolNearlyFull},
		"to less again":                  {healthInputs{device: whole, measuredCondition: well, wasNearlyFull: true, pool: PoolFacts{Capacity: 100 * testGib, Free: 15 * testGib}}, ""},
		"the pool could not be measured": {healthInputs{device: whole, measuredCondition: well, minFree: 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, abnormalMessage(tc.vitals.condition()))
		})
	}
}
