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
func wantedReplica(change ...func(*replicaWanted)) *replicaWanted {
	w := &replicaWanted{verb: fsm.GoalKeep, size: testGib, DesiredReplica: &fsm.DesiredReplica{
		InitialSyncDone: true, Connect: true, UpToDate: true, Peer: &fsm.ReplicaPeer{Node: "n2"}, BackingCapacity: testGib,
	}}
	for _, c := range change {
		c(w)
	}
	return w
}

// haveReplica is one that is as it should be, changed as said.
func haveReplica(change ...func(*replicaHave)) *replicaHave {
	h := &replicaHave{
		Mirror: Mirror{
			Configured: true, InKernel: true, Disk: diskUpToDate, PeerDisk: diskUpToDate, Connection: linkConnected,
			Metadata: true, Size: testGib, PeerRole: "Secondary", Done: -1,
		},
		below: attached, configured: true, adjusted: true, recorded: true, made: true, own: true, mayTry: true, mayLink: true,
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func creating(w *replicaWanted)    { w.verb, w.InitialSyncDone = fsm.GoalCreate, false }
func removing(w *replicaWanted)    { w.verb = fsm.GoalRemove }
func lost(w *replicaWanted)        { w.Outdated, w.UpToDate = true, false }
func leaving(w *replicaWanted)     { w.leaving = true }
func owing(w *replicaWanted)       { w.owes = true }
func apart(w *replicaWanted)       { w.Connect = false }
func published(w *replicaWanted)   { w.published, w.Primary = true, true }
func heard(w *replicaWanted)       { w.PromotionDone = true }
func seed(w *replicaWanted)        { w.Seed = true }
func copying(w *replicaWanted)     { w.SyncFromSeed = true }
func forced(w *replicaWanted)      { w.Force = true }
func alone(w *replicaWanted)       { w.Peer, w.Connect = nil, false }
func larger(w *replicaWanted)      { w.size = 2 * testGib }
func roomy(w *replicaWanted)       { w.BackingCapacity = 2 * testGib }
func primary(h *replicaHave)       { h.Primary = true }
func frozen(h *replicaHave)        { h.Suspended = true }
func noDisk(h *replicaHave)        { h.Disk, h.own = diskDiskless, false }
func closed(h *replicaHave)        { h.below.Path = "" }
func notConfigured(h *replicaHave) { h.Configured, h.configured = false, false }
func otherFile(h *replicaHave)     { h.configured = false }
func notAdjusted(h *replicaHave)   { h.adjusted = false }
func notMade(h *replicaHave)       { h.made, h.Metadata = false, false }
func noMetadata(h *replicaHave)    { h.Metadata = false }
func strangeDisk(h *replicaHave)   { h.own = false }
func committed(h *replicaHave)     { h.mayAttach = true }
func tooSoon(h *replicaHave)       { h.mayTry = false }
func standingAlone(h *replicaHave) { h.Connection, h.PeerDisk = linkStandAlone, 0 }
func connecting(h *replicaHave)    { h.Connection, h.PeerDisk = linkConnecting, 0 }
func wrote(h *replicaHave)         { h.wrote = true }
func kept(h *replicaHave)          { h.wrote, h.kept = true, true }
func discards(h *replicaHave)      { h.discarding = true }
func linkedSoon(h *replicaHave)    { h.mayLink = false }
func mounted(h *replicaHave)       { h.busy = true }
func fresh(h *replicaHave)         { h.Fresh, h.Disk, h.PeerDisk = true, diskInconsistent, diskInconsistent }
func inconsistent(h *replicaHave)  { h.Disk = diskInconsistent }
func marked(h *replicaHave)        { h.OutOfSync = testGib }
func consistent(h *replicaHave)    { h.Disk = testConsistent }
func outdatedDisk(h *replicaHave)  { h.Disk = testOutdated }
func due(h *replicaHave)           { h.verifyDue = true }
func first(h *replicaHave)         { h.first = true }
func missingBelow(h *replicaHave)  { h.below = Device{} }
func absentBelow(h *replicaHave)   { h.below = Device{Absent: true} }
func synchronising(h *replicaHave) { h.Connection, h.PeerDisk = testSource, diskInconsistent }
func failed(h *replicaHave)        { h.failed = true }
func wholePeer(h *replicaHave)     { h.peerWhole = true }
func goodPeer(w *replicaWanted)    { w.Peer.UpToDate, w.Peer.DiskAttached = true, true }
func peerAway(w *replicaWanted)    { w.Peer.UpToDate = true }
func peerThere(w *replicaWanted)   { w.Peer.DiskAttached = true }
func lostPeer(w *replicaWanted)    { w.Peer.Incomplete = true }
func notInKernel(h *replicaHave) {
	h.Mirror, h.own, h.adjusted = Mirror{Configured: true, Metadata: true, Done: -1}, false, false
}

func TestNextReplica(t *testing.T) {
	type w = []func(*replicaWanted)
	type h = []func(*replicaHave)
	for name, tc := range map[string]struct {
		want w
		have h
		kind stepKind
	}{
		"what is as it should be is left":          {nil, nil, stepNone},
		"S14 a missing device is not made":         {nil, h{missingBelow}, stepNone},
		"S12 nothing is done in an absent pool":    {nil, h{notInKernel, absentBelow}, stepNone},
		"what failed before its birth is left":     {w{func(x *replicaWanted) { x.InitialSyncDone = false }}, h{notInKernel}, stepNone},
		"the device below comes first":             {w{creating}, h{notInKernel, notConfigured, notMade, closed}, stepOpenBelow},
		"then the file":                            {w{creating}, h{notInKernel, notConfigured, notMade}, stepConfigure},
		"not without a peer":                       {w{creating, alone}, h{notInKernel, notConfigured, notMade}, stepNone},
		"then the metadata":                        {w{creating}, h{notInKernel, notMade}, stepCreateMetadata},
		"S14 metadata are made while creating":     {nil, h{notInKernel, notMade}, stepRefuse},
		"S14 nor when they are gone":               {nil, h{notInKernel, noMetadata}, stepRefuse},
		"S5 the log hears of an attachment":        {w{creating}, h{notInKernel}, stepAskAttach},
		"S5 before it is made":                     {w{creating}, h{notInKernel, committed}, stepAttachDisk},
		"S5 also after a boot":                     {nil, h{notInKernel}, stepAskAttach},
		"S5 one that nobody counted is ended":      {nil, h{strangeDisk}, stepDownReplica},
		"S5 but never under a primary":             {nil, h{strangeDisk, primary}, stepNone},
		"a disk that failed is attached again":     {nil, h{noDisk, primary}, stepAskAttach},
		"but not all the time":                     {nil, h{noDisk, primary, tooSoon}, stepNone},
		"and what is connected stays so meanwhile": {nil, h{noDisk, standingAlone, tooSoon}, stepConnect},
		"a new file is written":                    {nil, h{otherFile}, stepConfigure},
		"and the kernel learns of it":              {nil, h{notAdjusted}, stepAdjust},

		"S67 what failed has nothing that counts":              {nil, h{noDisk, failed}, stepRemakeMetadata},
		"S67 also under a primary":                             {nil, h{noDisk, failed, primary}, stepRemakeMetadata},
		"S67 also after a boot, by the log's word of its peer": {w{goodPeer}, h{notInKernel, failed}, stepRemakeMetadata},
		"S67 or by the kernel's of then":                       {w{peerThere}, h{notInKernel, failed, wholePeer}, stepRemakeMetadata},
		"S67 not by the word of one that is away":              {w{peerAway}, h{notInKernel, failed, wholePeer}, stepNone},
		"S67 nor while it only connects to it":                 {w{peerAway}, h{noDisk, connecting, failed, wholePeer}, stepNone},
		"S67 not what may be the only good copy":               {nil, h{notInKernel, failed}, stepNone},
		"S67 nor with a peer that lost":                        {w{lostPeer}, h{notInKernel, failed, wholePeer}, stepNone},
		"S67 nor without one":                                  {w{alone}, h{notInKernel, failed, wholePeer}, stepNone},
		"S67 nor while both failed":                            {nil, h{noDisk, failed, func(x *replicaHave) { x.PeerDisk = diskDiskless }}, stepNone},
		"S67 not all the time":                                 {nil, h{noDisk, failed, tooSoon}, stepNone},
		"S67 what it had is kept before, if it lost":           {w{lost, goodPeer}, h{notInKernel, failed, wrote}, stepKeepLoser},
		"S67 by a decision it goes on as it is":                {w{forced}, h{notInKernel, failed}, stepAskAttach},
		"S67 it is not attached as it was":                     {nil, h{notInKernel, failed, committed}, stepNone},

		"it connects":                                  {nil, h{standingAlone}, stepConnect},
		"but not all the time, either":                 {nil, h{standingAlone, func(x *replicaHave) { x.mayLink = false }}, stepNone},
		"it waits for its peer":                        {nil, h{connecting}, stepNone},
		"S8 it is cut from a peer that may write":      {w{apart}, h{}, stepDisconnect},
		"S8 also when it waits for it":                 {w{apart}, h{connecting}, stepDisconnect},
		"S8 and stays so":                              {w{apart}, h{standingAlone}, stepNone},
		"a target that was interrupted asks for all":   {nil, h{standingAlone, inconsistent, func(x *replicaHave) { x.OutOfSync = testGib - 4096 }}, stepInvalidate},
		"not one that connected since it was attached": {nil, h{standingAlone, inconsistent, func(x *replicaHave) { x.linked = true }}, stepConnect},
		"then it connects":                             {nil, h{standingAlone, inconsistent, marked}, stepConnect},
		"also where the log says that it lost":         {w{lost}, h{standingAlone, inconsistent}, stepInvalidate},
		"then it gives up what it has":                 {w{lost}, h{standingAlone, inconsistent, marked}, stepDiscard},
		"not one that waits for its peer":              {nil, h{connecting, inconsistent}, stepNone},
		"not one that is new":                          {w{creating}, h{standingAlone, fresh}, stepConnect},
		"not before it may connect":                    {w{apart}, h{standingAlone, inconsistent}, stepNone},
		"S9 an outdated one gives up what it has":      {w{lost}, h{standingAlone, outdatedDisk}, stepDiscard},
		"S9 after that was kept if it wrote":           {w{lost}, h{standingAlone, wrote}, stepKeepLoser},
		"S9 once":                                      {w{lost}, h{standingAlone, kept}, stepDiscard},
		"S9 it never waits for a peer as it is":        {w{lost}, h{connecting, wrote}, stepDisconnect},
		"S8 one that is to go on discards nothing":     {w{lost, forced}, h{connecting, discards}, stepDisconnect},
		"S8 however soon after it was told to":         {w{lost, forced}, h{connecting, discards, linkedSoon}, stepDisconnect},
		"S8 also when nobody remembers":                {w{lost, forced}, h{connecting}, stepDisconnect},
		"S8 and stays apart":                           {w{lost, forced}, h{standingAlone}, stepNone},
		"S9 but by giving up what it has":              {w{lost}, h{connecting, kept, discards}, stepNone},
		"S9 one that never wrote may wait":             {w{lost}, h{connecting, outdatedDisk}, stepNone},
		"S8 not when it is to go on by force":          {w{lost, forced}, h{standingAlone, kept}, stepNone},
		"S9 a loser is cut until it was torn down":     {w{lost, owing, apart}, h{standingAlone, kept}, stepNone},
		"S9 before it is attached again it is kept":    {w{lost}, h{notInKernel, wrote}, stepKeepLoser},
		"S9 then it is attached":                       {w{lost}, h{notInKernel, kept}, stepAskAttach},
		"S9 one without a disk goes down before":       {w{lost}, h{noDisk, wrote, standingAlone}, stepDownReplica},
		"S9 the loser: the disk goes first":            {w{lost}, h{primary, frozen, mounted, connecting}, stepDetachDisk},
		"S9 the loser: then its writers get errors":    {w{lost}, h{primary, frozen, mounted, noDisk}, stepResumeIO},
		"S9 the loser: then what is up ends":           {w{lost}, h{primary, mounted, noDisk}, stepEndLoser},
		"S9 the loser: also when it is not frozen":     {w{lost}, h{primary}, stepDetachDisk},
		"S9 the loser: also in an absent pool":         {w{lost}, h{primary, frozen, absentBelow}, stepDetachDisk},
		"S9 frozen, and revoked":                       {w{owing, apart}, h{primary, frozen, connecting}, stepDetachDisk},
		"S6 frozen, and published: the log is asked":   {w{published, heard}, h{primary, frozen, connecting}, stepNone},
		"S6 the frozen peer of one that owes":          {w{published, heard, owing}, h{primary, frozen, connecting}, stepNone},

		"birth: by the seed":                   {w{creating, seed}, h{fresh}, stepNewUUID},
		"birth: by nobody else":                {w{creating}, h{fresh}, stepNone},
		"birth: not before both are there":     {w{creating, seed}, h{fresh, connecting}, stepNone},
		"birth: once":                          {w{creating, seed}, h{}, stepNone},
		"birth: not of what is not new":        {w{creating, seed}, h{inconsistent, func(x *replicaHave) { x.PeerDisk = diskInconsistent }}, stepNone},
		"birth: never of a born volume":        {w{seed}, h{fresh}, stepNone},
		"birth: a copy is copied to the other": {w{creating, copying}, h{}, stepInvalidate},
		"birth: not to the seed":               {w{creating, copying, seed}, h{}, stepNone},

		"S2 to be primary is asked for":              {w{published}, h{}, stepSetPrimary},
		"S2 once":                                    {w{published}, h{primary}, stepNone},
		"S2 not again after it was heard":            {w{published, heard}, h{}, stepNone},
		"S2 not without a publication":               {w{func(x *replicaWanted) { x.Primary = true }}, h{}, stepNone},
		"S16 not while a teardown is owed":           {w{published, owing}, h{}, stepNone},
		"S5 the log decides without a peer":          {w{published}, h{connecting}, stepSetPrimary},
		"S5 also of a disk that met nobody":          {w{published}, h{connecting, consistent}, stepSetPrimary},
		"S5 not of an inconsistent disk":             {w{published}, h{connecting, inconsistent}, stepNone},
		"S5 not of an attachment that nobody counts": {w{published}, h{connecting, strangeDisk}, stepDownReplica},
		"S5 not while it is synchronised":            {w{published}, h{inconsistent}, stepNone},
		"S8 not what lost":                           {w{published, lost}, h{standingAlone, outdatedDisk, kept}, stepDiscard},
		"S8 but by a recorded decision":              {w{published, lost, forced}, h{standingAlone, outdatedDisk, kept}, stepSetPrimary},
		"S8 disconnected first":                      {w{published, apart}, h{connecting}, stepDisconnect},
		"S8 then asked":                              {w{published, apart}, h{standingAlone}, stepSetPrimary},

		"it grows when both below have":           {w{larger, roomy}, h{primary}, stepResize},
		"not before":                              {w{larger}, h{primary}, stepNone},
		"not a secondary":                         {w{larger, roomy}, h{}, stepNone},
		"not during a synchronisation":            {w{larger, roomy}, h{primary, synchronising}, stepNone},
		"not without its peer":                    {w{larger, roomy}, h{primary, connecting}, stepNone},
		"what is in sync needs no keeping":        {nil, h{kept}, stepInSync},
		"but a primary's may":                     {nil, h{kept, primary}, stepNone},
		"verify: by the primary":                  {nil, h{primary, due}, stepVerify},
		"verify: by the first of two secondaries": {nil, h{first, due}, stepVerify},
		"verify: by nobody else":                  {nil, h{due}, stepNone},
		"verify: not without its peer":            {nil, h{primary, due, connecting}, stepNone},

		"remove: not what is up":                     {w{removing}, h{primary}, stepNone},
		"remove: nor mounted":                        {w{removing}, h{mounted}, stepNone},
		"remove: what is frozen ends in errors":      {w{removing}, h{primary, frozen}, stepDetachDisk},
		"remove: out of the kernel":                  {w{removing}, h{}, stepDownReplica},
		"remove: then the file":                      {w{removing}, h{notInKernel}, stepForgetReplica},
		"remove: then the device below is let go":    {w{removing}, h{notInKernel, notConfigured}, stepCloseBelow},
		"remove: then it is the pool's":              {w{removing}, h{notInKernel, notConfigured, closed}, stepNone},
		"remove: then the record":                    {w{removing}, h{notInKernel, notConfigured, missingBelow}, stepForgetRecord},
		"remove: once":                               {w{removing}, h{notInKernel, notConfigured, missingBelow, func(x *replicaHave) { x.recorded = false }}, stepNone},
		"S71 what left and is not to go now stays":   {w{leaving, alone}, h{}, stepNone},
		"S71 nothing is brought up of it":            {w{leaving, alone}, h{notInKernel, notConfigured, closed}, stepNone},
		"S71 it comes back: the device below":        {w{lost, alone}, h{notInKernel, notConfigured, closed}, stepOpenBelow},
		"S71 then a file without a peer":             {w{lost, alone}, h{notInKernel, notConfigured}, stepConfigure},
		"S71 then the log hears of it":               {w{lost, alone}, h{notInKernel}, stepAskAttach},
		"S71 it goes on by a decision only":          {w{lost, alone, published}, h{standingAlone}, stepNone},
		"S71 by that":                                {w{lost, alone, published, forced}, h{standingAlone}, stepSetPrimary},
		"S12 remove: not from an absent pool's sake": {w{removing}, h{notInKernel, notConfigured, absentBelow}, stepNone},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := wantedReplica(tc.want...), haveReplica(tc.have...)
			for range 2 {
				require.Equal(t, tc.kind, nextReplica(want, have).kind)
			}
		})
	}
}

