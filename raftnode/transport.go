package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft.NetworkTransport whose connections name their target (S68), that
// also sees who confirmed this leader and when, and tells followers at once what was
// committed.
type transport struct {
	*raft.NetworkTransport

	// ticks orders the questions of reads and the heartbeats that answer them.
	ticks atomic.Uint64
	mu    sync.Mutex
	acks  map[raft.ServerID]ack
	acked chan struct{} // closed at the next ack

	lines lines

	// votes tells whether this member's own configuration has it, and no other process
	// is that member; stands, whether it may be elected.
	votes   func() bool
	stands  func() bool
	once    sync.Once
	calls   chan raft.RPC
	closing sync.Once
	done    chan struct{}
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
		calls:            make(chan raft.RPC),
		done:             make(chan struct{}),
		stands:           func() bool { return true },
		lines:            lines{open: make(map[*line]struct{})},
	}
}

// Consumer hands raft its calls. A member whose own configuration does not have it yet
// answers only those that may bring it one: it gives no vote (S68).
func (t *transport) Consumer() <-chan raft.RPC {
	t.once.Do(func() { go t.filter() })
	return t.calls
}

func (t *transport) filter() {
	in := t.NetworkTransport.Consumer()
	for {
		select {
		case rpc := <-in:
			if isElection(rpc) && !t.votes() {
				rpc.Respond(&raft.RequestVoteResponse{}, errNoVote)
				continue
			}
			select {
			case t.calls <- rpc:
			case <-t.done:
				return
			}
		case <-t.done:
			return
		}
	}
}

// Close is raft's.
func (t *transport) Close() error {
	t.closing.Do(func() { close(t.done) })
	return t.NetworkTransport.Close()
}

var errNoVote = errors.New("this member is in no configuration that it knows, or runs on a copy of a data folder: it gives no vote")

func isElection(rpc raft.RPC) bool {
	switch rpc.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest, *raft.TimeoutNowRequest:
		return true
	}
	return false
}

// AppendEntries is raft's heartbeat, and replication to a member that lags.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := t.ticks.Add(1)
	if err := t.NetworkTransport.AppendEntries(id, addressed(id, target), args, resp); err != nil {
		return err
	}
	if resp.Success && resp.Term <= args.Term {
		t.confirmed(id, ack{term: args.Term, sent: sent})
	}
	return nil
}

// RequestVote asks the member that is named.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if !t.stands() {
		return errNoVote
	}
	return t.NetworkTransport.RequestVote(id, addressed(id, target), args, resp)
}

// RequestPreVote asks the member that is named.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if !t.stands() {
		return errNoVote
	}
	return t.NetworkTransport.RequestPreVote(id, addressed(id, target), args, resp)
}

// InstallSnapshot sends to the member that is named.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, addressed(id, target), args, resp, data)
}

// TimeoutNow asks the member that is named.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, addressed(id, target), args, resp)
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
