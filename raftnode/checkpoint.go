package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// checkpointPause spaces checkpoints when entries come faster than they are compared.
const checkpointPause = 100 * time.Millisecond

// entersCheckpointWindow tells whether this index begins another stretch of CheckpointEvery entries.
func (m *Member) entersCheckpointWindow(index uint64) bool {
	window := index / m.cfg.CheckpointEvery
	return m.checkpointWindow.Swap(window) != window
}

// checkpoint asks the voters for their hash at this leader's index and proposes
// what a majority of them has, also when it is not this leader's own: then it is
// this leader that leaves (S23).
func (m *Member) checkpoint(ctx context.Context) {
	index := m.machine.index.Load()
	ownHash, known := m.machine.hashAt(index)
	if index == 0 || !known || m.diskGuard.full.Load() {
		return
	}
	hashes := map[raft.ServerID][32]byte{raft.ServerID(m.id): ownHash}
	for id, a := range m.peers.queryStatuses(ctx, m.cfg.leaderlessTimeout(), &raftpb.StatusRequest{HashAt: index}) {
		if a.GetHashIndex() == index && len(a.GetStateHash()) == len(ownHash) {
			hashes[id] = [32]byte(a.GetStateHash())
		}
	}
	agreed, verdict := majorityHash(hashes, m.servers())
	switch verdict {
	case hashAgreed:
		m.hashDispute.clear()
		m.proposeCheckpoint(ctx, index, agreed)
	case hashDisputed:
		m.log.Error("no majority of the members agrees on the state", "index", index)
		m.hashDispute.set(index, 5*m.cfg.probeInterval())
	case hashUnknown: // too few have answered; the next one will tell
	}
	sleep(ctx, checkpointPause)
}

func (m *Member) proposeCheckpoint(ctx context.Context, index uint64, hash [32]byte) {
	_, err := m.proposer.proposeInternal(ctx, m.proposer.fillInternalCommand(&fsmpb.Command{Body: &fsmpb.Command_Checkpoint{
		Checkpoint: &fsmpb.Checkpoint{Index: index, Hash: hash[:]},
	}}))
	if err != nil && ctx.Err() == nil {
		m.log.Warn("propose a checkpoint", "index", index, "error", err)
	}
}

// verdict is what the voters' hashes say.
type verdict int

const (
	// hashUnknown: too few answered.
	hashUnknown verdict = iota
	// hashAgreed: a majority of all voters has the same.
	hashAgreed
	// hashDisputed: they differ, and none is a majority's.
	hashDisputed
)

// majorityHash counts the voters' hashes. Members without a vote are not counted.
func majorityHash(hashes map[raft.ServerID][32]byte, servers []raft.Server) ([32]byte, verdict) {
	counts := make(map[[32]byte]int)
	voters := 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if h, ok := hashes[s.ID]; ok {
			counts[h]++
		}
	}
	for h, n := range counts {
		if n > voters/2 {
			return h, hashAgreed
		}
	}
	if len(counts) > 1 {
		return [32]byte{}, hashDisputed
	}
	return [32]byte{}, hashUnknown
}

// hashDispute is a disagreement that no majority decides. It is renewed by the leader
// for as long as it lasts, and ends by itself when no leader renews it.
type hashDispute struct {
	mu      sync.Mutex
	index   uint64
	expires time.Time
}

func (d *hashDispute) set(index uint64, ttl time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index, d.expires = index, time.Now().Add(ttl)
}

func (d *hashDispute) clear() { d.set(0, 0) }

// at is the index of the disagreement; zero when there is none.
func (d *hashDispute) activeIndex() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().After(d.expires) {
		return 0
	}
	return d.index
}

func (d *hashDispute) err() error {
	if index := d.activeIndex(); index != 0 {
		return fmt.Errorf("%w: no majority has one at index %d; an operator must choose", ErrDiverged, index)
	}
	return nil
}

// quarantine takes this member out of the cluster: its state is not the majority's
// at a checkpoint. Its files are kept for study (S23).
func (m *Member) quarantine(index uint64, ownHash, majorityHash []byte) {
	<-m.started
	reason := fmt.Sprintf("the state at index %d has hash %x, and the majority's is %x", index, ownHash, majorityHash)
	m.log.Error("this member diverged", "why", reason)
	if err := m.storage.quarantine(reason); err != nil {
		m.log.Error("mark the data folder as quarantined", "error", err)
	}
	m.tracker.resign("its state diverged")
	m.fatal(ExitRestart, "quarantined: "+reason)
}