// FuzzNextReplica: whatever is observed, what is forbidden is never done.
func FuzzNextReplica(f *testing.F) {
	f.Add(uint64(0), uint8(0), uint8(0))
	f.Add(^uint64(0), uint8(8), uint8(3))
	f.Fuzz(func(t *testing.T, bits uint64, disk, link uint8) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		want := wantedReplica()
		want.InitialSyncDone, want.Connect, want.Outdated, want.Primary, want.PromotionDone = bit(0), bit(1), bit(2), bit(3), bit(4)
		want.Seed, want.Force, want.published, want.owes, want.SyncFromSeed = bit(5), bit(6), bit(7), bit(8), bit(9)
		want.verb = fsm.Goal(bits>>60%3 + 1)
		have := haveReplica()
		have.Configured, have.InKernel, have.Primary, have.Suspended = bit(10), bit(11), bit(12), bit(13)
		have.configured, have.made, have.own, have.mayAttach, have.wrote, have.kept = bit(14), bit(15), bit(16), bit(17), bit(18), bit(19)
		have.busy, have.Fresh, have.Metadata = bit(20), bit(21), bit(22)
		have.failed, have.peerWhole, want.Peer.UpToDate, want.Peer.Incomplete = bit(23), bit(24), bit(25), bit(26)
		have.PeerDisk = fsmpb.DiskState(bits >> 27 % 9)
		have.Disk, have.Connection = fsmpb.DiskState(disk%9), fsmpb.ConnectionState(link%7)
		switch kind := nextReplica(want, have).kind; kind {
		case stepAttachDisk:
			require.True(t, have.mayAttach && !have.attached(), "S5")
			require.False(t, want.Outdated && have.wrote && !have.kept, "S9")
			require.False(t, have.failed && !want.Force, "S67")
		case stepRemakeMetadata:
			require.True(t, have.failed && !have.attached() && !want.Force, "S67")
			behind := have.Connection >= linkConnected && have.PeerDisk == diskUpToDate
			require.True(t, behind || !want.Peer.Incomplete && (want.Peer.UpToDate || have.peerWhole), "never what nobody else has")
			require.False(t, want.Outdated && have.wrote && !have.kept, "S9")
		case stepSetPrimary:
			require.True(t, want.Primary && want.published && !want.owes && have.own, "S2")
			require.True(t, !want.Outdated || want.Force, "S8")
		case stepConnect:
			require.False(t, have.doubtful(), "what a target lost with its power is in no bitmap")
		case stepInvalidate:
			require.True(t, !have.Primary && (have.Disk == diskInconsistent || have.PeerDisk == diskUpToDate && have.Connection == linkConnected), "never what nobody else has")
		case stepDiscard:
			require.False(t, have.doubtful())
			require.False(t, want.Force, "S8")
			require.True(t, want.Outdated && !have.Primary && (!have.wrote || have.kept), "S9")
		case stepResumeIO:
			require.False(t, have.attached(), "S9")
		case stepDownReplica:
			require.False(t, have.Primary || have.Suspended)
		case stepCreateMetadata:
			require.Equal(t, fsm.GoalCreate, want.verb, "S14")
		case stepForgetReplica, stepCloseBelow, stepForgetRecord:
			require.Equal(t, fsm.GoalRemove, want.verb, "S14")
			require.False(t, have.InKernel)
		case stepNewUUID:
			require.True(t, want.Seed && have.Fresh && !want.InitialSyncDone)
		}
	})
}
