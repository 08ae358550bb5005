package executor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	testOutdated   = fsmpb.DiskState_DISK_STATE_OUTDATED
	testConsistent = fsmpb.DiskState_DISK_STATE_CONSISTENT
	testSource     = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
)

// wantedReplica is one of a born volume that is to be connected, changed as said.
func wantedReplica(change ...func(*replicaSpec)) *replicaSpec {
	w := &replicaSpec{goal: fsm.GoalKeep, size: testGib, DesiredReplica: &fsm.DesiredReplica{
		InitialSyncDone: true, Connect: true, UpToDate: true, Peer: &fsm.ReplicaPeer{Node: "n2"}, BackingCapacity: testGib,
	}}
	for _, c := range change {
		c(w)
	}
	return w
}

// haveReplica is one that is as it should be, changed as said.
func haveReplica(change ...func(*observedReplica)) *observedReplica {
	h := &observedReplica{
		ResourceStatus: ResourceStatus{
			HasConfig: true, InKernel: true, Disk: diskUpToDate, PeerDisk: diskUpToDate, Connection: connConnected,
			HasMetadata: true, Size: testGib, PeerRole: "Secondary", SyncPercent: -1,
		},
		backing: activeDevice, configCurrent: true, adjusted: true, recorded: true, metadataMade: true, attachmentRecorded: true, attachDue: true, connectDue: true,
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func creating(w *replicaSpec)                 { w.goal, w.InitialSyncDone = fsm.GoalCreate, false }
func removing(w *replicaSpec)                 { w.goal = fsm.GoalRemove }
func outdated(w *replicaSpec)                 { w.Outdated, w.UpToDate = true, false }
func leaving(w *replicaSpec)                  { w.leaving = true }
func tearingDown(w *replicaSpec)              { w.hasTeardown = true }
func noConnect(w *replicaSpec)                { w.Connect = false }
func published(w *replicaSpec)                { w.published, w.Primary = true, true }
func promotionDone(w *replicaSpec)            { w.PromotionDone = true }
func seed(w *replicaSpec)                     { w.Seed = true }
func syncFromSeed(w *replicaSpec)             { w.SyncFromSeed = true }
func forced(w *replicaSpec)                   { w.Force = true }
func withoutPeer(w *replicaSpec)              { w.Peer, w.Connect = nil, false }
func sizeExpanded(w *replicaSpec)             { w.size = 2 * testGib }
func backingExpanded(w *replicaSpec)          { w.BackingCapacity = 2 * testGib }
func primary(h *observedReplica)              { h.Primary = true }
func ioSuspended(h *observedReplica)          { h.Suspended = true }
func noDisk(h *observedReplica)               { h.Disk, h.attachmentRecorded = diskDiskless, false }
func backingInactive(h *observedReplica)      { h.backing.Path = "" }
func notConfigured(h *observedReplica)        { h.HasConfig, h.configCurrent = false, false }
func staleConfig(h *observedReplica)          { h.configCurrent = false }
func notAdjusted(h *observedReplica)          { h.adjusted = false }
func noMetadataMade(h *observedReplica)       { h.metadataMade, h.HasMetadata = false, false }
func noMetadata(h *observedReplica)           { h.HasMetadata = false }
func unrecordedAttachment(h *observedReplica) { h.attachmentRecorded = false }
func attachmentCommitted(h *observedReplica)  { h.attachmentCommitted = true }
func attachTooSoon(h *observedReplica)        { h.attachDue = false }
func standingAlone(h *observedReplica)        { h.Connection, h.PeerDisk = connStandAlone, 0 }
func connecting(h *observedReplica)           { h.Connection, h.PeerDisk = connConnecting, 0 }
func mayHaveWrites(h *observedReplica)        { h.mayHaveWrites = true }
func copyKept(h *observedReplica)             { h.mayHaveWrites, h.copyKept = true, true }
func discarding(h *observedReplica)           { h.discarding = true }
func connectTooSoon(h *observedReplica)       { h.connectDue = false }
func mounted(h *observedReplica)              { h.mounted = true }
func justCreated(h *observedReplica) {
	h.JustCreated, h.Disk, h.PeerDisk = true, diskInconsistent, diskInconsistent
}
func inconsistent(h *observedReplica)    { h.Disk = diskInconsistent }
func fullyOutOfSync(h *observedReplica)  { h.OutOfSync = testGib }
func consistent(h *observedReplica)      { h.Disk = testConsistent }
func outdatedDisk(h *observedReplica)    { h.Disk = testOutdated }
func verifyDue(h *observedReplica)       { h.verifyDue = true }
func lowerHostID(h *observedReplica)     { h.lowerHostID = true }
func backingMissing(h *observedReplica)  { h.backing = Device{} }
func poolAbsent(h *observedReplica)      { h.backing = Device{Absent: true} }
func synchronising(h *observedReplica)   { h.Connection, h.PeerDisk = testSource, diskInconsistent }
func diskGivenUp(h *observedReplica)     { h.diskFailed = true }
func peerWasUpToDate(h *observedReplica) { h.peerWasUpToDate = true }
func peerUpToDate(w *replicaSpec)        { w.Peer.UpToDate, w.Peer.DiskAttached = true, true }
func peerDetached(w *replicaSpec)        { w.Peer.UpToDate = true }
func peerAttached(w *replicaSpec)        { w.Peer.DiskAttached = true }
func peerLost(w *replicaSpec)            { w.Peer.Incomplete = true }
func notInKernel(h *observedReplica) {
	h.ResourceStatus, h.attachmentRecorded, h.adjusted = ResourceStatus{HasConfig: true, HasMetadata: true, SyncPercent: -1}, false, false
}

func TestNextReplicaStep(t *testing.T) {
	type w = []func(*replicaSpec)
	type h = []func(*observedReplica)
	for name, tc := range map[string]struct {
		want w
		have h
		kind stepKind
	}{
		"what is as it should be is left":          {nil, nil, stepNone},
		"S14 a missing device is not made":         {nil, h{backingMissing}, stepNone},
		"S12 nothing is done in an absent pool":    {nil, h{notInKernel, poolAbsent}, stepNone},
		"what failed before its birth is left":     {w{func(x *replicaSpec) { x.InitialSyncDone = false }}, h{notInKernel}, stepNone},
		"the device below comes first":             {w{creating}, h{notInKernel, notConfigured, noMetadataMade, backingInactive}, stepActivateBacking},
		"then the file":                            {w{creating}, h{notInKernel, notConfigured, noMetadataMade}, stepConfigure},
		"not without a peer":                       {w{creating, withoutPeer}, h{notInKernel, notConfigured, noMetadataMade}, stepNone},
		"then the metadata":                        {w{creating}, h{notInKernel, noMetadataMade}, stepCreateMetadata},
		"S14 metadata are made while creating":     {nil, h{notInKernel, noMetadataMade}, stepRefuse},
		"S14 nor when they are gone":               {nil, h{notInKernel, noMetadata}, stepRefuse},
		"S5 the log hears of an attachment":        {w{creating}, h{notInKernel}, stepProposeAttach},
		"S5 before it is made":                     {w{creating}, h{notInKernel, attachmentCommitted}, stepAttachDisk},
		"S5 also after a boot":                     {nil, h{notInKernel}, stepProposeAttach},
		"S5 one that nobody counted is ended":      {nil, h{unrecordedAttachment}, stepDownResource},
		"S5 but never under a primary":             {nil, h{unrecordedAttachment, primary}, stepNone},
		"a disk that failed is attached again":     {nil, h{noDisk, primary}, stepProposeAttach},
		"but not all the time":                     {nil, h{noDisk, primary, attachTooSoon}, stepNone},
		"and what is connected stays so meanwhile": {nil, h{noDisk, standingAlone, attachTooSoon}, stepConnect},
		"a new file is written":                    {nil, h{staleConfig}, stepConfigure},
		"and the kernel learns of it":              {nil, h{notAdjusted}, stepAdjust},

		"S67 what failed has nothing that counts":              {nil, h{noDisk, diskGivenUp}, stepRemakeMetadata},
		"S67 also under a primary":                             {nil, h{noDisk, diskGivenUp, primary}, stepRemakeMetadata},
		"S67 also after a boot, by the log's word of its peer": {w{peerUpToDate}, h{notInKernel, diskGivenUp}, stepRemakeMetadata},
		"S67 or by the kernel's of then":                       {w{peerAttached}, h{notInKernel, diskGivenUp, peerWasUpToDate}, stepRemakeMetadata},
		"S67 not by the word of one that is away":              {w{peerDetached}, h{notInKernel, diskGivenUp, peerWasUpToDate}, stepNone},
		"S67 nor while it only connects to it":                 {w{peerDetached}, h{noDisk, connecting, diskGivenUp, peerWasUpToDate}, stepNone},
		"S67 not what may be the only good copy":               {nil, h{notInKernel, diskGivenUp}, stepNone},
		"S67 nor with a peer that lost":                        {w{peerLost}, h{notInKernel, diskGivenUp, peerWasUpToDate}, stepNone},
		"S67 nor without one":                                  {w{withoutPeer}, h{notInKernel, diskGivenUp, peerWasUpToDate}, stepNone},
		"S67 nor while both failed":                            {nil, h{noDisk, diskGivenUp, func(x *observedReplica) { x.PeerDisk = diskDiskless }}, stepNone},
		"S67 not all the time":                                 {nil, h{noDisk, diskGivenUp, attachTooSoon}, stepNone},
		"S67 what it had is kept before, if it lost":           {w{outdated, peerUpToDate}, h{notInKernel, diskGivenUp, mayHaveWrites}, stepKeepVictim},
		"S67 by a decision it goes on as it is":                {w{forced}, h{notInKernel, diskGivenUp}, stepProposeAttach},
		"S67 it is not attached as it was":                     {nil, h{notInKernel, diskGivenUp, attachmentCommitted}, stepNone},

		"it connects":                                  {nil, h{standingAlone}, stepConnect},
		"but not all the time, either":                 {nil, h{standingAlone, func(x *observedReplica) { x.connectDue = false }}, stepNone},
		"it waits for its peer":                        {nil, h{connecting}, stepNone},
		"S8 it is cut from a peer that may write":      {w{noConnect}, h{}, stepDisconnect},
		"S8 also when it waits for it":                 {w{noConnect}, h{connecting}, stepDisconnect},
		"S8 and stays so":                              {w{noConnect}, h{standingAlone}, stepNone},
		"a target that was interrupted asks for all":   {nil, h{standingAlone, inconsistent, func(x *observedReplica) { x.OutOfSync = testGib - 4096 }}, stepInvalidate},
		"not one that connected since it was attached": {nil, h{standingAlone, inconsistent, func(x *observedReplica) { x.connectedInAttachment = true }}, stepConnect},
		"then it connects":                             {nil, h{standingAlone, inconsistent, fullyOutOfSync}, stepConnect},
		"also where the log says that it lost":         {w{outdated}, h{standingAlone, inconsistent}, stepInvalidate},
		"then it gives up what it has":                 {w{outdated}, h{standingAlone, inconsistent, fullyOutOfSync}, stepConnectDiscard},
		"not one that waits for its peer":              {nil, h{connecting, inconsistent}, stepNone},
		"not one that is new":                          {w{creating}, h{standingAlone, justCreated}, stepConnect},
		"not before it may connect":                    {w{noConnect}, h{standingAlone, inconsistent}, stepNone},
		"S9 an outdated one gives up what it has":      {w{outdated}, h{standingAlone, outdatedDisk}, stepConnectDiscard},
		"S9 after that was kept if it wrote":           {w{outdated}, h{standingAlone, mayHaveWrites}, stepKeepVictim},
		"S9 once":                                      {w{outdated}, h{standingAlone, copyKept}, stepConnectDiscard},
		"S9 it never waits for a peer as it is":        {w{outdated}, h{connecting, mayHaveWrites}, stepDisconnect},
		"S8 one that is to go on discards nothing":     {w{outdated, forced}, h{connecting, discarding}, stepDisconnect},
		"S8 however soon after it was told to":         {w{outdated, forced}, h{connecting, discarding, connectTooSoon}, stepDisconnect},
		"S8 also when nobody remembers":                {w{outdated, forced}, h{connecting}, stepDisconnect},
		"S8 and stays apart":                           {w{outdated, forced}, h{standingAlone}, stepNone},
		"S9 but by giving up what it has":              {w{outdated}, h{connecting, copyKept, discarding}, stepNone},
		"S9 one that never wrote may wait":             {w{outdated}, h{connecting, outdatedDisk}, stepNone},
		"S8 not when it is to go on by force":          {w{outdated, forced}, h{standingAlone, copyKept}, stepNone},
		"S9 a loser is cut until it was torn down":     {w{outdated, tearingDown, noConnect}, h{standingAlone, copyKept}, stepNone},
		"S9 before it is attached again it is kept":    {w{outdated}, h{notInKernel, mayHaveWrites}, stepKeepVictim},
		"S9 then it is attached":                       {w{outdated}, h{notInKernel, copyKept}, stepProposeAttach},
		"S9 one without a disk goes down before":       {w{outdated}, h{noDisk, mayHaveWrites, standingAlone}, stepDownResource},
		"S9 the loser: the disk goes first":            {w{outdated}, h{primary, ioSuspended, mounted, connecting}, stepDetachDisk},
		"S9 the loser: then its writers get errors":    {w{outdated}, h{primary, ioSuspended, mounted, noDisk}, stepResumeIO},
		"S9 the loser: then what is up ends":           {w{outdated}, h{primary, mounted, noDisk}, stepTearDownVictim},
		"S9 the loser: also when it is not frozen":     {w{outdated}, h{primary}, stepDetachDisk},
		"S9 the loser: also in an absent pool":         {w{outdated}, h{primary, ioSuspended, poolAbsent}, stepDetachDisk},
		"S9 frozen, and revoked":                       {w{tearingDown, noConnect}, h{primary, ioSuspended, connecting}, stepDetachDisk},
		"S6 frozen, and published: the log is asked":   {w{published, promotionDone}, h{primary, ioSuspended, connecting}, stepNone},
		"S6 the frozen peer of one that owes":          {w{published, promotionDone, tearingDown}, h{primary, ioSuspended, connecting}, stepNone},

		"birth: by the seed":                   {w{creating, seed}, h{justCreated}, stepNewUUID},
		"birth: by nobody else":                {w{creating}, h{justCreated}, stepNone},
		"birth: not before both are there":     {w{creating, seed}, h{justCreated, connecting}, stepNone},
		"birth: once":                          {w{creating, seed}, h{}, stepNone},
		"birth: not of what is not new":        {w{creating, seed}, h{inconsistent, func(x *observedReplica) { x.PeerDisk = diskInconsistent }}, stepNone},
		"birth: never of a born volume":        {w{seed}, h{justCreated}, stepNone},
		"birth: a copy is copied to the other": {w{creating, syncFromSeed}, h{}, stepInvalidate},
		"birth: not to the seed":               {w{creating, syncFromSeed, seed}, h{}, stepNone},

		"S2 to be primary is asked for":              {w{published}, h{}, stepSetPrimary},
		"S2 once":                                    {w{published}, h{primary}, stepNone},
		"S2 not again after it was heard":            {w{published, promotionDone}, h{}, stepNone},
		"S2 not without a publication":               {w{func(x *replicaSpec) { x.Primary = true }}, h{}, stepNone},
		"S16 not while a teardown is owed":           {w{published, tearingDown}, h{}, stepNone},
		"S5 the log decides without a peer":          {w{published}, h{connecting}, stepSetPrimary},
		"S5 also of a disk that met nobody":          {w{published}, h{connecting, consistent}, stepSetPrimary},
		"S5 not of an inconsistent disk":             {w{published}, h{connecting, inconsistent}, stepNone},
		"S5 not of an attachment that nobody counts": {w{published}, h{connecting, unrecordedAttachment}, stepDownResource},
		"S5 not while it is synchronised":            {w{published}, h{inconsistent}, stepNone},
		"S8 not what lost":                           {w{published, outdated}, h{standingAlone, outdatedDisk, copyKept}, stepConnectDiscard},
		"S8 but by a recorded decision":              {w{published, outdated, forced}, h{standingAlone, outdatedDisk, copyKept}, stepSetPrimary},
		"S8 disconnected first":                      {w{published, noConnect}, h{connecting}, stepDisconnect},
		"S8 then asked":                              {w{published, noConnect}, h{standingAlone}, stepSetPrimary},

		"it grows when both below have":           {w{sizeExpanded, backingExpanded}, h{primary}, stepResize},
		"not before":                              {w{sizeExpanded}, h{primary}, stepNone},
		"not a secondary":                         {w{sizeExpanded, backingExpanded}, h{}, stepNone},
		"not during a synchronisation":            {w{sizeExpanded, backingExpanded}, h{primary, synchronising}, stepNone},
		"not without its peer":                    {w{sizeExpanded, backingExpanded}, h{primary, connecting}, stepNone},
		"what is in sync needs no keeping":        {nil, h{copyKept}, stepNoteInSync},
		"but a primary's may":                     {nil, h{copyKept, primary}, stepNone},
		"verify: by the primary":                  {nil, h{primary, verifyDue}, stepVerify},
		"verify: by the first of two secondaries": {nil, h{lowerHostID, verifyDue}, stepVerify},
		"verify: by nobody else":                  {nil, h{verifyDue}, stepNone},
		"verify: not without its peer":            {nil, h{primary, verifyDue, connecting}, stepNone},

		"remove: not what is up":                     {w{removing}, h{primary}, stepNone},
		"remove: nor mounted":                        {w{removing}, h{mounted}, stepNone},
		"remove: what is frozen ends in errors":      {w{removing}, h{primary, ioSuspended}, stepDetachDisk},
		"remove: out of the kernel":                  {w{removing}, h{}, stepDownResource},
		"remove: then the file":                      {w{removing}, h{notInKernel}, stepRemoveConfig},
		"remove: then the device below is let go":    {w{removing}, h{notInKernel, notConfigured}, stepDeactivateBacking},
		"remove: then it is the pool's":              {w{removing}, h{notInKernel, notConfigured, backingInactive}, stepNone},
		"remove: then the record":                    {w{removing}, h{notInKernel, notConfigured, backingMissing}, stepForgetReplicaRecord},
		"remove: once":                               {w{removing}, h{notInKernel, notConfigured, backingMissing, func(x *observedReplica) { x.recorded = false }}, stepNone},
		"S71 what left and is not to go now stays":   {w{leaving, withoutPeer}, h{}, stepNone},
		"S71 nothing is brought up of it":            {w{leaving, withoutPeer}, h{notInKernel, notConfigured, backingInactive}, stepNone},
		"S71 it comes back: the device below":        {w{outdated, withoutPeer}, h{notInKernel, notConfigured, backingInactive}, stepActivateBacking},
		"S71 then a file without a peer":             {w{outdated, withoutPeer}, h{notInKernel, notConfigured}, stepConfigure},
		"S71 then the log hears of it":               {w{outdated, withoutPeer}, h{notInKernel}, stepProposeAttach},
		"S71 it goes on by a decision only":          {w{outdated, withoutPeer, published}, h{standingAlone}, stepNone},
		"S71 by that":                                {w{outdated, withoutPeer, published, forced}, h{standingAlone}, stepSetPrimary},
		"S12 remove: not from an absent pool's sake": {w{removing}, h{notInKernel, notConfigured, poolAbsent}, stepNone},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := wantedReplica(tc.want...), haveReplica(tc.have...)
			for range 2 {
				require.Equal(t, tc.kind, nextReplicaStep(want, have).kind)
			}
		})
	}
}

