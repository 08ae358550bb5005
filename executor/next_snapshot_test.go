package executor

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestNextCut(t *testing.T) {
	now := time.Now()
	wish := func(verb fsm.SnapshotGoal) *fsm.DesiredSnapshot { return &fsm.DesiredSnapshot{Goal: verb, Attempt: 1} }
	member := func(verb fsm.SnapshotGoal) *fsm.DesiredSnapshot {
		return &fsm.DesiredSnapshot{Goal: verb, Attempt: 1, Group: "hgs-1"}
	}
	reported := member(fsm.SnapshotGoalFreeze)
	reported.Frozen = true
	file, left, absent := Device{Exists: true}, Device{Unfinished: true}, Device{Absent: true}
	begun, done := snapshotRecord{Phase: cutBegun, Attempt: 1}, snapshotRecord{Phase: cutDone, Attempt: 1}
	held, lasting := &hold{attempt: 1, until: now.Add(time.Second)}, &hold{attempt: 1}
	older, ended := &hold{attempt: 0, until: now.Add(time.Second)}, &hold{attempt: 1, until: now}
	for name, tc := range map[string]struct {
		wish   *fsm.DesiredSnapshot
		have   Device
		record snapshotRecord
		held   *hold
		kind   stepKind
		news   string
	}{
		"cut what is to be cut":        {wish: wish(fsm.SnapshotGoalTake), kind: stepCut},
		"once":                         {wish: wish(fsm.SnapshotGoalTake), have: file, record: done, news: factCut},
		"adopt what nobody began here": {wish: wish(fsm.SnapshotGoalTake), have: file, news: factCut},
		"S19 not what a dead process may have torn":        {wish: wish(fsm.SnapshotGoalTake), have: file, record: begun, kind: stepRemoveSnapshot},
		"what was left unfinished is cut anew":             {wish: wish(fsm.SnapshotGoalTake), have: left, record: begun, kind: stepCut},
		"S12 nothing is cut into an absent pool":           {wish: wish(fsm.SnapshotGoalTake), have: absent, kind: stepRefuse},
		"freeze a member":                                  {wish: member(fsm.SnapshotGoalFreeze), kind: stepFreeze},
		"tell that it is frozen":                           {wish: member(fsm.SnapshotGoalFreeze), held: held, record: begun, news: factFrozen},
		"tell that it is held":                             {wish: member(fsm.SnapshotGoalFreeze), held: lasting, record: begun, news: factFrozen},
		"once heard, wait":                                 {wish: reported, held: held, record: begun},
		"S19 a freeze of another process is no freeze":     {wish: member(fsm.SnapshotGoalFreeze), record: begun, news: factThawed},
		"S19 also without a record of it":                  {wish: reported, news: factThawed},
		"what an earlier attempt left goes before":         {wish: member(fsm.SnapshotGoalFreeze), have: file, kind: stepRemoveSnapshot},
		"a hold of an earlier attempt goes before":         {wish: member(fsm.SnapshotGoalFreeze), held: older, kind: stepThaw},
		"an ended freeze is given back":                    {wish: member(fsm.SnapshotGoalFreeze), held: ended, record: begun, kind: stepThaw},
		"cut a member under its freeze":                    {wish: member(fsm.SnapshotGoalTake), held: held, record: begun, kind: stepCut},
		"cut a member that is only held":                   {wish: member(fsm.SnapshotGoalTake), held: lasting, record: begun, kind: stepCut},
		"S19 not under an ended one":                       {wish: member(fsm.SnapshotGoalTake), held: ended, record: begun, kind: stepThaw},
		"S19 not under none":                               {wish: member(fsm.SnapshotGoalTake), record: begun, news: factThawed},
		"S19 not under none, with a file that may be torn": {wish: member(fsm.SnapshotGoalTake), have: file, record: begun, news: factThawed},
		"thaw after the cut":                               {wish: member(fsm.SnapshotGoalTake), have: file, held: held, record: done, kind: stepThaw},
		"then tell it, also from another process":          {wish: member(fsm.SnapshotGoalTake), have: file, record: done, news: factCut},
		"kept: thaw":                                   {wish: member(fsm.SnapshotGoalKeep), have: file, held: held, record: done, kind: stepThaw},
		"kept: forget how it was made":                 {wish: wish(fsm.SnapshotGoalKeep), have: file, record: done, kind: stepForget},
		"kept: what failed stays known as torn":        {wish: wish(fsm.SnapshotGoalKeep), have: file, record: begun},
		"kept: then nothing":                           {wish: wish(fsm.SnapshotGoalKeep), have: file},
		"S14 a missing one is noted, never made again": {wish: wish(fsm.SnapshotGoalKeep), kind: stepMiss},
		"and told":                              {wish: wish(fsm.SnapshotGoalKeep), record: snapshotRecord{Phase: cutMissing}, news: factMissed},
		"found again":                           {wish: wish(fsm.SnapshotGoalKeep), have: file, record: snapshotRecord{Phase: cutMissing}, news: factFound},
		"S12 an absent pool says nothing":       {wish: wish(fsm.SnapshotGoalKeep), have: absent},
		"given up: thaw first":                  {wish: member(fsm.SnapshotGoalThaw), have: file, held: held, record: done, kind: stepThaw},
		"given up: remove what was cut":         {wish: member(fsm.SnapshotGoalThaw), have: file, record: done, kind: stepRemoveSnapshot},
		"given up: and the record":              {wish: member(fsm.SnapshotGoalThaw), record: done, kind: stepForget},
		"given up: then tell it":                {wish: member(fsm.SnapshotGoalThaw), news: factRemoved},
		"removed, with what was left":           {wish: wish(fsm.SnapshotGoalRemove), have: left, kind: stepRemoveSnapshot},
		"removed: then tell it":                 {wish: wish(fsm.SnapshotGoalRemove), news: factRemoved},
		"S12 not from an absent pool":           {wish: wish(fsm.SnapshotGoalRemove), have: absent, kind: stepRefuse},
		"nothing is wanted: thaw":               {held: held, record: begun, kind: stepThaw},
		"nothing is wanted: forget":             {record: begun, kind: stepForget},
		"S14 nothing is wanted: the file stays": {have: file},
	} {
		t.Run(name, func(t *testing.T) {
			s := &cutSituation{wish: tc.wish, fresh: true, have: tc.have, record: tc.record, held: tc.held, now: now}
			for range 2 {
				require.Equal(t, tc.kind, nextCut(s).kind)
				if tc.kind == stepNone {
					require.Equal(t, tc.news, cutNews(s))
				}
			}
			s.fresh = false
			if got := nextCut(s).kind; got != stepNone && got != stepForget && !(got == stepThaw && (tc.wish == nil || tc.held == ended)) {
				t.Errorf("S14: without a wish of this session it would %s", got)
			}
			if tc.wish != nil {
				require.Empty(t, cutNews(s), "S14")
			}
		})
	}
}

