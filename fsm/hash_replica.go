package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// What replication adds to a record stands at its end and only where it is set, so
// that records without it hash as they did before there was any.

// What came after feature level 1 has a number of its own before it, so that no two of
// them are taken for each other.
const (
	// Of a volume.
	fieldLeaving    = 1
	fieldDiskFailed = 2
	fieldNotKept    = 3
	// Of a node.
	fieldNoNewReplicas = 1
)

func (e *encoder) replication(v *Volume) {
	r := v.Replication
	if r == nil {
		return
	}
	e.u64(uint64(r.Protocol))
	e.u64(uint64(r.ReplicaCount))
	e.u64(uint64(r.Minor))
	e.u64(uint64(r.Port))
	e.str(string(r.Seed))
	e.u64(r.InitialSyncIndex)
	e.u64(r.Generation)
	e.u64(r.LastGrantIndex)
	e.primary(r.Primary)
	e.forced(r.Forced)
	active, leaving := v.ActiveReplicas(), v.recordedLeaving()
	e.replicaSyncs(active)
	if len(leaving) > 0 {
		e.u64(fieldLeaving)
		e.replicaSyncs(leaving)
	}
	e.diskFailures(active)
	e.diskFailures(leaving)
	e.notKept(active)
}

func (e *encoder) replicaSyncs(replicas []*Replica) {
	e.u64(uint64(len(replicas)))
	for _, r := range replicas {
		e.replicaSync(r)
	}
}

func (e *encoder) diskFailures(replicas []*Replica) {
	for _, l := range replicas {
		if l.DiskFailed != 0 {
			e.u64(fieldDiskFailed)
			e.str(string(l.Host))
			e.u64(l.DiskFailed)
		}
	}
}

func (e *encoder) notKept(replicas []*Replica) {
	for _, l := range replicas {
		if l.NotKeptReason != "" {
			e.u64(fieldNotKept)
			e.str(string(l.Host))
			e.str(l.NotKeptReason)
		}
	}
}

func (e *encoder) primary(p *PrimaryGrant) {
	e.bool(p != nil)
	if p == nil {
		return
	}
	e.str(string(p.Node))
	e.str(string(p.Host))
	e.str(p.Boot)
	e.epoch(p.Epoch)
	e.u64(p.Index)
	e.bool(p.Done)
}

func (e *encoder) forced(f *ForcedPrimary) {
	e.bool(f != nil)
	if f == nil {
		return
	}
	e.str(string(f.Host))
	e.u64(f.Index)
	e.u64(f.GivenUpGeneration)
	e.str(f.Reason)
	e.bool(f.PeerDead)
}

func (e *encoder) replicaSync(l *Replica) {
	e.str(string(l.Host))
	e.bool(l.UpToDate)
	e.bool(l.Outdated)
	e.str(l.Boot)
	e.u64(l.Attachment)
	e.replicaObservation(&l.Observed)
	e.u64(l.InSyncUUID.Value)
	e.u64(l.InSyncUUID.Index)
	e.u64(l.SoloPrimaryUUID.Value)
	e.u64(l.SoloPrimaryUUID.Index)
}

func (e *encoder) replicaObservation(r *ReplicaObservation) {
	e.str(r.Boot)
	e.u64(r.Attachment)
	e.bool(r.Primary)
	e.u64(uint64(r.Disk))
	e.u64(uint64(r.Connection))
	e.u64(uint64(r.PeerDisk))
	e.u64(r.UUID)
	e.bool(r.Suspended)
	e.u64(r.Generation)
	e.u64(uint64(r.SyncPercent))
	e.i64(r.OutOfSync)
	e.i64(r.BackingCapacity)
	e.bool(r.Unconfigured)
}

func (e *encoder) nodeReplication(n *Node) {
	if n.Replication == (NodeReplication{}) && !n.Cordoned {
		return
	}
	e.str(n.Replication.Address)
	e.str(n.Replication.PublicKey)
	e.str(n.Replication.Version)
	e.u64(uint64(n.Replication.MaxReplicas))
	e.bool(n.Cordoned)
	if n.NoNewReplicas {
		e.u64(fieldNoNewReplicas)
	}
}

func (e *encoder) verdict(o *fsmpb.Outcome) {
	if o.GetVerdict() == 0 && o.GetGeneration() == 0 && !o.GetForce() {
		return
	}
	e.u64(uint64(o.GetVerdict()))
	e.u64(o.GetGeneration())
	e.bool(o.GetForce())
}
