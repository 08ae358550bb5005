package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func restoreHeader(n int, node, luks string) *fsmpb.RestoreHeader {
	return &fsmpb.RestoreHeader{VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, LuksUuid: luks, Reason: "its blocks were lost"}
}

// restoreHeader is of any volume.
func (p *player) restoreHeader() *fsmpb.RestoreHeader {
	v, n := p.volume(), p.node()
	c := &fsmpb.RestoreHeader{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host)}
	if v.Crypt != nil && p.roll(4) > 0 {
		c.LuksUuid = v.Crypt.UUID
	}
	return c
}

// encryptedReady has volume n, encrypted, published to n1 and with a header that was made.
func (w *world) encryptedReady(n int) {
	w.ready(n, encryptedVolume(create(n)))
	w.ok(controller, publish(n, "n1"))
	w.ok("node/n1", w.stageEncrypted(n, "luks-1", 1))
	w.headerMade(n, "luks-1")
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(n), Epoch: w.volume(n).Publication("n1").Epoch.Proto(),
		Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: w.volume(n).Format.FSUUID}}})
}

// headerToRestore has volume n, whose header is to be restored.
func (w *world) headerToRestore(n int) {
	w.encryptedReady(n)
	w.ok(admin, restoreHeader(n, "n1", "luks-1"))
}

func (w *world) reportStaged(n int) {
	p := w.volume(n).Publication("n1")
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(n), Epoch: p.Epoch.Proto(), Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: p.Staging.Path}}})
}

// S62: only an operator has a header restored, by the UUID that the log knows, on a host that has the volume; the grant
// of the next stage there says so, until the volume is staged.
func TestS62_AnOperatorHasAHeaderRestored(t *testing.T) {
	w := newWorld(t)
	w.ok("node/n2", register("n2"))
	w.encryptedReady(1)
	w.rejected(Forbidden, controller, restoreHeader(1, "n1", "luks-1"))
	w.rejected(NotFound, admin, restoreHeader(9, "n1", "luks-1"))
	for name, c := range map[string]*fsmpb.RestoreHeader{
		"another UUID":           restoreHeader(1, "n1", "luks-2"),
		"no UUID":                restoreHeader(1, "n1", ""),
		"a node without replica": restoreHeader(1, "n2", "luks-1"),
		"an unknown node":        restoreHeader(1, "n7", "luks-1"),
		"another host":           {VolumeId: volumeID(1), NodeId: "n1", HostId: "host-n2", LuksUuid: "luks-1"},
	} {
		require.Equal(t, Precondition, reasonOf(w.apply(admin, c)), name)
	}
	require.False(t, w.ok("node/n1", w.stageEncrypted(1, "", 2)).GetGrant().GetRestoreHeader())
	w.twice(admin, restoreHeader(1, "n1", "luks-1"))
	for sequence := uint64(3); sequence < 5; sequence++ {
		require.True(t, w.ok("node/n1", w.stageEncrypted(1, "", sequence)).GetGrant().GetRestoreHeader())
	}
	w.reportStaged(1)
	require.Nil(t, w.volume(1).HeaderRestore, "its header is there")
	require.False(t, w.ok("node/n1", w.stageEncrypted(1, "", 5)).GetGrant().GetRestoreHeader())
}

func TestS62_OnlyAHeaderThatWasMadeIsRestored(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.rejected(Precondition, admin, restoreHeader(1, "n1", ""))
	w.ready(2, encryptedVolume(create(2)))
	w.rejected(Precondition, admin, restoreHeader(2, "n1", ""))
	w.ok(controller, publish(2, "n1"))
	w.ok("node/n1", w.stageEncrypted(2, "luks-1", 1))
	w.rejected(Precondition, admin, restoreHeader(2, "n1", "luks-1"))
	require.Equal(t, Level2, LeastLevel(envelope(admin, "1", 1, restoreHeader(1, "n1", "luks-1"))))
}
