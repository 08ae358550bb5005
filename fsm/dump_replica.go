package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

func (v *Volume) replicationRecord() *fsmpb.ReplicationRecord {
	r := v.Replication
	if r == nil {
		return nil
	}
	out := &fsmpb.ReplicationRecord{
		Protocol: r.Protocol, Replicas: r.ReplicaCount, Minor: r.Minor, Port: r.Port, SeedHostId: string(r.Seed),
		Born: r.InitialSyncIndex, Generation: r.Generation, Granted: r.LastGrantIndex,
	}
	if p := r.Primary; p != nil {
		out.Primary = &fsmpb.PrimaryRecord{NodeId: string(p.Node), HostId: string(p.Host), BootId: p.Boot, Epoch: p.Epoch.Proto(), Index: p.Index, Done: p.Done}
	}
	if f := r.Forced; f != nil {
		out.Forced = &fsmpb.ForcedRecord{HostId: string(f.Host), Index: f.Index, GivenUpGeneration: f.GivenUpGeneration, Reason: f.Reason, PeerDead: f.PeerDead}
	}
	for _, l := range v.ActiveReplicas() {
		out.Legs = append(out.Legs, l.syncRecord())
	}
	for _, l := range v.recordedLeaving() {
		out.Left = append(out.Left, l.syncRecord())
	}
	return out
}

func (l *Replica) syncRecord() *fsmpb.LegRecord {
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
			Node: NodeID(p.GetNodeId()), Host: HostID(p.GetHostId()), Boot: p.GetBootId(), Epoch: EpochFrom(p.GetEpoch()), Index: p.GetIndex(), Done: p.GetDone(),
		}
	}
	if f := r.GetForced(); f != nil {
		replication.Forced = &ForcedPrimary{Host: HostID(f.GetHostId()), Index: f.GetIndex(), GivenUpGeneration: f.GetGivenUpGeneration(), Reason: f.GetReason(), PeerDead: f.GetPeerDead()}
	}
	return replication
}

// readSyncs gives each of the replicas, which were read before, what the record has of it.
func (v *Volume) readSyncs(r *fsmpb.ReplicationRecord, err *error) {
	for _, l := range r.GetLegs() {
		v.readSync(l, err)
	}
	for _, l := range r.GetLeft() {
		v.readSync(l, err)
		v.Replication.Leaving = append(v.Replication.Leaving, HostID(l.GetHostId()))
	}
}

func (v *Volume) readSync(l *fsmpb.LegRecord, err *error) {
	r := v.replicaOn(HostID(l.GetHostId()))
	if r == nil || r.ReplicaSync != nil {
		*err = errForm
		return
	}
	r.ReplicaSync = replicaSyncFromRecord(l)
}

func replicaSyncFromRecord(l *fsmpb.LegRecord) *ReplicaSync {
	return &ReplicaSync{
		UpToDate: l.GetUpToDate(), Outdated: l.GetOutdated(), Boot: l.GetBootId(), Attachment: l.GetAttach(),
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
