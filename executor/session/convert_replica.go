package session

import (
	"bytes"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// desiredReplicaToProto and desiredReplicaFromProto keep every field: without a generation, a
// UUID or a flag a host would decide wrongly (S5, S7). Nil is
// a volume that is not replicated.
func desiredReplicaToProto(w *fsm.DesiredReplica) *sessionpb.ReplicaWish {
	if w == nil {
		return nil
	}
	return &sessionpb.ReplicaWish{
		Protocol:     w.Protocol,
		Minor:        w.Minor,
		Port:         w.Port,
		Seed:         w.Seed,
		CopySeed:     w.SyncFromSeed,
		Born:         w.InitialSyncDone,
		Generation:   w.Generation,
		Address:      w.Address,
		Peer:         replicaPeerToProto(w.Peer),
		Connect:      w.Connect,
		Outdated:     w.Outdated,
		UpToDate:     w.UpToDate,
		Primary:      w.Primary,
		PrimaryDone:  w.PromotionDone,
		Force:        w.Force,
		Attach:       w.Attachment,
		Seen:         w.Observed.Proto(),
		BackingBytes: w.BackingCapacity,
		SettledUuid:  w.InSyncUUID,
		DiskFailed:   w.DiskFailed,
	}
}

func desiredReplicaFromProto(p *sessionpb.ReplicaWish) *fsm.DesiredReplica {
	if p == nil {
		return nil
	}
	return &fsm.DesiredReplica{
		Protocol:        p.GetProtocol(),
		Minor:           p.GetMinor(),
		Port:            p.GetPort(),
		Seed:            p.GetSeed(),
		SyncFromSeed:    p.GetCopySeed(),
		InitialSyncDone: p.GetBorn(),
		Generation:      p.GetGeneration(),
		Address:         p.GetAddress(),
		Peer:            replicaPeerFromProto(p.GetPeer()),
		Connect:         p.GetConnect(),
		Outdated:        p.GetOutdated(),
		UpToDate:        p.GetUpToDate(),
		Primary:         p.GetPrimary(),
		PromotionDone:   p.GetPrimaryDone(),
		Force:           p.GetForce(),
		Attachment:      p.GetAttach(),
		Observed:        fsm.ReplicaObservationFrom(p.GetSeen()),
		BackingCapacity: p.GetBackingBytes(),
		InSyncUUID:      p.GetSettledUuid(),
		DiskFailed:      p.GetDiskFailed(),
	}
}

func replicaPeerToProto(p *fsm.ReplicaPeer) *sessionpb.ReplicaPeer {
	if p == nil {
		return nil
	}
	return &sessionpb.ReplicaPeer{
		NodeId: string(p.Node), HostId: string(p.Host), Address: p.Address, PublicKey: bytes.Clone(p.PublicKey),
		UpToDate: p.UpToDate, Lost: p.Incomplete, Attached: p.DiskAttached,
	}
}

func replicaPeerFromProto(p *sessionpb.ReplicaPeer) *fsm.ReplicaPeer {
	if p == nil {
		return nil
	}
	peer := &fsm.ReplicaPeer{Node: fsm.NodeID(p.GetNodeId()), Host: fsm.HostID(p.GetHostId()), Address: p.GetAddress(), UpToDate: p.GetUpToDate(), Incomplete: p.GetLost(), DiskAttached: p.GetAttached()}
	if len(p.GetPublicKey()) > 0 {
		peer.PublicKey = p.GetPublicKey()
	}
	return peer
}
