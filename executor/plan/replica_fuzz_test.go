package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// FuzzNextReplicaStep: no observation leads to a forbidden step.
func FuzzNextReplicaStep(f *testing.F) {
	f.Add(uint64(0), uint8(0), uint8(0))
	f.Add(^uint64(0), uint8(8), uint8(3))
	f.Fuzz(func(t *testing.T, bits uint64, disk, link uint8) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		want := wantedReplica()
		want.InitialSyncDone, want.Connect, want.Outdated, want.Primary, want.PromotionDone = bit(0), bit(1), bit(2), bit(3), bit(4)
		want.Seed, want.Force, want.Published, want.HasTeardown, want.SyncFromSeed = bit(5), bit(6), bit(7), bit(8), bit(9)
		want.Goal = fsm.Goal(bits>>60%3 + 1)
		have := haveReplica()
		have.HasConfig, have.InKernel, have.Primary, have.Suspended = bit(10), bit(11), bit(12), bit(13)
		have.ConfigCurrent, have.MetadataMade, have.AttachmentRecorded, have.AttachmentCommitted, have.MayHaveWrites, have.CopyKept = bit(14), bit(15), bit(16), bit(17), bit(18), bit(19)
		have.Mounted, have.JustCreated, have.HasMetadata = bit(20), bit(21), bit(22)
		have.FailureKnown = bit(27)
		have.DiskFailed, have.PeerWasUpToDate, want.Peer.UpToDate, want.Peer.Incomplete = bit(23), bit(24), bit(25), bit(26)
		have.PeerDisk = fsmpb.DiskState(bits >> 28 % 9)
		have.Disk, have.Connection = fsmpb.DiskState(disk%9), fsmpb.ConnectionState(link%7)
		want.Converting, want.Unconvert, want.Apart, want.DiscardUnkept, want.KeepDue, want.Reverted = bit(31), bit(32), bit(33), bit(34), bit(35), bit(36)
		if bit(37) {
			want.RevertTo = testKept
		}
		if bit(38) {
			have.Reverting, have.ContentReverted = testKept, bit(39)
		}
		if bit(40) {
			have.PlainBytes = testGib
		}
		if bit(41) {
			have.RevertedTo = testKept
		}
		have.Frozen = have.Suspended && bit(42)
		if !bit(43) {
			have.BackingCapacity = testGib
		}
		have.DetachedHere = bit(44)
		kept := have.CopyKept || want.DiscardUnkept
		switch kind := NextReplicaStep(want, have).Kind; kind {
		case StepAttachDisk:
			require.False(t, want.Apart || want.Unconvert, "S48, S55")
			require.True(t, have.Reverting == "" && want.RevertTo == "", "S43")
			require.True(t, have.AttachmentCommitted && !have.DiskAttached(), "S5")
			require.False(t, want.Outdated && have.MayHaveWrites && !kept, "S9")
			require.False(t, have.DiskFailed && !want.Force, "S67")
			require.False(t, have.Primary && have.DetachedHere && !have.DiskFailed, "S9")
		case StepRemakeMetadata:
			require.False(t, want.Apart, "S48")
			require.False(t, have.DiskAttached(), "S67")
			require.True(t, have.DiskFailed && have.FailureKnown || have.Reverting != "", "S67, S71, S43")
			require.False(t, want.Outdated && want.Force, "S8")
			behind := have.Connection >= ConnConnected && have.PeerDisk == DiskUpToDate && (!want.Peer.Incomplete || have.Primary)
			require.True(t, behind || !want.Peer.Incomplete && (want.Peer.UpToDate || have.PeerWasUpToDate || want.Outdated), "never what nobody else has")
			require.False(t, want.Outdated && have.MayHaveWrites && !kept, "S9")
		case StepSetPrimary:
			require.True(t, want.Primary && want.Published && !want.HasTeardown && have.AttachmentRecorded, "S2")
			require.True(t, !want.Outdated || want.Force, "S8")
		case StepConnect:
			require.False(t, have.Frozen || want.Apart, "S45, S48")
			require.False(t, want.mayBeOverwritten(have), "S55")
			require.False(t, have.resyncDoubtful(), "what a target lost with its power is in no bitmap")
		case StepInvalidate:
			require.False(t, want.Converting && want.Seed, "S55")
			require.True(t, !have.Primary && (have.Disk == diskInconsistent || have.PeerDisk == DiskUpToDate && have.Connection == ConnConnected), "never what nobody else has")
		case StepConnectDiscard:
			require.False(t, have.resyncDoubtful())
			require.False(t, want.Force, "S8")
			require.True(t, want.Outdated && !have.Primary && (!have.MayHaveWrites || kept), "S9")
		case StepResumeIO:
			require.False(t, have.DiskAttached(), "S9")
		case StepDownResource:
			require.False(t, have.Primary || have.Suspended)
		case StepCreateMetadata:
			require.True(t, want.Goal == fsm.GoalCreate || want.Converting && want.Seed && have.PlainBytes > 0 && !have.MetadataMade, "S14, S55")
		case StepRemoveConfig, StepForgetReplicaRecord:
			require.True(t, want.Goal == fsm.GoalRemove || want.Unconvert, "S14, S55")
			require.False(t, have.InKernel)
		case StepDeactivateBacking:
			begins := want.Converting && want.Seed && have.PlainBytes == 0
			require.True(t, want.Goal == fsm.GoalRemove || want.Unconvert || want.RevertTo != "" || begins, "S14")
			require.True(t, !have.InKernel || begins)
		case StepBeginConversion, StepExtendBacking:
			require.True(t, want.Converting && want.Seed && !have.MetadataMade, "S55")
		case StepShrinkBacking:
			require.True(t, want.Unconvert && !have.InKernel && have.PlainBytes > 0, "S55")
		case StepRevertBacking, StepRemakeReverted:
			require.True(t, want.RevertTo != "" && !have.InKernel && have.RevertedTo != want.RevertTo, "S43")
		case StepKeepBeforeSync:
			require.True(t, want.KeepDue && !want.Connect && !have.Primary && have.Disk > diskInconsistent, "S50")
		case StepNewUUID:
			require.True(t, want.Seed && have.JustCreated && !want.InitialSyncDone)
		}
	})
}
