package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const factSeen = "replica-seen"

// tellReplica tells what was observed of the replica when it is not what the log knows
// (S10): one word at a time, so that they are heard in their order.
func (e *Executor) tellReplica(ctx context.Context, v *volume, s *situation) error {
	w := s.wish
	if w == nil || w.Replication == nil {
		return nil
	}
	seen, _, err := e.seenNow(ctx, v)
	if err != nil || !e.toldOtherwise(v, seen) {
		return err
	}
	f := fact{name: factSeen, path: fmt.Sprint(seen)}
	if e.isTold(v, f) || e.isTelling(v) {
		return nil
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}}
	e.send(v, f, ob)
	return nil
}

// sawReplica is what is to be heard before the word that nothing of the volume is up:
// that this replica is not primary. Without it the log takes no obligation and no grant
// for ended by that word. Nothing, where the log knows it already.
func (e *Executor) sawReplica(ctx context.Context, v *volume) []*fsmpb.Observation {
	e.mu.Lock()
	replicated := v.wish != nil && v.wish.Replication != nil
	e.mu.Unlock()
	if !replicated {
		return nil
	}
	seen, _, err := e.seenNow(ctx, v)
	if err != nil || !e.toldOtherwise(v, seen) {
		return nil
	}
	return []*fsmpb.Observation{{VolumeId: string(v.id), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}}}
}

// toldOtherwise: the log's last word of it is another. Nothing is said of an attachment
// that the log has not heard of.
func (e *Executor) toldOtherwise(v *volume, seen fsm.ReplicaObservation) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.wish == nil || v.wish.Replication == nil {
		return false
	}
	return seen != v.wish.Replication.Observed && (seen.Unconfigured || seen.Attachment == v.wish.Replication.Attachment)
}

// isTelling: an earlier observation of it is on its way.
func (e *Executor) isTelling(v *volume) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for f := range v.flying {
		if f.name == factSeen {
			return true
		}
	}
	return false
}
