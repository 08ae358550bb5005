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
	var a commandResult
	outcomeUnknown := false
	err := m.retrier.retry(ctx, func(ctx context.Context, v *leaderInfo) error {
		if err := m.checkWritable(); err != nil {
			return err
		}
		var err error
		a, err = m.proposeOnce(ctx, v, cmd)
		outcomeUnknown = outcomeUnknown || errors.Is(err, ErrOutcomeUnknown)
		return err
	})
	m.metrics.countProposal(err, a.outcome)
	switch {
	case err != nil && outcomeUnknown:
		return nil, fmt.Errorf("%w: %s", ErrOutcomeUnknown, err.Error())
	case err != nil:
		return nil, err
	}
	if err := m.waitApplied(ctx, a.index); err != nil {
		return nil, fmt.Errorf("%w here: wait for index %d: %w", ErrOutcomeUnknown, a.index, err)
	}
	return a.outcome, fsm.Err(a.outcome)
}

// commandResult is an outcome and the entry that gave it.
type commandResult struct {
	outcome *fsmpb.Outcome
	index   uint64
}

func (m *Member) proposeOnce(ctx context.Context, v *leaderInfo, cmd *fsmpb.Command) (commandResult, error) {
	if v.leading {
		return m.proposeAsLeader(ctx, cmd)
	}
	if rejected, err := m.rejectUnsupported(ctx, cmd, m.reader.followerReads.wait); rejected != nil || err != nil {
		return commandResult{outcome: rejected}, err
	}
	return m.forward(ctx, cmd)
}

// refuses says why this member takes no commands now.
func (m *Member) checkWritable() error {
	switch {
	case m.machine.halted.Load():
		return fmt.Errorf("%w: this member has stopped", ErrDiverged)
	case m.diskGuard.full.Load():
		return fmt.Errorf("%w: %s", ErrDiskFull, m.cfg.Dir)
	}
	return m.hashDispute.err()
}

// proposeAsLeader appends a command on this leader and waits until it is applied here.
func (m *Member) proposeAsLeader(ctx context.Context, cmd *fsmpb.Command) (commandResult, error) {
	if immediate, err := m.gateFeatureLevel(ctx, cmd); immediate != nil || err != nil {
		return commandResult{outcome: immediate, index: immediate.GetIndex()}, err
	}
	data, err := m.encodeProposal(cmd)
	if err != nil {
		return commandResult{}, err
	}
	return m.proposals.apply(ctx, m.lifetime, data)
}

// prepare says whether this leader takes commands, and attaches what it measured.
func (m *Member) encodeProposal(cmd *fsmpb.Command) ([]byte, error) {
	if err := m.checkWritable(); err != nil {
		return nil, err
	}
	if m.clock.skewed.Load() {
		return nil, fmt.Errorf("%w: the leader's clock is off (S27)", ErrNotLeader)
	}
	if m.cfg.Facts != nil {
		m.cfg.Facts(cmd)
	}
	return m.stampAndMarshal(cmd)
}

// proposeInternal has raft commit one of the member's own commands, whatever it refuses to
// others. It ends at the latest when leadership does: a leader that is stuck ends
// itself (S132).
func (m *Member) proposeInternal(ctx context.Context, cmd *fsmpb.Command) (commandResult, error) {
	data, err := m.stampAndMarshal(cmd)
	if err != nil {
		return commandResult{}, err
	}
	return m.proposals.apply(ctx, m.lifetime, data)
}

// stampAndMarshal marshals the command, once.
func (m *Member) stampAndMarshal(cmd *fsmpb.Command) ([]byte, error) {
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

// classifyError tells what certainly did not happen from what may have (S138).
func classifyError(err error) error {
	for _, notApplied := range []error{
		raft.ErrNotLeader, raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress, raft.ErrAbortedByRestore,
	} {
		if errors.Is(err, notApplied) {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
	}
	if errors.Is(err, ErrDiskFull) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
