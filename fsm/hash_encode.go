package fsm

import (
	"encoding/binary"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// encoder writes records in the one form that is hashed. Numbers are varints,
// texts and lists carry their length, so no two records have the same bytes. A field
// of a level above 1 stands at its record's end and only where it is set, which
// happens at that level only: a record of level 1 hashes as it always did (S23, S72).
// The buffer is used again.
type encoder struct{ b []byte }

// The first byte of a record says which table it is in.
const (
	kindCluster byte = iota + 1
	kindNode
	kindVolume
	kindAnswer
	kindSnapshot
	kindGroup
)

func (e *encoder) begin(kind byte) { e.b = append(e.b[:0], kind) }

func (e *encoder) sum() sum256 { return sumOf(e.b) }

func (e *encoder) u64(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *encoder) i64(v int64) { e.b = binary.AppendVarint(e.b, v) }

func (e *encoder) bool(v bool) {
	var b byte
	if v {
		b = 1
	}
	e.b = append(e.b, b)
}

func (e *encoder) str(v string) {
	e.u64(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) bytes(v []byte) {
	e.u64(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) epoch(v Epoch) {
	e.u64(v.Incarnation)
	e.u64(v.Index)
}

func (e *encoder) cluster(c *Cluster) sum256 {
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
	e.sweeps(c)
	return e.sum()
}

func (e *encoder) node(n *Node) sum256 {
	e.begin(kindNode)
	e.str(string(n.ID))
	e.str(string(n.Host))
	e.str(n.Boot)
	e.u64(uint64(len(n.Pools)))
	for i := range n.Pools {
		e.pool(&n.Pools[i])
	}
	e.labels(n.Labels)
	e.str(n.Site)
	e.u64(uint64(n.MaxVolumes))
	e.str(n.Version)
	e.u64(uint64(n.FeatureLevel))
	e.u64(uint64(n.State))
	e.u64(n.Incarnation)
	e.epoch(n.Registered)
	e.nodeReplication(n)
	return e.sum()
}

func (e *encoder) pool(p *Pool) {
	e.str(string(p.ID))
	e.str(p.Backend)
	e.i64(p.Capacity)
	e.u64(uint64(p.OvercommitPercent))
	e.i64(p.MinFree)
}

func (e *encoder) labels(labels []Label) {
	e.u64(uint64(len(labels)))
	for _, l := range labels {
		e.str(l.Key)
		e.str(l.Value)
	}
}

func (e *encoder) answer(a *answer) sum256 {
	e.begin(kindAnswer)
	e.b = append(e.b, a.key.request[:]...)
	e.str(a.key.actor)
	e.u64(a.index)
	o := a.outcome
	e.u64(o.GetIndex())
	e.u64(uint64(o.GetRejection().GetReason()))
	if !a.textUnhashed {
		e.str(o.GetRejection().GetMessage())
	}
	e.str(o.GetVolumeId())
	e.pbEpoch(o.GetEpoch())
	e.grant(o.GetGrant())
	e.u64(o.GetOperationId())
	e.str(o.GetSnapshotId())
	e.str(o.GetGroupSnapshotId())
	e.verdict(o)
	for _, number := range o.GetOvertaken() {
		e.u64(uint64(number))
	}
	return e.sum()
}

func (e *encoder) pbEpoch(p *fsmpb.Epoch) { e.epoch(EpochFrom(p)) }

func (e *encoder) grant(g *fsmpb.Grant) {
	e.bool(g != nil)
	if g == nil {
		return
	}
	e.pbEpoch(g.GetEpoch())
	e.bool(g.GetReadOnly())
	e.format(FormatFrom(g.GetFormat()))
}