// beside is a replica in the kernel whose peer has a role.
func beside(role string, connection fsmpb.ConnectionState) observed {
	return observed{replica: &replicaHave{Mirror: Mirror{InKernel: true, PeerRole: role, Connection: connection}}}
}

func TestS19_WhichSourcesCanBeCut(t *testing.T) {
	for name, tc := range map[string]struct {
		source source
		want   fsm.Reason
	}{
		"nothing is mounted, whatever its size": {source{}, 0},
		"mounted, sharing":                      {source{mounted: "/s", shares: true, freezes: true}, 0},
		"mounted, a copy that fits":             {source{mounted: "/s", fits: true, freezes: true}, 0},
		"mounted, a copy that does not fit":     {source{mounted: "/s", freezes: true}, fsm.Precondition},
		"mounted, and nothing can be frozen":    {source{mounted: "/s", shares: true}, fsm.Precondition},
		"raw and written to, sharing":           {source{raw: true, shares: true}, 0},
		"raw and written to, copying":           {source{raw: true, fits: true}, fsm.Precondition},
		"raw and written to, in a group":        {source{raw: true, shares: true, group: true}, fsm.Precondition},
		"nothing is mounted, in a group":        {source{group: true}, 0},
		"used on the other's host, sharing":     {source{observed: beside("Primary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED), shares: true}, 0},
		"used on the other's host, copying":     {source{observed: beside("Primary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)}, fsm.Precondition},
		"being synchronised, copying":           {source{observed: beside("Secondary", fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET)}, fsm.Precondition},
		"a replica that nobody uses, copying":   {source{observed: beside("Secondary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)}, 0},
		"missing":                               {source{observed: observed{Device: Device{}}, shares: true}, fsm.Precondition},
		"S12 in an absent pool":                 {source{observed: observed{Device: Device{Absent: true}}}, fsm.Unreachable},
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

func TestNextOfCopies(t *testing.T) {
	limits := &fsm.Limits{ReadIOPS: 1}
	none := &fsm.Limits{}
	source := fsm.Source{Volume: "hf-1"}
	cloned := func() *grant { return &grant{path: "/staging", fs: testFS, cloned: true} }
	smaller := Device{Exists: true, Size: testGib / 2, Path: "/dev/loop0", Number: 7}
	xfs := Filesystem{Type: "xfs", UUID: "uuid-1"}
	for name, tc := range map[string]struct {
		want desired
		have observed
		kind stepKind
	}{
		"a volume with a source is copied":    {desired{verb: fsm.GoalCreate, size: testGib, source: source}, observed{}, stepCopy},
		"once":                                {desired{verb: fsm.GoalCreate, size: testGib, source: source}, observed{Device: image}, stepNone},
		"S19 what may be torn is made anew":   {desired{verb: fsm.GoalCreate, size: testGib, source: source}, observed{Device: image, copying: true}, stepRemove},
		"a device grows":                      {desired{verb: fsm.GoalKeep, size: testGib, growing: true}, observed{Device: smaller}, stepGrow},
		"not without an operation":            {desired{verb: fsm.GoalKeep, size: testGib}, observed{Device: smaller}, stepNone},
		"not one that lost its end":           {desired{verb: fsm.GoalKeep, size: testGib, growing: true}, observed{Device: smaller, known: testGib}, stepRefuse},
		"not a missing one":                   {desired{verb: fsm.GoalKeep, size: testGib, growing: true}, observed{}, stepNone},
		"never smaller":                       {desired{verb: fsm.GoalKeep, size: testGib / 4, growing: true}, observed{Device: smaller}, stepNone},
		"before it is staged":                 {desired{size: testGib, growing: true, grant: formattedGrant()}, observed{Device: smaller}, stepGrow},
		"a clone gets an identity":            {desired{size: testGib, grant: cloned(), grows: true}, observed{Device: attached, content: Content{Read: true, Found: otherFS}}, stepIdentity},
		"which is reported":                   {desired{size: testGib, grant: cloned(), grows: true}, observed{Device: attached, content: ours}, stepReportFormatted},
		"not one that holds something else":   {desired{size: testGib, grant: cloned(), grows: true}, observed{Device: attached, content: Content{Read: true, Found: xfs}}, stepRefuse},
		"S15 an empty clone is not formatted": {desired{size: testGib, grant: cloned(), grows: true}, observed{Device: attached, content: empty}, stepRefuse},
		"ext4 grows before the mount":         {desired{size: testGib, grant: formattedGrant(), grows: true}, observed{Device: attached, content: ours, recorded: true}, stepGrowFS},
		"once for each size":                  {desired{size: testGib, grant: formattedGrant(), grows: true}, observed{Device: attached, content: ours, recorded: true, grownTo: testGib}, stepMount},
		"xfs is mounted first":                {desired{size: testGib, grant: &grant{fs: xfs}, grows: true}, observed{Device: attached, content: Content{Read: true, Found: xfs}, recorded: true}, stepMount},
		"and then grows":                      {desired{size: testGib, grant: &grant{fs: xfs}, grows: true}, observed{Device: attached, staged: true, recorded: true}, stepGrowFS},
		"not when it is read-only":            {desired{size: testGib, grant: &grant{fs: xfs, readOnly: true}, grows: true}, observed{Device: attached, staged: true, recorded: true}, stepNone},
		"limits before the mount":             {desired{size: testGib, grant: formattedGrant(), limits: limits, throttles: true}, observed{Device: attached, content: ours, recorded: true}, stepThrottle},
		"then the mount":                      {desired{size: testGib, grant: formattedGrant(), limits: limits, throttles: true}, observed{Device: attached, content: ours, recorded: true, limits: limits}, stepMount},
		"limits before a raw device is bound": {desired{size: testGib, grant: rawGrant(), limits: limits, throttles: true}, observed{Device: attached, recorded: true}, stepThrottle},
		"S73: limits that cannot be put in force keep nobody out": {desired{size: testGib, grant: rawGrant(), limits: limits}, observed{Device: attached, recorded: true}, stepNone},
		"but who asks for them is told":                           {desired{verb: fsm.GoalKeep, size: testGib, growing: true, limits: limits}, observed{Device: attached}, stepRefuse},
		"no limits where there never were any":                    {desired{size: testGib, grant: rawGrant(), limits: none}, observed{Device: attached, recorded: true}, stepNone},
		"limits that may be left are taken off":                   {desired{size: testGib, grant: rawGrant(), limits: none, throttles: true}, observed{Device: attached, recorded: true, limited: true}, stepThrottle},
		"limits change while it is up":                            {desired{verb: fsm.GoalKeep, limits: limits, throttles: true}, observed{Device: attached, limits: none}, stepThrottle},
		"and stay":                                                {desired{verb: fsm.GoalKeep, limits: limits, throttles: true}, observed{Device: attached, limits: limits}, stepNone},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.kind, next(&tc.want, &tc.have).kind)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	well := fsm.Condition{Message: "mounted"}
	whole := Device{Exists: true, Size: testGib}
	for name, tc := range map[string]struct {
		vitals vitals
		want   string
	}{
		"well":                           {vitals{device: whole, size: testGib, measured: well}, ""},
		"larger than wanted":             {vitals{device: whole, size: testGib / 2, measured: well}, ""},
		"S12 the pool is absent":         {vitals{device: Device{Absent: true}}, "the pool of the volume is absent"},
		"missing":                        {vitals{}, "the image of the volume is missing"},
		"short":                          {vitals{device: whole, size: 2 * testGib}, "the image of the volume is shorter than it was made"},
		"a stuck command":                {vitals{device: whole, parked: true}, "a command on the device cannot be killed"},
		"the mount is gone":              {vitals{device: whole, staged: true}, "the volume is staged, but its mount is gone"},
		"an error":                       {vitals{device: whole, failure: errors.New("EIO")}, "the volume does not answer: EIO"},
		"read-only":                      {vitals{device: whole, measured: fsm.Condition{Abnormal: true, Message: "ro"}}, "ro"},
		"the pool is full":               {vitals{device: whole, measured: well, minFree: 2, pool: PoolFacts{Capacity: testGib, Free: 1}}, "the pool of the volume is full"},
		"the pool has room":              {vitals{device: whole, measured: well, minFree: 2, pool: PoolFacts{Capacity: testGib, Free: testGib}}, ""},
		"the pool is used to 90 %":       {vitals{device: whole, measured: well, pool: PoolFacts{Capacity: 100 * testGib, Free: 10 * testGib}}, ""},
		"to more than that":              {vitals{device: whole, measured: well, pool: PoolFacts{Capacity: 100 * testGib, Free: 10*testGib - 1}}, poolNearlyFull},
		"still to more than 85 %":        {vitals{device: whole, measured: well, warned: true, pool: PoolFacts{Capacity: 100 * testGib, Free: 15*testGib - 1}}, poolNearlyFull},
		"to less again":                  {vitals{device: whole, measured: well, warned: true, pool: PoolFacts{Capacity: 100 * testGib, Free: 15 * testGib}}, ""},
		"the pool could not be measured": {vitals{device: whole, measured: well, minFree: 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, ailing(tc.vitals.condition()))
		})
	}
}
