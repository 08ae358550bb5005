package session

import (
	"context"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Member is what this package needs of its controller's Raft member.
type Member interface {
	// Propose returns when a command is applied by the leader, wherever it is, and by this member.
	// A rejection is an error of type *fsm.Rejection beside the outcome, or in the outcome alone;
	// after any other error the caller may retry.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// Read calls fn with a state that holds everything acknowledged before the call, and returns the index that was read at.
	Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error)
	// View calls fn with this member's applied state, which may lag.
	View(fn func(*fsm.State) error) error
	// Fork returns a copy of this member's applied state, for long work without a lock.
	Fork() (*fsm.State, error)
	// WaitIndex returns when this member has applied the index.
	WaitIndex(ctx context.Context, index uint64) error
	// WatchNode begins a watch of a node's volumes, its snapshots and its own record. wake gets a
	// value when there are changes to take; take returns the changes since the last call, and all
	// when everything may have changed; stop ends the watch.
	WatchNode(node fsm.NodeID) (wake <-chan struct{}, take func() (changes []fsm.Change, all bool), stop func())
	// Ready is nil when this member can serve: it knows a leader and is not far behind.
	Ready() error
	// Peers are the other members of the configuration, with connections to their Raft listeners.
	Peers(ctx context.Context) ([]Peer, error)
}

// Peer is another member. A member that cannot be dialled has no Conn; it counts
// as one that does not answer.
type Peer struct {
	ID    string
	Voter bool
	Conn  grpc.ClientConnInterface
}
