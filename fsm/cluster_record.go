package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Cluster is what the state knows of itself.
type Cluster struct {
	ID            string
	Incarnation   uint64
	IncarnationID []byte
	FeatureLevel  uint32
	Index         uint64 // of the last applied command
	Time          time.Time
	Checkpoint    Checkpoint
	Skipped       []Skipped // in the order of their indexes
	Sweeps        []Sweep   // in the order of their entries
	Members       []Member  // by name
	NonVoters     []string  // ids of Raft members that are not to vote, sorted
	Chain         []byte    // the link of the last applied entry; empty below level 3
}

// Checkpoint is the last hash that a majority agreed on (S23).
type Checkpoint struct {
	Index uint64
	Hash  []byte
}

func hashCluster(e *encoder, c *Cluster) sum256 {
	e.begin(kindCluster)
	e.str(c.ID)
	e.u64(c.Incarnation)
	e.bytes(c.IncarnationID)
	e.u64(uint64(c.FeatureLevel))
	e.u64(c.Index)
	e.i64(nanosOf(c.Time))
	e.u64(c.Checkpoint.Index)
	e.bytes(c.Checkpoint.Hash)
	if len(c.Skipped) > 0 {
		e.u64(uint64(len(c.Skipped)))
	}
	for _, k := range c.Skipped {
		e.u64(k.Index)
		e.bytes(k.Hash)
	}
	hashSweeps(e, c)
	hashMembers(e, c)
	hashNonVoters(e, c)
	hashChain(e, c)
	return e.sum()
}

func clusterRecord(c *Cluster) *fsmpb.ClusterRecord {
	r := &fsmpb.ClusterRecord{
		ClusterId: c.ID, Incarnation: c.Incarnation, IncarnationId: c.IncarnationID,
		FeatureLevel: c.FeatureLevel, Index: c.Index, Time: nanosOf(c.Time), NonVoters: c.NonVoters, Chain: c.Chain,
	}
	if c.Checkpoint.Index != 0 {
		r.Checkpoint = &fsmpb.Checkpoint{Index: c.Checkpoint.Index, Hash: c.Checkpoint.Hash}
	}
	for _, k := range c.Skipped {
		r.Skipped = append(r.Skipped, &fsmpb.SkippedRecord{Index: k.Index, Hash: k.Hash})
	}
	for i := range c.Sweeps {
		r.Sweeps = append(r.Sweeps, c.Sweeps[i].record())
	}
	for i := range c.Members {
		r.Members = append(r.Members, c.Members[i].record())
	}
	return r
}

func (x *dumpDecoder) clusterRecord(r *fsmpb.ClusterRecord) error {
	if x.cluster {
		return errOrder
	}
	x.cluster = true
	x.s.cluster = Cluster{
		ID: r.GetClusterId(), Incarnation: r.GetIncarnation(), IncarnationID: r.GetIncarnationId(),
		FeatureLevel: r.GetFeatureLevel(), Index: r.GetIndex(), Time: TimeOf(r.GetTime()),
		Checkpoint: Checkpoint{Index: r.GetCheckpoint().GetIndex(), Hash: r.GetCheckpoint().GetHash()},
		NonVoters:  r.GetNonVoters(),
		Chain:      r.GetChain(),
	}
	for _, k := range r.GetSkipped() {
		x.s.cluster.Skipped = append(x.s.cluster.Skipped, Skipped{Index: k.GetIndex(), Hash: k.GetHash()})
	}
	for _, k := range r.GetSweeps() {
		x.s.cluster.Sweeps = append(x.s.cluster.Sweeps, sweepFrom(k))
	}
	for _, k := range r.GetMembers() {
		x.s.cluster.Members = append(x.s.cluster.Members, memberFrom(k))
	}
	return x.s.checkSweeps()
}
