package raftnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	requestIDLen = 16
	// attemptTime bounds one attempt, so that a leader that takes commands and
	// does not commit them is asked anew.
	attemptTime = 10 * time.Second
	// proposalsAtOnce bounds what waits in a leader.
	proposalsAtOnce = 8192
)

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
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	if v.leading {
		return m.proposeHere(ctx, cmd)
	}
	return m.forward(ctx, v, cmd)
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
	if err := m.refuses(); err != nil {
		return answer{}, err
	}
	if m.clock.off.Load() {
		return answer{}, fmt.Errorf("%w: the leader's clock is off (S27)", ErrNotLeader)
	}
	if m.cfg.Facts != nil {
		m.cfg.Facts(cmd)
	}
	return m.append(ctx, cmd)
}

// append stamps and marshals the command, once, and has raft commit it.
func (m *Member) append(ctx context.Context, cmd *fsmpb.Command) (answer, error) {
	cmd.ProposedAt = m.cfg.now().UnixNano()
	cmd.SchemaVersion = fsm.SchemaVersion
	data, err := marshal(cmd)
	if err != nil {
		return answer{}, err
	}
	if m.inflight.Add(1) > proposalsAtOnce {
		m.inflight.Add(-1)
		return answer{}, fmt.Errorf("%w: %d commands are waiting already", ErrNotLeader, proposalsAtOnce)
	}
	done := make(chan applied, 1)
	go func() {
		a := m.apply(data)
		m.inflight.Add(-1)
		done <- a
	}()
	select {
	case a := <-done:
		return a.answer, a.err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	}
}

func marshal(cmd *fsmpb.Command) ([]byte, error) {
	data, err := proto.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("marshal a command: %w", err)
	}
	return data, nil
}

type applied struct {
	answer
	err error
}

// apply waits for raft: attemptTime at most until it takes the command, and then
// until it is applied or leadership is lost.
func (m *Member) apply(data []byte) applied {
	future := m.raft.Apply(data, attemptTime)
	if err := future.Error(); err != nil {
		return applied{err: classify(err)}
	}
	outcome, ok := future.Response().(*fsmpb.Outcome)
	if !ok {
		return applied{err: fmt.Errorf("%w: it was applied, and its answer lost in a restore", ErrOutcomeUnknown)}
	}
	return applied{answer: answer{outcome: outcome, index: future.Index()}}
}

// classify tells what certainly did not happen from what may have (C8).
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
