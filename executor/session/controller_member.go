package session

import (
	"context"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Member is what this package asks of the Raft member it runs beside.
type Member interface {
	// Propose has a command applied, wherever the leader is, and returns once it is
	// applied here too. A rejection comes back as error *fsm.Rejection beside the
	// outcome, or in the outcome alone; every other error means: try again.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// View calls fn with this member's applied state, which may lag.
	View(fn func(*fsm.State) error) error
	// Fork is a copy of this member's applied state, for long work: no lock is held.
	Fork() (*fsm.State, error)
	// WaitIndex returns when this member has applied the index.
	WaitIndex(ctx context.Context, index uint64) error
	// WatchNode begins a watch of a node's volumes, its snapshots and its own record.
	// wake gets a value when there are changes to take; take returns and forgets
	// what changed, all means that everything may have changed; stop ends the watch.
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
