package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	testOutdated   = fsmpb.DiskState_DISK_STATE_OUTDATED
	testConsistent = fsmpb.DiskState_DISK_STATE_CONSISTENT
	testSource     = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
)

// wantedReplica is the spec of a replica after its initial sync that is to be connected, with changes.
func wantedReplica(change ...func(*ReplicaSpec)) *ReplicaSpec {
	want := &ReplicaSpec{Goal: fsm.GoalKeep, Size: testGib, DesiredReplica: &fsm.DesiredReplica{
		InitialSyncDone: true, Connect: true, UpToDate: true, Peer: &fsm.ReplicaPeer{Node: "n2"}, BackingCapacity: testGib,
	}}
	for _, c := range change {
		c(want)
	}
	return want
}

// haveReplica is a replica in the state that wantedReplica asks for, with changes.
func haveReplica(change ...func(*ObservedReplica)) *ObservedReplica {
	h := &ObservedReplica{
		ResourceStatus: executor.ResourceStatus{
			HasConfig: true, InKernel: true, Disk: DiskUpToDate, PeerDisk: DiskUpToDate, Connection: ConnConnected,
			HasMetadata: true, Size: testGib, PeerRole: "Secondary", SyncPercent: -1,
		},
		Backing: activeDevice, ConfigCurrent: true, Adjusted: true, Recorded: true, MetadataMade: true, AttachmentRecorded: true, AttachDue: true, ConnectDue: true,
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func fenced(want *ReplicaSpec) { want.Fenced = true }

func creating(want *ReplicaSpec) { want.Goal, want.InitialSyncDone = fsm.GoalCreate, false }

func removing(want *ReplicaSpec) { want.Goal = fsm.GoalRemove }

func outdated(want *ReplicaSpec) { want.Outdated, want.UpToDate = true, false }

func leaving(want *ReplicaSpec) { want.Leaving = true }

func tearingDown(want *ReplicaSpec) { want.HasTeardown, want.Revoked = true, true }

func earlierTeardown(want *ReplicaSpec) { want.HasTeardown = true }

func noConnect(want *ReplicaSpec) { want.Connect = false }

func published(want *ReplicaSpec) { want.Published, want.Primary = true, true }

func promotionDone(want *ReplicaSpec) { want.PromotionDone = true }

func seed(want *ReplicaSpec) { want.Seed = true }

func syncFromSeed(want *ReplicaSpec) { want.SyncFromSeed = true }

func forced(want *ReplicaSpec) { want.Force = true }

func withoutPeer(want *ReplicaSpec) { want.Peer, want.Connect = nil, false }

func sizeExpanded(want *ReplicaSpec) { want.Size = 2 * testGib }

func backingExpanded(want *ReplicaSpec) { want.BackingCapacity = 2 * testGib }

func primary(h *ObservedReplica) { h.Primary = true }

func ioSuspended(h *ObservedReplica) { h.Suspended = true }

func noDisk(h *ObservedReplica) { h.Disk, h.AttachmentRecorded = DiskDiskless, false }

func backingInactive(h *ObservedReplica) { h.Backing.Path = "" }

func notConfigured(h *ObservedReplica) { h.HasConfig, h.ConfigCurrent = false, false }

func staleConfig(h *ObservedReplica) { h.ConfigCurrent = false }

func notAdjusted(h *ObservedReplica) { h.Adjusted = false }

func noMetadataMade(h *ObservedReplica) { h.MetadataMade, h.HasMetadata = false, false }

func noMetadata(h *ObservedReplica) { h.HasMetadata = false }

func unrecordedAttachment(h *ObservedReplica) { h.AttachmentRecorded = false }

func attachmentCommitted(h *ObservedReplica) { h.AttachmentCommitted = true }

func attachTooSoon(h *ObservedReplica) { h.AttachDue = false }

func standingAlone(h *ObservedReplica) { h.Connection, h.PeerDisk = connStandAlone, 0 }

func connecting(h *ObservedReplica) { h.Connection, h.PeerDisk = ConnConnecting, 0 }

func mayHaveWrites(h *ObservedReplica) { h.MayHaveWrites = true }

func copyKept(h *ObservedReplica) { h.MayHaveWrites, h.CopyKept = true, true }

func discarding(h *ObservedReplica) { h.Discarding = true }

func connectTooSoon(h *ObservedReplica) { h.ConnectDue = false }

func mounted(h *ObservedReplica) { h.Mounted = true }

func justCreated(h *ObservedReplica) {
	h.JustCreated, h.Disk, h.PeerDisk = true, diskInconsistent, diskInconsistent
}

func inconsistent(h *ObservedReplica) { h.Disk = diskInconsistent }

func fullyOutOfSync(h *ObservedReplica) { h.OutOfSync = testGib }

func consistent(h *ObservedReplica) { h.Disk = testConsistent }

func outdatedDisk(h *ObservedReplica) { h.Disk = testOutdated }

func verifyDue(h *ObservedReplica) { h.VerifyDue = true }

func lowerHostID(h *ObservedReplica) { h.LowerHostID = true }

func backingMissing(h *ObservedReplica) { h.Backing = executor.Device{} }

func poolAbsent(h *ObservedReplica) { h.Backing = executor.Device{Absent: true} }

func synchronising(h *ObservedReplica) { h.Connection, h.PeerDisk = testSource, diskInconsistent }

func diskGivenUp(h *ObservedReplica) { h.DiskFailed, h.FailureKnown = true, true }

func failureUnknown(h *ObservedReplica) { h.FailureKnown = false }

func peerSaidInconsistent(h *ObservedReplica) { h.PeerDisk = diskInconsistent }

func peerWasUpToDate(h *ObservedReplica) { h.PeerWasUpToDate = true }

func peerBehind(h *ObservedReplica) { h.PeerBehind = true }

func peerBehindNoticed(want *ReplicaSpec) {
	want.Observed.PeerBehind, want.Observed.Generation = true, want.Generation
}

func peerUpToDate(want *ReplicaSpec) { want.Peer.UpToDate, want.Peer.DiskAttached = true, true }

func noPeer(want *ReplicaSpec) { want.Peer = nil }

func peerDetached(want *ReplicaSpec) { want.Peer.UpToDate = true }

func peerAttached(want *ReplicaSpec) { want.Peer.DiskAttached = true }

func peerLost(want *ReplicaSpec) { want.Peer.Incomplete = true }

func notInKernel(h *ObservedReplica) {
	h.ResourceStatus, h.AttachmentRecorded, h.Adjusted = executor.ResourceStatus{HasConfig: true, HasMetadata: true, SyncPercent: -1}, false, false
}

func TestNextReplicaStep(t *testing.T) {
	type w = []func(*ReplicaSpec)
	type h = []func(*ObservedReplica)
	for name, tc := range map[string]struct {
		want w
		have h
		kind StepKind
	}{
		"what is as it should be is left":             {nil, nil, StepNone},
		"S14 a missing device is not made":            {nil, h{backingMissing}, StepNone},
		"S12 nothing is done in an absent pool":       {nil, h{notInKernel, poolAbsent}, StepNone},
		"what failed before its birth is left":        {w{func(x *ReplicaSpec) { x.InitialSyncDone = false }}, h{notInKernel}, StepNone},
		"the device below comes first":                {w{creating}, h{notInKernel, notConfigured, noMetadataMade, backingInactive}, StepActivateBacking},
		"then the file":                               {w{creating}, h{notInKernel, notConfigured, noMetadataMade}, StepConfigure},
		"not without a peer":                          {w{creating, withoutPeer}, h{notInKernel, notConfigured, noMetadataMade}, StepNone},
		"then the metadata":                           {w{creating}, h{notInKernel, noMetadataMade}, StepCreateMetadata},
		"S14 metadata are made while creating":        {nil, h{notInKernel, noMetadataMade}, StepRefuse},
		"S14 nor when they are gone":                  {nil, h{notInKernel, noMetadata}, StepRefuse},
		"S5 the log gets an attachment first":         {w{creating}, h{notInKernel}, StepProposeAttach},
		"S5 before it is made":                        {w{creating}, h{notInKernel, attachmentCommitted}, StepAttachDisk},
		"S5 also after a boot":                        {nil, h{notInKernel}, StepProposeAttach},
		"S5 one that nobody counted is ended":         {nil, h{unrecordedAttachment}, StepDownResource},
		"S5 but never under a primary":                {nil, h{unrecordedAttachment, primary}, StepNone},
		"a disk that failed is attached again":        {nil, h{noDisk, primary}, StepProposeAttach},
		"but not all the time":                        {nil, h{noDisk, primary, attachTooSoon}, StepNone},
		"and what is connected stays so meanwhile":    {nil, h{noDisk, standingAlone, attachTooSoon}, StepConnect},
		"S9 no disk below those whose disk was taken": {nil, h{noDisk, func(x *ObservedReplica) { x.DetachedHere, x.Primary = true, true }}, StepTearDownVictim},
		"S67 not what this host detached itself":      {nil, h{noDisk, standingAlone, attachTooSoon, func(x *ObservedReplica) { x.DetachedHere = true }}, StepNone},
		"S58 nor by a host that is fenced":            {w{fenced}, h{noDisk}, StepNone},
		"S58 nor after its boot":                      {w{fenced}, h{notInKernel}, StepNone},
		"S58 nor what is being made":                  {w{creating, fenced}, h{notInKernel}, StepNone},
		"a new file is written":                       {nil, h{staleConfig}, StepConfigure},
		"and the kernel learns of it":                 {nil, h{notAdjusted}, StepAdjust},

		"S67 what failed has nothing that counts":              {nil, h{noDisk, diskGivenUp}, StepRemakeMetadata},
		"S67 also under a primary":                             {nil, h{noDisk, diskGivenUp, primary}, StepRemakeMetadata},
		"S67 also after a boot, by the log's word of its peer": {w{peerUpToDate}, h{notInKernel, diskGivenUp}, StepRemakeMetadata},
		"S67 or by the kernel's of then":                       {w{peerAttached}, h{notInKernel, diskGivenUp, peerWasUpToDate}, StepRemakeMetadata},
		"S8 but what an operator chose is used as it is":       {w{peerUpToDate, outdated, forced}, h{notInKernel, diskGivenUp}, StepProposeAttach},
		"S8 also while its kernel sees the peer":               {w{peerAttached, outdated, forced}, h{noDisk, diskGivenUp}, StepProposeAttach},
		"S8 and stays attached":                                {w{peerUpToDate, outdated, forced}, h{standingAlone, diskGivenUp}, StepNone},
		"S67 or what is outdated, by its peer's disk":          {w{peerAttached, outdated}, h{notInKernel, diskGivenUp}, StepRemakeMetadata},
		"S9 after what it has was kept":                        {w{peerAttached, outdated}, h{notInKernel, diskGivenUp, mayHaveWrites}, StepKeepVictim},
		"S67 but not while that is away":                       {w{outdated}, h{notInKernel, diskGivenUp}, StepNone},
		"S67 not by the word of one that is away":              {w{peerDetached}, h{notInKernel, diskGivenUp, peerWasUpToDate}, StepNone},
		"S67 nor while it only connects to it":                 {w{peerDetached}, h{noDisk, connecting, diskGivenUp, peerWasUpToDate}, StepNone},
		"S67 not what may be the only good copy":               {nil, h{notInKernel, diskGivenUp}, StepNone},
		"S67 nor with a peer that lost":                        {w{peerLost}, h{notInKernel, diskGivenUp, peerWasUpToDate}, StepNone},
		"S67 whatever a kernel without a disk says of it":      {w{peerLost}, h{noDisk, diskGivenUp}, StepNone},
		"S67 but a primary knows what it was connected to":     {w{peerLost}, h{noDisk, diskGivenUp, primary}, StepRemakeMetadata},
		"S67 learned of after it was attached":                 {nil, h{diskGivenUp}, StepDetachDisk},
		"S67 not while nobody else has it":                     {w{peerLost}, h{diskGivenUp, connecting}, StepNone},
		"S67 nor under a primary":                              {nil, h{diskGivenUp, primary}, StepNone},
		"S67 nor by a decision":                                {w{forced, peerLost}, h{diskGivenUp}, StepNone},
		"S67 but with a whole peer none is needed":             {w{forced}, h{diskGivenUp}, StepDetachDisk},
		"S67 and then all of it is copied":                     {w{forced}, h{noDisk, diskGivenUp}, StepRemakeMetadata},
		"S71 what the log does not know of is kept":            {w{peerUpToDate}, h{notInKernel, diskGivenUp, failureUnknown}, StepNone},
		"S71 also under a primary":                             {nil, h{noDisk, diskGivenUp, failureUnknown, primary}, StepNone},
		"S71 a decision has to know of it too":                 {w{forced, peerLost}, h{notInKernel, diskGivenUp, failureUnknown}, StepNone},
		"S71 nor for one that is being removed":                {w{noPeer}, h{noDisk, diskGivenUp, primary}, StepNone},
		"S9 I/O that nobody completes fails":                   {w{noPeer}, h{noDisk, connecting, diskGivenUp, primary, ioSuspended}, StepResumeIO},
		"S9 nor can a peer that lacks writes":                  {w{peerLost}, h{noDisk, connecting, diskGivenUp, primary, ioSuspended}, StepResumeIO},
		"S9 but not while its peer may":                        {nil, h{noDisk, connecting, diskGivenUp, primary, ioSuspended}, StepNone},
		"S9 nor while its disk is there":                       {w{noPeer}, h{connecting, diskGivenUp, primary, ioSuspended}, StepNone},
		"a peer whose state was lost is asked again":           {nil, h{peerSaidInconsistent}, StepDisconnect},
		"not at once":                         {nil, h{peerSaidInconsistent, connectTooSoon}, StepNone},
		"not one that has to be synchronised": {nil, h{peerSaidInconsistent, fullyOutOfSync}, StepNone},
		"nor under a primary":                 {nil, h{peerSaidInconsistent, primary}, StepNone},
		"S67 the log hears of a peer's failure before they meet": {nil, h{standingAlone, peerBehind}, StepNone},
		"S67 and then they do":                       {w{peerBehindNoticed}, h{standingAlone, peerBehind}, StepConnect},
		"S67 or where it knew that":                  {w{peerLost}, h{standingAlone, peerBehind}, StepConnect},
		"S67 nor without one":                        {w{withoutPeer}, h{notInKernel, diskGivenUp, peerWasUpToDate}, StepNone},
		"S67 nor while both failed":                  {nil, h{noDisk, diskGivenUp, func(x *ObservedReplica) { x.PeerDisk = DiskDiskless }}, StepNone},
		"S67 not all the time":                       {nil, h{noDisk, diskGivenUp, attachTooSoon}, StepNone},
		"S67 what it had is kept before, if it lost": {w{outdated, peerUpToDate}, h{notInKernel, diskGivenUp, mayHaveWrites}, StepKeepVictim},
		"S67 by a decision it stays as it is":        {w{forced}, h{notInKernel, diskGivenUp}, StepProposeAttach},
		"S67 it is not attached as it was":           {nil, h{notInKernel, diskGivenUp, attachmentCommitted}, StepNone},

		"it connects":                                                  {nil, h{standingAlone}, StepConnect},
		"but not all the time, either":                                 {nil, h{standingAlone, func(x *ObservedReplica) { x.ConnectDue = false }}, StepNone},
		"it waits for its peer":                                        {nil, h{connecting}, StepNone},
		"S8 it is disconnected from a peer that may write":             {w{noConnect}, h{}, StepDisconnect},
		"S8 also when it waits for it":                                 {w{noConnect}, h{connecting}, StepDisconnect},
		"S8 and stays so":                                              {w{noConnect}, h{standingAlone}, StepNone},
		"a target that was interrupted asks for all":                   {nil, h{standingAlone, inconsistent, func(x *ObservedReplica) { x.OutOfSync = testGib - 4096 }}, StepInvalidate},
		"not one that connected since it was attached":                 {nil, h{standingAlone, inconsistent, func(x *ObservedReplica) { x.ConnectedInAttachment = true }}, StepConnect},
		"then it connects":                                             {nil, h{standingAlone, inconsistent, fullyOutOfSync}, StepConnect},
		"also where the log says that it lost":                         {w{outdated}, h{standingAlone, inconsistent}, StepInvalidate},
		"then it discards what it has":                                 {w{outdated}, h{standingAlone, inconsistent, fullyOutOfSync}, StepConnectDiscard},
		"not one that waits for its peer":                              {nil, h{connecting, inconsistent}, StepNone},
		"not one that is new":                                          {w{creating}, h{standingAlone, justCreated}, StepConnect},
		"not before it may connect":                                    {w{noConnect}, h{standingAlone, inconsistent}, StepNone},
		"S9 an outdated one discards what it has":                      {w{outdated}, h{standingAlone, outdatedDisk}, StepConnectDiscard},
		"S9 after that was kept if it wrote":                           {w{outdated}, h{standingAlone, mayHaveWrites}, StepKeepVictim},
		"S9 once":                                                      {w{outdated}, h{standingAlone, copyKept}, StepConnectDiscard},
		"S9 it never waits for a peer as it is":                        {w{outdated}, h{connecting, mayHaveWrites}, StepDisconnect},
		"S8 one that is to go on discards nothing":                     {w{outdated, forced}, h{connecting, discarding}, StepDisconnect},
		"S8 however soon after it discarded":                           {w{outdated, forced}, h{connecting, discarding, connectTooSoon}, StepDisconnect},
		"S8 also when nobody remembers":                                {w{outdated, forced}, h{connecting}, StepDisconnect},
		"S8 and stays apart":                                           {w{outdated, forced}, h{standingAlone}, StepNone},
		"S9 but by giving up what it has":                              {w{outdated}, h{connecting, copyKept, discarding}, StepNone},
		"S9 one that never wrote may wait":                             {w{outdated}, h{connecting, outdatedDisk}, StepNone},
		"S8 not when it is to go on by force":                          {w{outdated, forced}, h{standingAlone, copyKept}, StepNone},
		"S9 an outdated one stays disconnected until it was torn down": {w{outdated, tearingDown, noConnect}, h{standingAlone, copyKept}, StepNone},
		"S9 before it is attached again it is kept":                    {w{outdated}, h{notInKernel, mayHaveWrites}, StepKeepVictim},
		"S9 then it is attached":                                       {w{outdated}, h{notInKernel, copyKept}, StepProposeAttach},
		"S9 one without a disk goes down before":                       {w{outdated}, h{noDisk, mayHaveWrites, standingAlone}, StepDownResource},
		"S9 the outdated one: the disk goes first":                     {w{outdated}, h{primary, ioSuspended, mounted, connecting}, StepDetachDisk},
		"S9 the outdated one: then its writers get errors":             {w{outdated}, h{primary, ioSuspended, mounted, noDisk}, StepResumeIO},
		"S9 the outdated one: then what is up ends":                    {w{outdated}, h{primary, mounted, noDisk}, StepTearDownVictim},
		"S9 the outdated one: also when it is not frozen":              {w{outdated}, h{primary}, StepDetachDisk},
		"S9 the outdated one: also in an absent pool":                  {w{outdated}, h{primary, ioSuspended, poolAbsent}, StepDetachDisk},
		"S9 frozen, and revoked":                                       {w{tearingDown, noConnect}, h{primary, ioSuspended, connecting}, StepDetachDisk},
		"S6 frozen, and published: the log is asked":                   {w{published, promotionDone}, h{primary, ioSuspended, connecting}, StepNone},
		"S9 also where it is wanted again":                             {w{published, tearingDown}, h{primary, ioSuspended, connecting}, StepDetachDisk},
		"S6 frozen under a later publication than the one that ends":   {w{published, promotionDone, earlierTeardown}, h{primary, ioSuspended, connecting}, StepNone},

		"birth: by the seed":                   {w{creating, seed}, h{justCreated}, StepNewUUID},
		"birth: by nobody else":                {w{creating}, h{justCreated}, StepNone},
		"birth: not before both are there":     {w{creating, seed}, h{justCreated, connecting}, StepNone},
		"birth: once":                          {w{creating, seed}, h{}, StepNone},
		"birth: not of what is not new":        {w{creating, seed}, h{inconsistent, func(x *ObservedReplica) { x.PeerDisk = diskInconsistent }}, StepNone},
		"initial sync: never again":            {w{seed}, h{justCreated}, StepNone},
		"birth: a copy is copied to the other": {w{creating, syncFromSeed}, h{}, StepInvalidate},
		"birth: not to the seed":               {w{creating, syncFromSeed, seed}, h{}, StepNone},

		"S2 it requests to be primary":        {w{published}, h{}, StepSetPrimary},
		"S2 once":                             {w{published}, h{primary}, StepNone},
		"S2 not again after it was reported":  {w{published, promotionDone}, h{}, StepNone},
		"S2 not without a publication":        {w{func(x *ReplicaSpec) { x.Primary = true }}, h{}, StepNone},
		"S16 not while a teardown is pending": {w{published, tearingDown}, h{}, StepNone},
		"S5 not of a disk that its kernel calls consistent beside its peer": {w{published}, h{consistent}, StepNone},
		"S5 the log decides without a peer":                                 {w{published}, h{connecting}, StepSetPrimary},
		"S5 also of a disk that met nobody":                                 {w{published}, h{connecting, consistent}, StepSetPrimary},
		"S5 not of an inconsistent disk":                                    {w{published}, h{connecting, inconsistent}, StepNone},
		"S5 not of an attachment that nobody counts":                        {w{published}, h{connecting, unrecordedAttachment}, StepDownResource},
		"S5 not while it is synchronised":                                   {w{published}, h{inconsistent}, StepNone},
		"S8 not what lost":                                                  {w{published, outdated}, h{standingAlone, outdatedDisk, copyKept}, StepConnectDiscard},
		"S8 but by a recorded decision":                                     {w{published, outdated, forced}, h{standingAlone, outdatedDisk, copyKept}, StepSetPrimary},
		"S8 disconnected first":                                             {w{published, noConnect}, h{connecting}, StepDisconnect},
		"S8 then asked":                                                     {w{published, noConnect}, h{standingAlone}, StepSetPrimary},

		"it grows when both below have":           {w{sizeExpanded, backingExpanded}, h{primary}, StepResize},
		"not before":                              {w{sizeExpanded}, h{primary}, StepNone},
		"not a secondary":                         {w{sizeExpanded, backingExpanded}, h{}, StepNone},
		"not during a synchronisation":            {w{sizeExpanded, backingExpanded}, h{primary, synchronising}, StepNone},
		"not while it is synchronised":            {w{sizeExpanded, backingExpanded}, h{primary, synchronising}, StepNone},
		"nor while its peer's disk is not whole":  {w{sizeExpanded, backingExpanded}, h{primary, peerSaidInconsistent, fullyOutOfSync}, StepNone},
		"the only replica grows alone":            {w{sizeExpanded, backingExpanded, withoutPeer}, h{primary, standingAlone}, StepResize},
		"not before what is below has grown":      {w{sizeExpanded, withoutPeer}, h{primary, standingAlone}, StepNone},
		"nor as a secondary":                      {w{sizeExpanded, backingExpanded, withoutPeer}, h{standingAlone}, StepNone},
		"nor before it is up to date":             {w{sizeExpanded, backingExpanded, withoutPeer}, h{primary, standingAlone, inconsistent}, StepNone},
		"nor while its former peer is there":      {w{sizeExpanded, backingExpanded, withoutPeer}, h{primary, synchronising}, StepDisconnect},
		"nor when it is to go":                    {w{sizeExpanded, backingExpanded, withoutPeer, leaving}, h{primary, standingAlone}, StepNone},
		"nor before the initial sync":             {w{sizeExpanded, backingExpanded, withoutPeer, func(x *ReplicaSpec) { x.InitialSyncDone = false }}, h{primary, standingAlone}, StepNone},
		"not without its peer":                    {w{sizeExpanded, backingExpanded}, h{primary, connecting}, StepNone},
		"what is in sync needs no keeping":        {nil, h{copyKept}, StepNoteInSync},
		"but a primary's may":                     {nil, h{copyKept, primary}, StepNone},
		"verify: by the primary":                  {nil, h{primary, verifyDue}, StepVerify},
		"verify: by the first of two secondaries": {nil, h{lowerHostID, verifyDue}, StepVerify},
		"verify: by nobody else":                  {nil, h{verifyDue}, StepNone},
		"verify: not without its peer":            {nil, h{primary, verifyDue, connecting}, StepNone},

		"remove: not what is up":                     {w{removing}, h{primary}, StepNone},
		"remove: nor mounted":                        {w{removing}, h{mounted}, StepNone},
		"remove: what is frozen ends in errors":      {w{removing}, h{primary, ioSuspended}, StepDetachDisk},
		"remove: out of the kernel":                  {w{removing}, h{}, StepDownResource},
		"remove: then the file":                      {w{removing}, h{notInKernel}, StepRemoveConfig},
		"remove: then the device below is let go":    {w{removing}, h{notInKernel, notConfigured}, StepDeactivateBacking},
		"remove: then it is the pool's":              {w{removing}, h{notInKernel, notConfigured, backingInactive}, StepNone},
		"remove: then the record":                    {w{removing}, h{notInKernel, notConfigured, backingMissing}, StepForgetReplicaRecord},
		"remove: once":                               {w{removing}, h{notInKernel, notConfigured, backingMissing, func(x *ObservedReplica) { x.Recorded = false }}, StepNone},
		"S71 what left and is not to go now stays":   {w{leaving, withoutPeer}, h{}, StepNone},
		"S71 nothing is brought up of it":            {w{leaving, withoutPeer}, h{notInKernel, notConfigured, backingInactive}, StepNone},
		"S71 it comes back: the device below":        {w{outdated, withoutPeer}, h{notInKernel, notConfigured, backingInactive}, StepActivateBacking},
		"S71 then a file without a peer":             {w{outdated, withoutPeer}, h{notInKernel, notConfigured}, StepConfigure},
		"S71 then the log gets its attachment":       {w{outdated, withoutPeer}, h{notInKernel}, StepProposeAttach},
		"S71 it becomes primary by a decision only":  {w{outdated, withoutPeer, published}, h{standingAlone}, StepNone},
		"S71 by that":                                {w{outdated, withoutPeer, published, forced}, h{standingAlone}, StepSetPrimary},
		"S12 remove: not from an absent pool's sake": {w{removing}, h{notInKernel, notConfigured, poolAbsent}, StepNone},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := wantedReplica(tc.want...), haveReplica(tc.have...)
			for range 2 {
				require.Equal(t, tc.kind, NextReplicaStep(want, have).Kind)
			}
		})
	}
}

