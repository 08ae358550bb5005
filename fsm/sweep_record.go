package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Sweep is what one entry changed of every volume and snapshot of a host, or of all
// replicated volumes, from feature level 2 on. The change is in force from that entry on:
// every read applies it to the records that do not have it yet (withSweeps). Writing it into
// them is split over the entries that follow, so that none takes long however much the
// host holds.
//
// A record has a sweep when it was written at the sweep's entry or later (Modified):
// a record is read, with all sweeps, before it is written. The result of a sweep depends on
// that record and the sweep alone, so it is the same whenever, and in whatever batches, it
// is written.
type Sweep struct {
	Kind   SweepKind
	Epoch  Epoch  // of the entry
	Node   NodeID // and Host: empty where it is about all
	Host   HostID
	Reason string
	// Cursor is the creation index of the last volume that was visited.
	Cursor uint64
	// Began is when the operations began that it begins; zero where it begins none.
	Began time.Time
}

// SweepKind is what happened.
type SweepKind uint8

const (
	// SweepBoot: the host was booted again.
	SweepBoot SweepKind = iota + 1
	// SweepLost: the host was recorded as lost.
	SweepLost
	// SweepGenerations: the host became unreachable, or reachable again.
	SweepGenerations
	// SweepPeers: the host's replication address or key changed; the change is announced to its peers.
	SweepPeers
	// SweepRestore: the cluster was restored from an earlier state.
	SweepRestore
	// SweepWaiting: the host became unreachable, or reachable again; the change is announced to
	// replicas that wait for their peer on it (waitsForPeer).
	SweepWaiting
	// SweepFenced: the host was fenced.
	SweepFenced

	lastSweepKind = SweepFenced
)

// hashSweeps writes at the end of the cluster's record, and only where there are sweeps.
func hashSweeps(e *encoder, c *Cluster) {
	if len(c.Sweeps) == 0 {
		return
	}
	if len(c.Skipped) == 0 {
		e.u64(0) // the number of skipped entries
	}
	e.u64(uint64(len(c.Sweeps)))
	for i := range c.Sweeps {
		w := &c.Sweeps[i]
		e.u64(uint64(w.Kind))
		e.epoch(w.Epoch)
		e.str(string(w.Node))
		e.str(string(w.Host))
		e.str(w.Reason)
		e.u64(w.Cursor)
		if !w.Began.IsZero() {
			e.i64(nanosOf(w.Began))
		}
	}
}

func (w *Sweep) record() *fsmpb.SweepRecord {
	return &fsmpb.SweepRecord{
		Kind: uint32(w.Kind), Epoch: w.Epoch.Proto(), NodeId: string(w.Node), HostId: string(w.Host), Reason: w.Reason, Cursor: w.Cursor, Began: nanosOf(w.Began),
	}
}

func sweepFrom(r *fsmpb.SweepRecord) Sweep {
	w := Sweep{Epoch: EpochFrom(r.GetEpoch()), Node: NodeID(r.GetNodeId()), Host: HostID(r.GetHostId()), Reason: r.GetReason(), Cursor: r.GetCursor(), Began: TimeOf(r.GetBegan())}
	if k := r.GetKind(); k <= uint32(lastSweepKind) {
		w.Kind = SweepKind(k)
	}
	return w
}

// checkSweeps is S118 of the sweeps themselves.
func (s *State) checkSweeps() error {
	last := uint64(0)
	for i := range s.cluster.Sweeps {
		w := &s.cluster.Sweeps[i]
		if w.Kind == 0 || w.Kind > lastSweepKind || (w.Kind == SweepRestore) != (w.Host == "") || (w.Node == "") != (w.Host == "") {
			return violated("S118", "the sweep of index %d is malformed", w.Epoch.Index)
		}
		if !s.level2() || w.Epoch.Index < last || w.Epoch.Index > s.cluster.Index || w.Cursor > w.Epoch.Index {
			return violated("S118", "the sweep of index %d stands behind that of %d, in a state at %d", w.Epoch.Index, last, s.cluster.Index)
		}
		last = w.Epoch.Index
	}
	return nil
}
