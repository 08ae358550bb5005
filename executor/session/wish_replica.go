package session

import (
	"bytes"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// replicaWishToProto and replicaWishFromProto lose nothing either: on a generation, a
// UUID or a mark that was lost on the way a host would decide wrongly (S5, S7). Nil is
// a volume that is not replicated.
func replicaWishToProto(w *fsm.ReplicaWish) *sessionpb.ReplicaWish {
	if w == nil {
		return nil
	}
	return &sessionpb.ReplicaWish{
		Protocol:     w.Protocol,
		Minor:        w.Minor,
		Port:         w.Port,
		Seed:         w.Seed,
		CopySeed:     w.CopySeed,
		Born:         w.Born,
		Generation:   w.Generation,
		Address:      w.Address,
		Peer:         replicaPeerToProto(w.Peer),
		Connect:      w.Connect,
		Outdated:     w.Outdated,
		UpToDate:     w.UpToDate,
		Primary:      w.Primary,
		PrimaryDone:  w.PrimaryDone,
		Force:        w.Force,
		Attach:       w.Attach,
		Seen:         w.Seen.Proto(),
		BackingBytes: w.Backing,
		SettledUuid:  w.SettledUUID,
		DiskFailed:   w.DiskFailed,
	}
}

func replicaWishFromProto(p *sessionpb.ReplicaWish) *fsm.ReplicaWish {
	if p == nil {
		return nil
	}
	return &fsm.ReplicaWish{
		Protocol:    p.GetProtocol(),
		Minor:       p.GetMinor(),
		Port:        p.GetPort(),
		Seed:        p.GetSeed(),
		CopySeed:    p.GetCopySeed(),
		Born:        p.GetBorn(),
		Generation:  p.GetGeneration(),
		Address:     p.GetAddress(),
		Peer:        replicaPeerFromProto(p.GetPeer()),
		Connect:     p.GetConnect(),
		Outdated:    p.GetOutdated(),
		UpToDate:    p.GetUpToDate(),
		Primary:     p.GetPrimary(),
		PrimaryDone: p.GetPrimaryDone(),
		Force:       p.GetForce(),
		Attach:      p.GetAttach(),
		Seen:        fsm.ReplicaSeenFrom(p.GetSeen()),
		Backing:     p.GetBackingBytes(),
		SettledUUID: p.GetSettledUuid(),
		DiskFailed:  p.GetDiskFailed(),
	}
}

func replicaPeerToProto(p *fsm.ReplicaPeer) *sessionpb.ReplicaPeer {
	if p == nil {
		return nil
	}
	return &sessionpb.ReplicaPeer{
		NodeId: string(p.Node), HostId: string(p.Host), Address: p.Address, PublicKey: bytes.Clone(p.PublicKey),
		UpToDate: p.UpToDate, Lost: p.Lost, Attached: p.Attached,
	}
}

func replicaPeerFromProto(p *sessionpb.ReplicaPeer) *fsm.ReplicaPeer {
	if p == nil {
		return nil
	}
	peer := &fsm.ReplicaPeer{Node: fsm.NodeID(p.GetNodeId()), Host: fsm.HostID(p.GetHostId()), Address: p.GetAddress(), UpToDate: p.GetUpToDate(), Lost: p.GetLost(), Attached: p.GetAttached()}
	if len(p.GetPublicKey()) > 0 {
		peer.PublicKey = p.GetPublicKey()
	}
	return peer
}