// S9: what is up belongs to a revoked publication, whatever the host is to do next, unless it was
// staged under a later one.
func TestS9_WhatIsUpIsOfARevokedPublication(t *testing.T) {
	epoch := func(index uint64) fsm.Epoch { return fsm.Epoch{Incarnation: 1, Index: index} }
	staged := func(index uint64) *records.StagingRecord { return &records.StagingRecord{Epoch: epoch(index)} }
	revoked := &fsm.DesiredVolume{Teardown: &fsm.Teardown{Epoch: epoch(5)}}
	again := &fsm.DesiredVolume{Teardown: revoked.Teardown, Publication: &fsm.Publication{Epoch: epoch(9)}}
	for _, d := range []*fsm.DesiredVolume{revoked, again} {
		require.True(t, IsRevoked(d, staged(5)))
		require.True(t, IsRevoked(d, nil))
		require.False(t, IsRevoked(d, staged(9)))
	}
	require.False(t, IsRevoked(&fsm.DesiredVolume{Publication: again.Publication}, staged(5)))
}

// S9: suspended I/O is ended only where no disk and no other replica can ever complete it.
func TestS9_WhatNobodyCompletes(t *testing.T) {
	none := executor.ResourceStatus{InKernel: true, Suspended: true, Disk: DiskDiskless, Connection: ConnConnecting}
	for name, tc := range map[string]struct {
		change func(*fsm.DesiredReplica, *executor.ResourceStatus)
		want   bool
	}{
		"without a disk and a peer":     {func(*fsm.DesiredReplica, *executor.ResourceStatus) {}, true},
		"beside one that is being made": {func(d *fsm.DesiredReplica, _ *executor.ResourceStatus) { d.Peer = &fsm.ReplicaPeer{Incomplete: true} }, true},
		"not beside one with the data":  {func(d *fsm.DesiredReplica, _ *executor.ResourceStatus) { d.Peer = &fsm.ReplicaPeer{} }, false},
		"not while it is connected":     {func(_ *fsm.DesiredReplica, h *executor.ResourceStatus) { h.Connection = ConnConnected }, false},
		"with half a copy, beside a disk that failed, too": {func(d *fsm.DesiredReplica, h *executor.ResourceStatus) {
			d.Peer, h.Disk = &fsm.ReplicaPeer{Incomplete: true, DiskGone: true}, diskInconsistent
		}, true},
		"not with half a copy, beside one that is away": {func(d *fsm.DesiredReplica, h *executor.ResourceStatus) {
			d.Peer, h.Disk = &fsm.ReplicaPeer{Incomplete: true}, diskInconsistent
		}, false},
		"not with a disk":             {func(_ *fsm.DesiredReplica, h *executor.ResourceStatus) { h.Disk = DiskUpToDate }, false},
		"not before its initial sync": {func(d *fsm.DesiredReplica, _ *executor.ResourceStatus) { d.InitialSyncDone = false }, false},
		"not where nothing is held":   {func(_ *fsm.DesiredReplica, h *executor.ResourceStatus) { h.Suspended = false }, false},
		"nor what the kernel has not": {func(_ *fsm.DesiredReplica, h *executor.ResourceStatus) { h.InKernel = false }, false},
	} {
		want, have := fsm.DesiredReplica{InitialSyncDone: true}, none
		tc.change(&want, &have)
		require.Equal(t, tc.want, NobodyCompletes(&want, &have), name)
	}
}
