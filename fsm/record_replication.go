package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

func (r *Replication) record() *fsmpb.ReplicationRecord {
	if r == nil {
		return nil
	}
	out := &fsmpb.ReplicationRecord{
		Protocol: r.Protocol, Replicas: r.Wanted, Minor: r.Minor, Port: r.Port, SeedHostId: string(r.Seed),
		Born: r.Born, Generation: r.Generation, Granted: r.Granted,
	}
	if p := r.Primary; p != nil {
		out.Primary = &fsmpb.PrimaryRecord{NodeId: string(p.Node), HostId: string(p.Host), BootId: p.Boot, Epoch: p.Epoch.proto(), Index: p.Index, Done: p.Done}
	}
	if f := r.Forced; f != nil {
		out.Forced = &fsmpb.ForcedRecord{HostId: string(f.Host), Index: f.Index, GivenUpGeneration: f.GivenUp, Reason: f.Reason, PeerDead: f.PeerDead}
	}
	for i := range r.Legs {
		out.Legs = append(out.Legs, r.Legs[i].record())
	}
	for i := range r.Left {
		out.Left = append(out.Left, r.Left[i].record())
	}
	return out
}

func (l *Leg) record() *fsmpb.LegRecord {
	return &fsmpb.LegRecord{
		HostId: string(l.Host), UpToDate: l.UpToDate, Outdated: l.Outdated, BootId: l.Boot, Attach: l.Attach, Seen: l.Seen.Proto(),
		Settled: l.Settled.record(), Alone: l.Alone.record(), DiskFailed: l.DiskFailed, NotKept: l.NotKept,
	}
}

func (k KnownUUID) record() *fsmpb.KnownUUIDRecord {
	if k == (KnownUUID{}) {
		return nil
	}
	return &fsmpb.KnownUUIDRecord{Uuid: k.UUID, Index: k.Index}
}

func replicationFromRecord(r *fsmpb.ReplicationRecord) *Replication {
	if r == nil {
		return nil
	}
	now := &Replication{
		Protocol: r.GetProtocol(), Wanted: r.GetReplicas(), Minor: r.GetMinor(), Port: r.GetPort(), Seed: HostID(r.GetSeedHostId()),
		Born: r.GetBorn(), Generation: r.GetGeneration(), Granted: r.GetGranted(),
	}
	if p := r.GetPrimary(); p != nil {
		now.Primary = &Primary{
			Node: NodeID(p.GetNodeId()), Host: HostID(p.GetHostId()), Boot: p.GetBootId(), Epoch: epochFrom(p.GetEpoch()), Index: p.GetIndex(), Done: p.GetDone(),
		}
	}
	if f := r.GetForced(); f != nil {
		now.Forced = &Forced{Host: HostID(f.GetHostId()), Index: f.GetIndex(), GivenUp: f.GetGivenUpGeneration(), Reason: f.GetReason(), PeerDead: f.GetPeerDead()}
	}
	for _, l := range r.GetLegs() {
		now.Legs = append(now.Legs, legFromRecord(l))
	}
	for _, l := range r.GetLeft() {
		now.Left = append(now.Left, legFromRecord(l))
	}
	return now
}

func legFromRecord(l *fsmpb.LegRecord) Leg {
	return Leg{
		Host: HostID(l.GetHostId()), UpToDate: l.GetUpToDate(), Outdated: l.GetOutdated(), Boot: l.GetBootId(), Attach: l.GetAttach(),
		Seen:       ReplicaSeenFrom(l.GetSeen()),
		DiskFailed: l.GetDiskFailed(), NotKept: l.GetNotKept(),
		Settled: KnownUUID{l.GetSettled().GetUuid(), l.GetSettled().GetIndex()}, Alone: KnownUUID{l.GetAlone().GetUuid(), l.GetAlone().GetIndex()},
	}
}

func (r NodeReplication) proto() *fsmpb.Replication {
	if r == (NodeReplication{}) {
		return nil
	}
	return &fsmpb.Replication{Address: r.Address, PublicKey: []byte(r.PublicKey), Version: r.Version, MaxReplicas: r.MaxReplicas}
}

func nodeReplicationFrom(r *fsmpb.Replication) NodeReplication {
	return NodeReplication{Address: r.GetAddress(), PublicKey: string(r.GetPublicKey()), Version: r.GetVersion(), MaxReplicas: r.GetMaxReplicas()}
}
