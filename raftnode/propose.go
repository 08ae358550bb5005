package raftnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const requestIDLen = 16

// Propose has a command applied, wherever the leader is, and returns once it is
// applied on this member too. It fills request_id and proposed_index when empty
// and retries an unknown outcome with the same ones until ctx ends, or until
// nobody could answer for twice an election. A rejection comes back as error
// *fsm.Rejection beside the outcome.
func (m *Member) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = make([]byte, requestIDLen)
		_, _ = rand.Read(cmd.RequestId) // it never fails
	}
	if cmd.GetProposedIndex() == 0 {
		cmd.ProposedIndex = m.machine.index.Load()
	}
	var a answer
	unknown := false
	err := m.retry(ctx, func(ctx context.Context, v *view) error {
		if err := m.refuses(); err != nil {
			return err
		}
		var err error
		a, err = m.attempt(ctx, v, cmd)
		unknown = unknown || errors.Is(err, ErrOutcomeUnknown)
		return err
	})
	m.metrics.proposal(err, a.outcome)
	switch {
	case err != nil && unknown:
		return nil, fmt.Errorf("%w: %s", ErrOutcomeUnknown, err.Error())
	case err != nil:
		return nil, err
	}
	if err := m.waitApplied(ctx, a.index); err != nil {
		return nil, fmt.Errorf("%w here: wait for index %d: %w", ErrOutcomeUnknown, a.index, err)
	}
	return a.outcome, fsm.Err(a.outcome)
}

// answer is an outcome and the entry that gave it.
type answer struct {
	outcome *fsmpb.Outcome
	index   uint64
}

func (m *Member) attempt(ctx context.Context, v *view, cmd *fsmpb.Command) (answer, error) {
	if v.leading {
		return m.proposeHere(ctx, cmd)
	}
	if refused, err := m.tooNewFor(ctx, cmd, m.followerReads.join); refused != nil || err != nil {
		return answer{outcome: refused}, err
	}
	return m.forward(ctx, cmd)
}

// refuses says why this member takes no commands now.
func (m *Member) refuses() error {
	switch {
	case m.machine.halted.Load():
		return fmt.Errorf("%w: this member has stopped", ErrDiverged)
	case m.disk.full.Load():
		return fmt.Errorf("%w: %s", ErrDiskFull, m.cfg.Dir)
	}
	return m.dispute.err()
}

// proposeHere appends a command on this leader and waits until it is applied here.
func (m *Member) proposeHere(ctx context.Context, cmd *fsmpb.Command) (answer, error) {
	if decided, err := m.gated(ctx, cmd); decided != nil || err != nil {
		return answer{outcome: decided, index: decided.GetIndex()}, err
	}
	data, err := m.prepare(cmd)
	if err != nil {
		return answer{}, err
	}
	return m.groups.apply(ctx, m.closing, data)
}

// prepare says whether this leader takes commands, and attaches what it measured.
func (m *Member) prepare(cmd *fsmpb.Command) ([]byte, error) {
	if err := m.refuses(); err != nil {
		return nil, err
	}
	if m.clock.off.Load() {
		return nil, fmt.Errorf("%w: the leader's clock is off (S27)", ErrNotLeader)
	}
	if m.cfg.Facts != nil {
		m.cfg.Facts(cmd)
	}
	return m.stamp(cmd)
}

// append has raft commit one of the member's own commands, whatever it refuses to
// others. It ends at the latest when leadership does: a leader that is stuck ends
// itself (S132).
func (m *Member) append(ctx context.Context, cmd *fsmpb.Command) (answer, error) {
	data, err := m.stamp(cmd)
	if err != nil {
		return answer{}, err
	}
	return m.groups.apply(ctx, m.closing, data)
}

// stamp marshals the command, once.
func (m *Member) stamp(cmd *fsmpb.Command) ([]byte, error) {
	cmd.ProposedAt = m.cfg.now().UnixNano()
	cmd.SchemaVersion = max(cmd.GetSchemaVersion(), fsm.LeastLevel(cmd))
	return marshal(cmd)
}

func marshal(cmd *fsmpb.Command) ([]byte, error) {
	data, err := proto.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("marshal a command: %w", err)
	}
	return data, nil
}

// classify tells what certainly did not happen from what may have (S138).
func classify(err error) error {
	for _, not := range []error{
		raft.ErrNotLeader, raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress, raft.ErrAbortedByRestore,
	} {
		if errors.Is(err, not) {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
	}
	if errors.Is(err, ErrDiskFull) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
