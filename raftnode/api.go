package raftnode

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
	"google.golang.org/grpc"
)

// TransferLeadership transfers leadership to another voter; no-op on a follower. It tries
// until ctx ends: raft gives up when the other one is not elected in one election timeout.
func (m *Member) TransferLeadership(ctx context.Context) error { return m.tracker.transfer(ctx) }

// Propose has a command applied, wherever the leader is, and returns once it is
// applied on this member too. It fills request_id and proposed_index when empty
// and retries an unknown outcome with the same ones until ctx ends, or until no
// leader could answer for twice the time of an election. A rejection comes back as error
// *fsm.Rejection beside the outcome.
func (m *Member) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	return m.proposer.propose(ctx, cmd)
}

// Read calls fn with a state that holds everything acknowledged before the call.
// fn must not keep the state. It returns the index that was read at.
func (m *Member) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	return m.reader.read(ctx, fn)
}

// View calls fn with this member's applied state, which may lag.
func (m *Member) View(fn func(*fsm.State) error) error {
	_, err := m.machine.view(fn)
	return err
}

// Fork is a copy of this member's applied state, for long work.
func (m *Member) Fork() *fsm.State { return m.machine.fork() }

// CopyState is Fork, with the term of the last command in it, for a backup.
func (m *Member) CopyState() (*fsm.State, uint64) { return m.machine.forkAt() }

// WaitIndex returns when this member has applied the index.
func (m *Member) WaitIndex(ctx context.Context, index uint64) error {
	return m.reader.waitIndex(ctx, index)
}

// Peers lists the members of the latest configuration.
func (m *Member) Peers() []Peer { return m.membership.list() }

// StatusAt asks the controller at an address for its status, member of this cluster or not.
func (m *Member) StatusAt(ctx context.Context, addr string) (*raftpb.StatusResponse, error) {
	return m.membership.statusAt(ctx, addr)
}

// AddPeer has the leader add, as a non-voter, the member that waits at an address under
// this id. Adding one that is in the configuration already is no error.
func (m *Member) AddPeer(ctx context.Context, id, addr string) error {
	return m.membership.addPeer(ctx, id, addr)
}

// RemovePeer removes a member from the configuration, by Raft's id. One that is not in
// it is no error. ErrRefused: the others would be no quorum, or one of them is catching up.
func (m *Member) RemovePeer(ctx context.Context, id string) error {
	return m.membership.removePeer(ctx, id)
}

// DemotePeer has the leader make a voter a non-voter, by Raft's id, once fsm.SetMemberRole recorded it as one: else the
// next leader would promote it again. One that is a non-voter already is no error. ErrRefused: it is not recorded, or the
// voters that are left would be no quorum.
func (m *Member) DemotePeer(ctx context.Context, id string) error {
	return m.membership.demotePeer(ctx, id)
}

// TransferTo has the leader hand leadership to a voter, by Raft's id, and returns when that one leads. ErrRefused: it is no
// voter, or does not answer or is not ready.
func (m *Member) TransferTo(ctx context.Context, id string) error {
	return m.membership.transferTo(ctx, id)
}

// Dial returns a connection to a peer's Raft listener, by the peer's id; it is shared and
// kept open. Its calls reach that member or fail.
func (m *Member) Dial(id string) (grpc.ClientConnInterface, error) { return m.peers.dialMember(id) }
