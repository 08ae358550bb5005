package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

func (r *Replication) record() *fsmpb.ReplicationRecord {
	if r == nil {
		return nil
	}
	out := &fsmpb.ReplicationRecord{
		Protocol: r.Protocol, Replicas: r.ReplicaCount, Minor: r.Minor, Port: r.Port, SeedHostId: string(r.Seed),
		Born: r.InitialSyncIndex, Generation: r.Generation, Granted: r.LastGrantIndex,
	}
	if p := r.Primary; p != nil {
		out.Primary = &fsmpb.PrimaryRecord{NodeId: string(p.Node), HostId: string(p.Host), BootId: p.Boot, Epoch: p.Epoch.proto(), Index: p.Index, Done: p.Done}
	}
	if f := r.Forced; f != nil {
		out.Forced = &fsmpb.ForcedRecord{HostId: string(f.Host), Index: f.Index, GivenUpGeneration: f.GivenUpGeneration, Reason: f.Reason, PeerDead: f.PeerDead}
	}
	for i := range r.Syncs {
		out.Legs = append(out.Legs, r.Syncs[i].record())
	}
	for i := range r.Leaving {
		out.Left = append(out.Left, r.Leaving[i].record())
	}
	return out
}

func (l *ReplicaSync) record() *fsmpb.LegRecord {
	return &fsmpb.LegRecord{
		HostId: string(l.Host), UpToDate: l.UpToDate, Outdated: l.Outdated, BootId: l.Boot, Attach: l.Attachment, Seen: l.Observed.Proto(),
		Settled: l.InSyncUUID.record(), Alone: l.SoloPrimaryUUID.record(), DiskFailed: l.DiskFailed, NotKept: l.NotKeptReason,
	}
}

func (k RecordedUUID) record() *fsmpb.KnownUUIDRecord {
	if k == (RecordedUUID{}) {
		return nil
	}
	return &fsmpb.KnownUUIDRecord{Uuid: k.Value, Index: k.Index}
}

func replicationFromRecord(r *fsmpb.ReplicationRecord) *Replication {
	if r == nil {
		return nil
	}
	replication := &Replication{
		Protocol: r.GetProtocol(), ReplicaCount: r.GetReplicas(), Minor: r.GetMinor(), Port: r.GetPort(), Seed: HostID(r.GetSeedHostId()),
		InitialSyncIndex: r.GetBorn(), Generation: r.GetGeneration(), LastGrantIndex: r.GetGranted(),
	}
	if p := r.GetPrimary(); p != nil {
		replication.Primary = &PrimaryGrant{
			Node: NodeID(p.GetNodeId()), Host: HostID(p.GetHostId()), Boot: p.GetBootId(), Epoch: epochFrom(p.GetEpoch()), Index: p.GetIndex(), Done: p.GetDone(),
		}
	}
	if f := r.GetForced(); f != nil {
		replication.Forced = &ForcedPrimary{Host: HostID(f.GetHostId()), Index: f.GetIndex(), GivenUpGeneration: f.GetGivenUpGeneration(), Reason: f.GetReason(), PeerDead: f.GetPeerDead()}
	}
	for _, l := range r.GetLegs() {
		replication.Syncs = append(replication.Syncs, replicaSyncFromRecord(l))
	}
	for _, l := range r.GetLeft() {
		replication.Leaving = append(replication.Leaving, replicaSyncFromRecord(l))
	}
	return replication
}

func replicaSyncFromRecord(l *fsmpb.LegRecord) ReplicaSync {
	return ReplicaSync{
		Host: HostID(l.GetHostId()), UpToDate: l.GetUpToDate(), Outdated: l.GetOutdated(), Boot: l.GetBootId(), Attachment: l.GetAttach(),
		Observed:   ReplicaObservationFrom(l.GetSeen()),
		DiskFailed: l.GetDiskFailed(), NotKeptReason: l.GetNotKept(),
		InSyncUUID: RecordedUUID{l.GetSettled().GetUuid(), l.GetSettled().GetIndex()}, SoloPrimaryUUID: RecordedUUID{l.GetAlone().GetUuid(), l.GetAlone().GetIndex()},
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
