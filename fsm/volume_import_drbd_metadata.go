package fsm

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// drbdJustCreated is the current UUID that DRBD writes into new metadata (UUID_JUST_CREATED).
const drbdJustCreated = 4

const synchroniseFirst = "let it synchronise, then `drbdadm down` it on both hosts; or import the good replica alone"

// DRBDUnfit is why a replica with these metadata may not be imported, with the remedy; empty: it may. Where two are
// imported, paired, peer is the other replica's node id in metadata of DRBD 9: then this replica must know of nothing
// that the other one does not have. It only reads, and decides nothing about which of two is the good one.
func DRBDUnfit(m *fsmpb.DrbdMetadata, paired bool, peer int32) string {
	switch {
	case m.GetFormat() != DRBDFormat8 && m.GetFormat() != DRBDFormat9:
		return "it has no metadata of DRBD 8.4 or 9"
	case m.GetCurrentUuid()&^1 <= drbdJustCreated || m.GetContentBytes() <= 0:
		return "its metadata are just created: no content was ever made whole on it"
	case m.GetPrimary():
		return "it was primary when it was last in use, or its host crashed: bring it up once with DRBD, make it secondary, and `drbdadm down` it"
	case !m.GetConsistent():
		return "it is inconsistent: " + synchroniseFirst
	case !m.GetUpToDate():
		return "it is outdated: " + synchroniseFirst
	case !paired:
		return ""
	}
	return unfitBesidePeer(m, peer)
}

// unfitBesidePeer is why the replica does not have what its peer has.
func unfitBesidePeer(m *fsmpb.DrbdMetadata, peer int32) string {
	if m.GetFormat() == DRBDFormat8 {
		peer = 0 // there is one
	}
	i := slices.IndexFunc(m.GetPeers(), func(p *fsmpb.DrbdPeer) bool { return p.GetDrbdNode() == peer })
	switch {
	case m.GetFormat() == DRBDFormat9 && (m.GetDrbdNode() < 0 || m.GetDrbdNode() == peer):
		return "it is no other node of the DRBD resource than the other replica"
	case i < 0:
		return fmt.Sprintf("it does not know node %d of the DRBD resource, which the other replica is", peer)
	}
	p := m.GetPeers()[i]
	switch {
	case p.GetBitmapUuid() != 0:
		return "it went on without the other replica: " + synchroniseFirst
	case p.GetBehind():
		return "it knows that the other replica is behind: " + synchroniseFirst
	case p.GetOutOfSyncBits() != 0:
		return fmt.Sprintf("%d of its blocks are marked as out of sync, which DRBD does not copy between replicas of one generation: bring it up, `drbdadm invalidate` the replica that is not the good one, and `drbdadm down` it on both hosts when it is copied", p.GetOutOfSyncBits())
	}
	return ""
}

// Fits tells whether the metadata are still those with which a device is to be taken in; else why not.
func (d *DesiredDRBDImport) Fits(m *fsmpb.DrbdMetadata) string {
	switch {
	case m == nil:
		return "it has no metadata of DRBD any more"
	case m.GetFormat() != d.Format || m.GetCurrentUuid()&^1 != d.UUID || m.GetContentBytes() != d.ContentBytes:
		return fmt.Sprintf("it is of the generation %016X with %d bytes by now, not %016X with %d: plan again", m.GetCurrentUuid()&^1, m.GetContentBytes(), d.UUID, d.ContentBytes)
	}
	return DRBDUnfit(m, d.Paired, d.Peer)
}
