package plan

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
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
	file, left, absent := executor.Device{Exists: true}, executor.Device{Unfinished: true}, executor.Device{Absent: true}
	short, large := executor.Device{Exists: true, Size: -1}, executor.Device{Exists: true, Size: 1}
	begun, done := records.SnapshotRecord{Phase: records.PhaseBegun, Attempt: 1}, records.SnapshotRecord{Phase: records.PhaseTaken, Attempt: 1}
	unbroken, withoutFreeze := &FreezeState{Attempt: 1, Until: now.Add(time.Second)}, &FreezeState{Attempt: 1}
	older, ended := &FreezeState{Attempt: 0, Until: now.Add(time.Second)}, &FreezeState{Attempt: 1, Until: now}
	for name, tc := range map[string]struct {
		single   *fsm.DesiredSnapshot
		have     executor.Device
		record   records.SnapshotRecord
		unbroken *FreezeState
		kind     StepKind
		news     string
	}{
		"take what is to be taken":     {single: single(fsm.SnapshotGoalTake), kind: StepTakeSnapshot},
		"once":                         {single: single(fsm.SnapshotGoalTake), have: file, record: done, news: factSnapshotTaken},
		"adopt what nobody began here": {single: single(fsm.SnapshotGoalTake), have: file, news: factSnapshotTaken},
		"S19 not what a dead process may have torn":        {single: single(fsm.SnapshotGoalTake), have: file, record: begun, kind: StepRemoveSnapshot},
		"what is too short is not reported":                {single: single(fsm.SnapshotGoalTake), have: short, record: done, kind: StepRemoveSnapshot},
		"nor what is too large, which stays":               {single: single(fsm.SnapshotGoalTake), have: large, record: done, kind: StepRefuse},
		"what was left unfinished is taken anew":           {single: single(fsm.SnapshotGoalTake), have: left, record: begun, kind: StepTakeSnapshot},
		"S12 nothing is taken in an absent pool":           {single: single(fsm.SnapshotGoalTake), have: absent, kind: StepRefuse},
		"freeze a member":                                  {single: member(fsm.SnapshotGoalFreeze), kind: StepFreeze},
		"tell that it is frozen":                           {single: member(fsm.SnapshotGoalFreeze), unbroken: unbroken, record: begun, news: factFrozen},
		"tell that it is held":                             {single: member(fsm.SnapshotGoalFreeze), unbroken: withoutFreeze, record: begun, news: factFrozen},
		"once reported, wait":                              {single: reported, unbroken: unbroken, record: begun},
		"S19 a freeze of another process is no freeze":     {single: member(fsm.SnapshotGoalFreeze), record: begun, news: factThawed},
		"S19 also without a record of it":                  {single: reported, news: factThawed},
		"what an earlier attempt left goes before":         {single: member(fsm.SnapshotGoalFreeze), have: file, kind: StepRemoveSnapshot},
		"a hold of an earlier attempt goes before":         {single: member(fsm.SnapshotGoalFreeze), unbroken: older, kind: StepThaw},
		"an ended freeze is given back":                    {single: member(fsm.SnapshotGoalFreeze), unbroken: ended, record: begun, kind: StepThaw},
		"take a member under its freeze":                   {single: member(fsm.SnapshotGoalTake), unbroken: unbroken, record: begun, kind: StepTakeSnapshot},
		"take a member without a freeze":                   {single: member(fsm.SnapshotGoalTake), unbroken: withoutFreeze, record: begun, kind: StepTakeSnapshot},
		"S19 not under an ended one":                       {single: member(fsm.SnapshotGoalTake), unbroken: ended, record: begun, kind: StepThaw},
		"S19 not under none":                               {single: member(fsm.SnapshotGoalTake), record: begun, news: factThawed},
		"S19 not under none, with a file that may be torn": {single: member(fsm.SnapshotGoalTake), have: file, record: begun, news: factThawed},
		"thaw after it is taken":                           {single: member(fsm.SnapshotGoalTake), have: file, unbroken: unbroken, record: done, kind: StepThaw},
		"then tell it, also from another process":          {single: member(fsm.SnapshotGoalTake), have: file, record: done, news: factSnapshotTaken},
		"kept: thaw":                                   {single: member(fsm.SnapshotGoalKeep), have: file, unbroken: unbroken, record: done, kind: StepThaw},
		"kept: forget how it was made":                 {single: single(fsm.SnapshotGoalKeep), have: file, record: done, kind: StepForgetSnapshotRecord},
		"kept: what failed stays known as torn":        {single: single(fsm.SnapshotGoalKeep), have: file, record: begun},
		"kept: then nothing":                           {single: single(fsm.SnapshotGoalKeep), have: file},
		"S14 a missing one is noted, never made again": {single: single(fsm.SnapshotGoalKeep), kind: StepRecordMissing},
		"and reported":                                 {single: single(fsm.SnapshotGoalKeep), record: records.SnapshotRecord{Phase: records.PhaseMissing}, news: FactSnapshotMissing},
		"found again":                                  {single: single(fsm.SnapshotGoalKeep), have: file, record: records.SnapshotRecord{Phase: records.PhaseMissing}, news: FactSnapshotFound},
		"S12 an absent pool says nothing":              {single: single(fsm.SnapshotGoalKeep), have: absent},
		"aborted: thaw first":                          {single: member(fsm.SnapshotGoalThaw), have: file, unbroken: unbroken, record: done, kind: StepThaw},
		"aborted: remove what was taken":               {single: member(fsm.SnapshotGoalThaw), have: file, record: done, kind: StepRemoveSnapshot},
		"aborted: and the record":                      {single: member(fsm.SnapshotGoalThaw), record: done, kind: StepForgetSnapshotRecord},
		"aborted: then report it":                      {single: member(fsm.SnapshotGoalThaw), news: factSnapshotGone},
		"removed, with what was left":                  {single: single(fsm.SnapshotGoalRemove), have: left, kind: StepRemoveSnapshot},
		"removed: then tell it":                        {single: single(fsm.SnapshotGoalRemove), news: factSnapshotGone},
		"S12 not from an absent pool":                  {single: single(fsm.SnapshotGoalRemove), have: absent, kind: StepRefuse},
		"nothing is wanted: thaw":                      {unbroken: unbroken, record: begun, kind: StepThaw},
		"nothing is wanted: forget":                    {record: begun, kind: StepForgetSnapshotRecord},
		"S14 nothing is wanted: the file stays":        {have: file},
	} {
		t.Run(name, func(t *testing.T) {
			s := &SnapshotView{Desired: tc.single, Actionable: true, Have: tc.have, Record: tc.record, FreezeHold: tc.unbroken, Now: now}
			for range 2 {
				require.Equal(t, tc.kind, NextSnapshotStep(s).Kind)
				if tc.kind == StepNone {
					require.Equal(t, tc.news, UnreportedSnapshotFact(s))
				}
			}
			s.Actionable = false
			if got := NextSnapshotStep(s).Kind; got != StepNone && got != StepForgetSnapshotRecord && !(got == StepThaw && (tc.single == nil || tc.unbroken == ended)) {
				t.Errorf("S14: without a desired state of this session it would %s", got)
			}
			if tc.single != nil {
				require.Empty(t, UnreportedSnapshotFact(s), "S14")
			}
		})
	}
}