// FuzzNextReplicaStep: whatever is observed, what is forbidden is never done.
func FuzzNextReplicaStep(f *testing.F) {
	f.Add(uint64(0), uint8(0), uint8(0))
	f.Add(^uint64(0), uint8(8), uint8(3))
	f.Fuzz(func(t *testing.T, bits uint64, disk, link uint8) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		want := wantedReplica()
		want.InitialSyncDone, want.Connect, want.Outdated, want.Primary, want.PromotionDone = bit(0), bit(1), bit(2), bit(3), bit(4)
		want.Seed, want.Force, want.published, want.hasTeardown, want.SyncFromSeed = bit(5), bit(6), bit(7), bit(8), bit(9)
		want.goal = fsm.Goal(bits>>60%3 + 1)
		have := haveReplica()
		have.HasConfig, have.InKernel, have.Primary, have.Suspended = bit(10), bit(11), bit(12), bit(13)
		have.configCurrent, have.metadataMade, have.attachmentRecorded, have.attachmentCommitted, have.mayHaveWrites, have.copyKept = bit(14), bit(15), bit(16), bit(17), bit(18), bit(19)
		have.mounted, have.JustCreated, have.HasMetadata = bit(20), bit(21), bit(22)
		have.diskFailed, have.peerWasUpToDate, want.Peer.UpToDate, want.Peer.Incomplete = bit(23), bit(24), bit(25), bit(26)
		have.PeerDisk = fsmpb.DiskState(bits >> 27 % 9)
		have.Disk, have.Connection = fsmpb.DiskState(disk%9), fsmpb.ConnectionState(link%7)
		switch kind := nextReplicaStep(want, have).kind; kind {
		case stepAttachDisk:
			require.True(t, have.attachmentCommitted && !have.diskAttached(), "S5")
			require.False(t, want.Outdated && have.mayHaveWrites && !have.copyKept, "S9")
			require.False(t, have.diskFailed && !want.Force, "S67")
		case stepRemakeMetadata:
			require.True(t, have.diskFailed && !have.diskAttached() && !want.Force, "S67")
			behind := have.Connection >= connConnected && have.PeerDisk == diskUpToDate
			require.True(t, behind || !want.Peer.Incomplete && (want.Peer.UpToDate || have.peerWasUpToDate), "never what nobody else has")
			require.False(t, want.Outdated && have.mayHaveWrites && !have.copyKept, "S9")
		case stepSetPrimary:
			require.True(t, want.Primary && want.published && !want.hasTeardown && have.attachmentRecorded, "S2")
			require.True(t, !want.Outdated || want.Force, "S8")
		case stepConnect:
			require.False(t, have.resyncDoubtful(), "what a target lost with its power is in no bitmap")
		case stepInvalidate:
			require.True(t, !have.Primary && (have.Disk == diskInconsistent || have.PeerDisk == diskUpToDate && have.Connection == connConnected), "never what nobody else has")
		case stepConnectDiscard:
			require.False(t, have.resyncDoubtful())
			require.False(t, want.Force, "S8")
			require.True(t, want.Outdated && !have.Primary && (!have.mayHaveWrites || have.copyKept), "S9")
		case stepResumeIO:
			require.False(t, have.diskAttached(), "S9")
		case stepDownResource:
			require.False(t, have.Primary || have.Suspended)
		case stepCreateMetadata:
			require.Equal(t, fsm.GoalCreate, want.goal, "S14")
		case stepRemoveConfig, stepDeactivateBacking, stepForgetReplicaRecord:
			require.Equal(t, fsm.GoalRemove, want.goal, "S14")
			require.False(t, have.InKernel)
		case stepNewUUID:
			require.True(t, want.Seed && have.JustCreated && !want.InitialSyncDone)
		}
	})
}
