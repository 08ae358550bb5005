package raftnode

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// checkpointPause spaces checkpoints when entries come faster than they are compared.
const checkpointPause = 100 * time.Millisecond

// checkpoints compares the members' states and proposes what a majority has (S23).
type checkpoints struct {
	*core
	proposer    *proposer
	diskGuard   *diskGuard
	hashDispute hashDispute
	window      atomic.Uint64 // the newest window of CheckpointEvery entries that was entered
	signal      chan struct{} // a window was entered
}

// onCommitted is called after each batch of entries.
func (c *checkpoints) onCommitted(index uint64) {
	if c.entersCheckpointWindow(index) {
		select {
		case c.signal <- struct{}{}:
		default:
		}
	}
}

// entersCheckpointWindow tells whether this index enters another checkpoint window, of CheckpointEvery entries.
func (c *checkpoints) entersCheckpointWindow(index uint64) bool {
	window := index / c.cfg.CheckpointEvery
	return c.window.Swap(window) != window
}

// checkpoint asks the voters for their hash at this leader's index and proposes
// what a majority of them has, also when it is not this leader's own: then it is
// this leader that quarantines itself (S23).
func (c *checkpoints) checkpoint(ctx context.Context) {
	index := c.machine.index.Load()
	ownHash, known := c.machine.hashAt(index)
	if index == 0 || !known || c.diskGuard.full.Load() {
		return
	}
	hashes := map[raft.ServerID][32]byte{raft.ServerID(c.id): ownHash}
	for id, a := range c.peers.queryStatuses(ctx, c.cfg.leaderlessTimeout(), &raftpb.StatusRequest{HashAt: index}) {
		if a.GetHashIndex() == index && len(a.GetStateHash()) == len(ownHash) {
			hashes[id] = [32]byte(a.GetStateHash())
		}
	}
	agreed, verdict := majorityHash(hashes, c.servers())
	switch verdict {
	case hashAgreed:
		c.hashDispute.clear()
		c.proposeCheckpoint(ctx, index, agreed)
	case hashDisputed:
		c.log.Error("no majority of the members agrees on the state", "index", index)
		c.hashDispute.set(index, 5*c.cfg.probeInterval())
	case hashUnknown: // too few have answered; the next one will tell
	}
	sleep(ctx, checkpointPause)
}

func (c *checkpoints) proposeCheckpoint(ctx context.Context, index uint64, hash [32]byte) {
	_, err := c.proposer.proposeInternal(ctx, c.proposer.fillInternalCommand(&fsmpb.Command{Body: &fsmpb.Command_Checkpoint{
		Checkpoint: &fsmpb.Checkpoint{Index: index, Hash: hash[:]},
	}}))
	if err != nil && ctx.Err() == nil {
		c.log.Warn("cannot propose a checkpoint", "index", index, "error", err)
	}
}

// quarantine marks the data directory and exits: this member's state is not the majority's
// at a checkpoint. Its files are kept for analysis (S23).
func (c *checkpoints) quarantine(index uint64, ownHash, majorityHash []byte) {
	<-c.started
	reason := fmt.Sprintf("the state at index %d has hash %x, and the majority's is %x", index, ownHash, majorityHash)
	c.log.Error("this member diverged", "why", reason)
	if err := c.storage.quarantine(reason); err != nil {
		c.log.Error("cannot mark the data folder as quarantined", "error", err)
	}
	c.tracker.resign("its state diverged")
	c.fatal(ExitRestart, "quarantined: "+reason)
}