// withPeerRole is a replica in the kernel whose peer has a role.
func withPeerRole(role string, connection fsmpb.ConnectionState) ObservedVolume {
	return ObservedVolume{Replica: &ObservedReplica{ResourceStatus: executor.ResourceStatus{InKernel: true, Disk: DiskUpToDate, PeerRole: role, Connection: connection}}}
}

// withDisk is a replica with a disk in this state, not in the kernel when it is 0.
func withDisk(disk fsmpb.DiskState) ObservedVolume {
	return ObservedVolume{Replica: &ObservedReplica{ResourceStatus: executor.ResourceStatus{InKernel: disk != 0, Disk: disk, Connection: ConnConnected}}}
}

func TestS19_WhichSourcesCanBeSnapshotted(t *testing.T) {
	for name, tc := range map[string]struct {
		source ObservedSource
		want   fsm.Reason
	}{
		"nothing is mounted, whatever its size": {ObservedSource{}, 0},
		"mounted, sharing":                      {ObservedSource{MountPath: "/s", SharesBlocks: true, CanFreeze: true}, 0},
		"mounted, a copy that fits":             {ObservedSource{MountPath: "/s", CopyFitsFreeze: true, CanFreeze: true}, 0},
		"mounted, a copy that does not fit":     {ObservedSource{MountPath: "/s", CanFreeze: true}, fsm.Precondition},
		"mounted, and nothing can be frozen":    {ObservedSource{MountPath: "/s", SharesBlocks: true}, fsm.Precondition},
		"raw and written to, sharing":           {ObservedSource{RawWritable: true, SharesBlocks: true}, 0},
		"raw and written to, copying":           {ObservedSource{RawWritable: true, CopyFitsFreeze: true}, fsm.Precondition},
		"raw and written to, in a group":        {ObservedSource{RawWritable: true, SharesBlocks: true, ForGroup: true}, fsm.Precondition},
		"nothing is mounted, in a group":        {ObservedSource{ForGroup: true}, 0},
		"used on the other's host, sharing":     {ObservedSource{ObservedVolume: withPeerRole("Primary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED), SharesBlocks: true}, 0},
		"used on the other's host, copying":     {ObservedSource{ObservedVolume: withPeerRole("Primary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)}, fsm.Precondition},
		"being synchronised, copying":           {ObservedSource{ObservedVolume: withPeerRole("Secondary", fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET)}, fsm.Precondition},
		"a replica that nobody uses, copying":   {ObservedSource{ObservedVolume: withPeerRole("Secondary", fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)}, 0},
		"S5 a replica after a boot":             {ObservedSource{ObservedVolume: withDisk(0), SharesBlocks: true}, fsm.Busy},
		"S5 a disk that failed":                 {ObservedSource{ObservedVolume: withDisk(DiskDiskless), SharesBlocks: true}, fsm.Busy},
		"S5 a disk that is being synchronised":  {ObservedSource{ObservedVolume: withDisk(diskInconsistent), SharesBlocks: true}, fsm.Busy},
		"S5 a disk that may lack writes":        {ObservedSource{ObservedVolume: withDisk(testConsistent), SharesBlocks: true}, fsm.Busy},
		"S5 an outdated disk":                   {ObservedSource{ObservedVolume: withDisk(testOutdated), SharesBlocks: true}, fsm.Busy},
		"missing":                               {ObservedSource{ObservedVolume: ObservedVolume{Device: executor.Device{}}, SharesBlocks: true}, fsm.Precondition},
		"S12 in an absent pool":                 {ObservedSource{ObservedVolume: ObservedVolume{Device: executor.Device{Absent: true}}}, fsm.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "missing" && !tc.source.Absent {
				tc.source.Exists = true
			}
			rej := tc.source.Refusal("hf-1")
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
	cloned := func() *Grant { return &Grant{Path: "/staging", FS: testFS, Cloned: true} }
	smaller := executor.Device{Exists: true, Size: testGib / 2, Path: "/dev/loop0", Number: 7}
	xfs := executor.Filesystem{Type: "xfs", UUID: "uuid-1"}
	for name, tc := range map[string]struct {
		want VolumeSpec
		have ObservedVolume
		kind StepKind
	}{
		"a volume with a source is copied":                        {VolumeSpec{Goal: fsm.GoalCreate, Size: testGib, Source: source}, ObservedVolume{}, StepCreateFrom},
		"once":                                                    {VolumeSpec{Goal: fsm.GoalCreate, Size: testGib, Source: source}, ObservedVolume{Device: imageDevice}, StepNone},
		"S19 what may be torn is made anew":                       {VolumeSpec{Goal: fsm.GoalCreate, Size: testGib, Source: source}, ObservedVolume{Device: imageDevice, mayBeTorn: true}, StepRemove},
		"a device grows":                                          {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true}, ObservedVolume{Device: smaller}, StepExpand},
		"not without an operation":                                {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib}, ObservedVolume{Device: smaller}, StepNone},
		"not one that lost its end":                               {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true}, ObservedVolume{Device: smaller, recordedSize: testGib}, StepRefuse},
		"S55 not one that became a replica":                       {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true}, ObservedVolume{Device: smaller, Replica: &ObservedReplica{}}, StepNone},
		"nor refused as truncated":                                {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true}, ObservedVolume{Device: smaller, Replica: &ObservedReplica{}, recordedSize: testGib}, StepNone},
		"a replica grows":                                         {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true, Replicated: true}, ObservedVolume{Device: smaller, Replica: &ObservedReplica{}}, StepExpand},
		"S55 not one that is plain again":                         {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true, Replicated: true}, ObservedVolume{Device: smaller}, StepNone},
		"not a missing one":                                       {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true}, ObservedVolume{}, StepNone},
		"never smaller":                                           {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib / 4, Expanding: true}, ObservedVolume{Device: smaller}, StepNone},
		"before it is staged":                                     {VolumeSpec{Size: testGib, Expanding: true, Grant: formattedGrant()}, ObservedVolume{Device: smaller}, StepExpand},
		"a clone gets an identity":                                {VolumeSpec{Size: testGib, Grant: cloned(), CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Content: executor.Content{Read: true, Found: otherFS}}, StepChangeUUID},
		"which is reported":                                       {VolumeSpec{Size: testGib, Grant: cloned(), CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Content: ownContent}, StepReportFormatted},
		"not one that holds something else":                       {VolumeSpec{Size: testGib, Grant: cloned(), CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Content: executor.Content{Read: true, Found: xfs}}, StepRefuse},
		"S15 an empty clone is not formatted":                     {VolumeSpec{Size: testGib, Grant: cloned(), CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Content: emptyContent}, StepRefuse},
		"ext4 grows before the mount":                             {VolumeSpec{Size: testGib, Grant: formattedGrant(), CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Content: ownContent, recorded: true}, StepExpandFilesystem},
		"once for each size":                                      {VolumeSpec{Size: testGib, Grant: formattedGrant(), CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Content: ownContent, recorded: true, FilesystemFor: testGib}, StepMount},
		"xfs is mounted first":                                    {VolumeSpec{Size: testGib, Grant: &Grant{FS: xfs}, CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Content: executor.Content{Read: true, Found: xfs}, recorded: true}, StepMount},
		"and then grows":                                          {VolumeSpec{Size: testGib, Grant: &Grant{FS: xfs}, CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Staged: true, recorded: true}, StepExpandFilesystem},
		"not when it is read-only":                                {VolumeSpec{Size: testGib, Grant: &Grant{FS: xfs, ReadOnly: true}, CanExpandFilesystem: true}, ObservedVolume{Device: activeDevice, Staged: true, recorded: true}, StepNone},
		"limits before the mount":                                 {VolumeSpec{Size: testGib, Grant: formattedGrant(), Limits: limits, CanThrottle: true}, ObservedVolume{Device: activeDevice, Content: ownContent, recorded: true}, StepThrottle},
		"then the mount":                                          {VolumeSpec{Size: testGib, Grant: formattedGrant(), Limits: limits, CanThrottle: true}, ObservedVolume{Device: activeDevice, Content: ownContent, recorded: true, Limits: limits}, StepMount},
		"limits before a raw device is bound":                     {VolumeSpec{Size: testGib, Grant: rawGrant(), Limits: limits, CanThrottle: true}, ObservedVolume{Device: activeDevice, recorded: true}, StepThrottle},
		"S73: limits that cannot be put in force keep nobody out": {VolumeSpec{Size: testGib, Grant: rawGrant(), Limits: limits}, ObservedVolume{Device: activeDevice, recorded: true}, StepNone},
		"but a call that needs them is refused":                   {VolumeSpec{Goal: fsm.GoalKeep, Size: testGib, Expanding: true, Limits: limits}, ObservedVolume{Device: activeDevice}, StepRefuse},
		"no limits where there never were any":                    {VolumeSpec{Size: testGib, Grant: rawGrant(), Limits: none}, ObservedVolume{Device: activeDevice, recorded: true}, StepNone},
		"limits that may be left are taken off":                   {VolumeSpec{Size: testGib, Grant: rawGrant(), Limits: none, CanThrottle: true}, ObservedVolume{Device: activeDevice, recorded: true, mayBeLimited: true}, StepThrottle},
		"limits change while it is up":                            {VolumeSpec{Goal: fsm.GoalKeep, Limits: limits, CanThrottle: true}, ObservedVolume{Device: activeDevice, Limits: none}, StepThrottle},
		"and stay":                                                {VolumeSpec{Goal: fsm.GoalKeep, Limits: limits, CanThrottle: true}, ObservedVolume{Device: activeDevice, Limits: limits}, StepNone},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.kind, NextVolumeStep(&tc.want, &tc.have).Kind)
			}
		})
	}
}

