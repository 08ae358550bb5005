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

// proposer takes commands to the log: on this member while it leads, else through the leader.
type proposer struct {
	*core
	retrier          *retrier
	reader           *reader
	metrics          *metrics
	diskGuard        *diskGuard
	hashDispute      *hashDispute
	clock            *clockCheck
	membershipChange waitMutex // held while the feature level is raised

	proposals *proposalBatcher               // to raft, on the leader
	forwards  *batchQueue[*forwardedCommand] // to the leader, from elsewhere
}

// propose is Member.Propose.
func (p *proposer) propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = make([]byte, fsm.RequestIDLen)
		_, _ = rand.Read(cmd.RequestId) // it never fails
	}
	if cmd.GetProposedIndex() == 0 {
		cmd.ProposedIndex = p.machine.index.Load()
	}
	var a commandResult
	outcomeUnknown := false
	err := p.retrier.retry(ctx, func(ctx context.Context, v *leaderInfo) error {
		if err := p.checkWritable(); err != nil {
			return err
		}
		var err error
		a, err = p.proposeOnce(ctx, v, cmd)
		outcomeUnknown = outcomeUnknown || errors.Is(err, ErrOutcomeUnknown)
		return err
	})
	p.metrics.countProposal(err, a.outcome)
	switch {
	case err != nil && outcomeUnknown:
		return nil, fmt.Errorf("%w: %s", ErrOutcomeUnknown, err.Error())
	case err != nil:
		return nil, err
	}
	if err := p.waitApplied(ctx, a.index); err != nil {
		return nil, fmt.Errorf("%w here: wait for index %d: %w", ErrOutcomeUnknown, a.index, err)
	}
	return a.outcome, fsm.Err(a.outcome)
}

// commandResult is an outcome and the entry that gave it.
type commandResult struct {
	outcome *fsmpb.Outcome
	index   uint64
}

func (p *proposer) proposeOnce(ctx context.Context, v *leaderInfo, cmd *fsmpb.Command) (commandResult, error) {
	if v.leading {
		return p.proposeAsLeader(ctx, cmd)
	}
	if rejected, err := p.rejectUnsupported(ctx, cmd, p.reader.followerReads.wait); rejected != nil || err != nil {
		return commandResult{outcome: rejected}, err
	}
	return p.forward(ctx, cmd)
}

// checkWritable says why this member takes no commands now; nil when it does.
func (p *proposer) checkWritable() error {
	switch {
	case p.machine.halted.Load():
		return fmt.Errorf("%w: this member has stopped", ErrDiverged)
	case p.diskGuard.full.Load():
		return fmt.Errorf("%w: %s", ErrDiskFull, p.cfg.Dir)
	}
	return p.hashDispute.err()
}

// proposeAsLeader appends a command on this leader and waits until it is applied here.
func (p *proposer) proposeAsLeader(ctx context.Context, cmd *fsmpb.Command) (commandResult, error) {
	if immediate, err := p.gateFeatureLevel(ctx, cmd); immediate != nil || err != nil {
		return commandResult{outcome: immediate, index: immediate.GetIndex()}, err
	}
	data, err := p.encodeProposal(cmd)
	if err != nil {
		return commandResult{}, err
	}
	return p.proposals.apply(ctx, p.lifetime, data)
}

// encodeProposal checks that this leader takes commands, attaches Config.Facts and marshals.
func (p *proposer) encodeProposal(cmd *fsmpb.Command) ([]byte, error) {
	if err := p.checkWritable(); err != nil {
		return nil, err
	}
	if p.clock.skewed.Load() {
		return nil, fmt.Errorf("%w: the leader's clock is wrong, so it hands over leadership", ErrNotLeader)
	}
	if p.cfg.Facts != nil {
		p.cfg.Facts(cmd)
	}
	return p.stampAndMarshal(cmd)
}

// proposeInternal has raft commit one of the member's own commands, without the checks for
// callers' commands. It returns at the latest when leadership ends: a leader that is stuck
// exits (S132).
func (p *proposer) proposeInternal(ctx context.Context, cmd *fsmpb.Command) (commandResult, error) {
	data, err := p.stampAndMarshal(cmd)
	if err != nil {
		return commandResult{}, err
	}
	return p.proposals.apply(ctx, p.lifetime, data)
}

// stampAndMarshal marshals the command, once.
func (p *proposer) stampAndMarshal(cmd *fsmpb.Command) ([]byte, error) {
	cmd.ProposedAt = p.cfg.now().UnixNano()
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

// classifyError tells errors after which nothing happened from unknown outcomes (S138).
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

// fillInternalCommand sets the request id, actor and index of a command of this member's own.
func (p *proposer) fillInternalCommand(cmd *fsmpb.Command) *fsmpb.Command {
	cmd.RequestId = make([]byte, fsm.RequestIDLen)
	_, _ = rand.Read(cmd.RequestId) // it never fails
	cmd.Actor = p.cfg.Credentials.Identity().Actor()
	cmd.ProposedIndex = p.machine.index.Load()
	return cmd
}
