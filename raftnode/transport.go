package raftnode

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft.NetworkTransport that also sees who confirmed this leader and
// when, and tells followers at once what was committed.
type transport struct {
	*raft.NetworkTransport

	// ticks orders the questions of reads and the heartbeats that answer them.
	ticks atomic.Uint64
	mu    sync.Mutex
	acks  map[raft.ServerID]ack
	acked chan struct{} // closed at the next ack

	lines lines
}

// ack is the newest heartbeat that a voter answered with success.
type ack struct {
	term uint64
	sent uint64 // in ticks
}

func newTransport(stream raft.StreamLayer, timeout time.Duration, cfg *Config) *transport {
	inner := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: stream, MaxPool: 3, Timeout: timeout, Logger: newRaftLogger(cfg.Logger),
	})
	return &transport{
		NetworkTransport: inner,
		acks:             make(map[raft.ServerID]ack),
		acked:            make(chan struct{}),
		lines:            lines{open: make(map[*line]struct{})},
	}
}

// AppendEntries is raft's heartbeat, and replication to a member that lags.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := t.ticks.Add(1)
	if err := t.NetworkTransport.AppendEntries(id, target, args, resp); err != nil {
		return err
	}
	if resp.Success && resp.Term <= args.Term {
		t.confirmed(id, ack{term: args.Term, sent: sent})
	}
	return nil
}

func (t *transport) confirmed(id raft.ServerID, a ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.acks[id]; a.term < old.term || a.term == old.term && a.sent <= old.sent {
		return
	}
	t.acks[id] = a
	close(t.acked)
	t.acked = make(chan struct{})
}

// confirm returns when a quorum of the voters, with this member, has answered a
// heartbeat of the term that was sent after the tick.
func (t *transport) confirm(ctx context.Context, self raft.ServerID, term, tick uint64, servers []raft.Server) error {
	for {
		enough, next := t.count(self, term, tick, servers)
		if enough {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("no quorum confirmed this leader: %w", context.Cause(ctx))
		}
	}
}

func (t *transport) count(self raft.ServerID, term, tick uint64, servers []raft.Server) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	voters, for_ := 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if a := t.acks[s.ID]; s.ID == self || a.term == term && a.sent > tick {
			for_++
		}
	}
	return for_ > voters/2, t.acked
}