func TestHealthConditions(t *testing.T) {
	well := fsm.Condition{Message: "mounted"}
	whole := executor.Device{Exists: true, Size: testGib}
	for name, tc := range map[string]struct {
		vitals HealthInputs
		want   string
	}{
		"well":                           {HealthInputs{Device: whole, Size: testGib, MeasuredCondition: well}, ""},
		"larger than wanted":             {HealthInputs{Device: whole, Size: testGib / 2, MeasuredCondition: well}, ""},
		"S12 the pool is absent":         {HealthInputs{Device: executor.Device{Absent: true}}, "the pool of the volume is absent"},
		"missing":                        {HealthInputs{}, "the image of the volume is missing"},
		"short":                          {HealthInputs{Device: whole, Size: 2 * testGib}, "the image of the volume is shorter than it was made"},
		"a stuck command":                {HealthInputs{Device: whole, Parked: true}, "a command on the device cannot be killed"},
		"the mount is gone":              {HealthInputs{Device: whole, Staged: true}, "the volume is staged, but its mount is gone"},
		"S1 the log knows no replica":    {HealthInputs{Device: whole, MeasuredCondition: well, UnknownReplica: true}, UnknownReplica},
		"S6 its requests do not end":     {HealthInputs{Device: whole, MeasuredCondition: well, RequestsHang: true}, RequestsHang},
		"an error":                       {HealthInputs{Device: whole, StatsErr: errors.New("EIO")}, "the volume does not answer: EIO"},
		"read-only":                      {HealthInputs{Device: whole, MeasuredCondition: fsm.Condition{Abnormal: true, Message: "ro"}}, "ro"},
		"the pool is full":               {HealthInputs{Device: whole, MeasuredCondition: well, MinFree: 2, Pool: executor.PoolFacts{Capacity: testGib, Free: 1}}, "the pool of the volume is full"},
		"the pool has just enough":       {HealthInputs{Device: whole, MeasuredCondition: well, Pool: executor.PoolFacts{Capacity: 2 * minPoolFree, Free: minPoolFree}}, ""},
		"limits that failed":             {HealthInputs{Device: whole, MeasuredCondition: well, Staged: true, Mounted: true, LimitsError: "EIO"}, "the volume's I/O limits are not in force: EIO"},
		"of one that is not staged":      {HealthInputs{Device: whole, MeasuredCondition: well, LimitsError: "EIO"}, ""},
		"the pool has room":              {HealthInputs{Device: whole, MeasuredCondition: well, MinFree: 2, Pool: executor.PoolFacts{Capacity: testGib, Free: testGib}}, ""},
		"the pool is used to 90 %":       {HealthInputs{Device: whole, MeasuredCondition: well, Pool: executor.PoolFacts{Capacity: 100 * testGib, Free: 10 * testGib}}, ""},
		"to more than that":              {HealthInputs{Device: whole, MeasuredCondition: well, Pool: executor.PoolFacts{Capacity: 100 * testGib, Free: 10*testGib - 1}}, PoolNearlyFull},
		"still to more than 85 %":        {HealthInputs{Device: whole, MeasuredCondition: well, WasNearlyFull: true, Pool: executor.PoolFacts{Capacity: 100 * testGib, Free: 15*testGib - 1}}, PoolNearlyFull},
		"to less again":                  {HealthInputs{Device: whole, MeasuredCondition: well, WasNearlyFull: true, Pool: executor.PoolFacts{Capacity: 100 * testGib, Free: 15 * testGib}}, ""},
		"the pool could not be measured": {HealthInputs{Device: whole, MeasuredCondition: well, MinFree: 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, AbnormalMessage(tc.vitals.Condition()))
			require.LessOrEqual(t, len(tc.want), 128, "what CSI cuts a message at")
		})
	}
}
