package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// transport is a raft.NetworkTransport whose connections name their target (S68). It also
// records when each voter last confirmed this leader, and sends followers the commit index at
// once.
type transport struct {
	*raft.NetworkTransport

	// heartbeatClock is a logical clock: an ack counts for a read only when its heartbeat was
	// sent after the read began.
	heartbeatClock atomic.Uint64
	mu             sync.Mutex
	acks           map[raft.ServerID]ack
	nextAck        chan struct{}                    // closed at the next ack
	answered       map[raft.ServerAddress]time.Time // when a member, by withMemberID, last answered a message of this leader

	commitPipelines commitPipelines
	dialed          *raftConns
	installing      atomic.Int64 // Raft snapshots that are being sent

	// mayVote tells whether this member's own configuration has it, and no other process
	// is that member; mayCampaign, whether it may be elected.
	mayVote     func() bool
	mayCampaign func() bool
	repeat      func() (bool, time.Duration) // of a simulated network; nil without one
	filterOnce  sync.Once
	silentTerm  atomic.Uint64 // in which this leader sends nothing to followers; 0: none
	rpcs        chan raft.RPC
	closeOnce   sync.Once
	done        chan struct{}
}

// ack is the newest heartbeat that a voter answered with success.
type ack struct {
	term   uint64
	sentAt uint64 // in ticks
}

func newTransport(stream raft.StreamLayer, timeout time.Duration, cfg *Config) *transport {
	dialed := newRaftConns()
	inner := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: trackedStream{stream, dialed}, MaxPool: 3, Timeout: timeout, Logger: newRaftLogger(cfg.Logger),
	})
	return &transport{
		NetworkTransport: inner,
		acks:             make(map[raft.ServerID]ack),
		nextAck:          make(chan struct{}),
		answered:         make(map[raft.ServerAddress]time.Time),
		rpcs:             make(chan raft.RPC),
		done:             make(chan struct{}),
		mayCampaign:      func() bool { return true },
		commitPipelines:  commitPipelines{active: make(map[*commitPipeline]struct{})},
		dialed:           dialed,
		repeat:           cfg.Simulated.Repeat,
	}
}

// Consumer hands raft its calls. A member whose own configuration does not have it yet
// answers only those that may bring it one: it votes for nobody (S68).
func (t *transport) Consumer() <-chan raft.RPC {
	t.filterOnce.Do(func() { go t.filterVotes() })
	return t.rpcs
}

func (t *transport) filterVotes() {
	in := t.NetworkTransport.Consumer()
	for {
		select {
		case rpc := <-in:
			if isElectionRPC(rpc) && !t.mayVote() {
				rpc.Respond(&raft.RequestVoteResponse{}, errNoVote)
				continue
			}
			if !t.deliver(rpc) {
				return
			}
			t.deliverAgain(rpc)
		case <-t.done:
			return
		}
	}
}

// deliver gives raft a call; false once the transport is closed.
func (t *transport) deliver(rpc raft.RPC) bool {
	select {
	case t.rpcs <- rpc:
		return true
	case <-t.done:
		return false
	}
}

// deliverAgain repeats a call on a simulated network, whose second answer nobody reads.
func (t *transport) deliverAgain(rpc raft.RPC) {
	if t.repeat == nil || rpc.Reader != nil {
		return
	}
	if again, after := t.repeat(); again {
		go func() {
			select {
			case <-time.After(after):
				t.deliver(raft.RPC{Command: rpc.Command, RespChan: make(chan raft.RPCResponse, 1)})
			case <-t.done:
			}
		}()
	}
}

// endCalls ends the calls that wait for another member, as InstallSnapshot may for minutes, and
// lets none be made any more: raft waits for them when it shuts down.
func (t *transport) endCalls() {
	t.commitPipelines.shutdown()
	t.dialed.closeAll()
}

// renew ends a connection that this member dialed, so that raft dials again and repeats what it had sent. A
// Raft snapshot on its way would begin anew: until it has arrived no connection is renewed.
func (t *transport) renew(conn net.Conn) {
	if t.installing.Load() == 0 {
		_ = conn.Close()
	}
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.closeOnce.Do(func() { close(t.done) })
	return t.NetworkTransport.Close()
}

var errNoVote = errors.New("this member is in no configuration that it knows, or runs on a copy of a data folder: it gives no vote")

func isElectionRPC(rpc raft.RPC) bool {
	switch rpc.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest, *raft.TimeoutNowRequest:
		return true
	}
	return false
}

var errSilent = errors.New("this leader gave up its term and sends nothing more in it")

// fallSilent has this member send followers nothing more as the leader of a term, so that its lease ends and they
// elect another.
func (t *transport) fallSilent(term uint64) { t.silentTerm.Store(term) }

func (t *transport) isSilent(term uint64) bool { return term != 0 && t.silentTerm.Load() == term }

// AppendEntries is raft's heartbeat, and replication to a member that lags.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.isSilent(args.Term) {
		return errSilent
	}
	sent := t.heartbeatClock.Add(1)
	if err := t.NetworkTransport.AppendEntries(id, withMemberID(id, target), args, resp); err != nil {
		return err
	}
	t.recordAnswer(withMemberID(id, target))
	if resp.Success && resp.Term <= args.Term {
		t.recordAck(id, ack{term: args.Term, sentAt: sent})
	}
	return nil
}

// RequestVote sends to the target member.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if !t.mayCampaign() {
		return errNoVote
	}
	return t.NetworkTransport.RequestVote(id, withMemberID(id, target), args, resp)
}

// RequestPreVote sends to the target member.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if !t.mayCampaign() {
		return errNoVote
	}
	return t.NetworkTransport.RequestPreVote(id, withMemberID(id, target), args, resp)
}

// InstallSnapshot sends to the target member.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if t.isSilent(args.Term) {
		return errSilent
	}
	t.installing.Add(1)
	defer t.installing.Add(-1)
	return t.NetworkTransport.InstallSnapshot(id, withMemberID(id, target), args, resp, data)
}

// TimeoutNow sends to the target member.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, withMemberID(id, target), args, resp)
}

func (t *transport) recordAnswer(from raft.ServerAddress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered[from] = time.Now()
}

// answeredWithin tells whether the member answered this leader at the address, and not longer ago than that.
func (t *transport) answeredWithin(d time.Duration, id raft.ServerID, address raft.ServerAddress) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, answered := t.answered[withMemberID(id, address)]
	return answered && time.Since(at) < d
}

func (t *transport) recordAck(id raft.ServerID, a ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.acks[id]; a.term < old.term || a.term == old.term && a.sentAt <= old.sentAt {
		return
	}
	t.acks[id] = a
	close(t.nextAck)
	t.nextAck = make(chan struct{})
}

// waitForQuorum returns when a quorum of the voters, with this member, has answered a
// heartbeat of the term that was sent after the tick.
func (t *transport) waitForQuorum(ctx context.Context, self raft.ServerID, term, tick uint64, servers []raft.Server) error {
	for {
		quorum, next := t.countAcks(self, term, tick, servers)
		if quorum {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("no quorum confirmed this leader: %w", context.Cause(ctx))
		}
	}
}

func (t *transport) countAcks(self raft.ServerID, term, tick uint64, servers []raft.Server) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	voters, acks := 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if a := t.acks[s.ID]; s.ID == self || a.term == term && a.sentAt > tick {
			acks++
		}
	}
	return acks > voters/2, t.nextAck
}
