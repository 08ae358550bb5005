package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

const (
	// maxBatchEntries is also raft's largest message.
	maxBatchEntries = 512
	// maxPendingProposals bounds the commands that wait in a leader, and in a forwarding member.
	maxPendingProposals = 8192
	// enqueueTimeout bounds how long raft may take to accept a command.
	enqueueTimeout = 10 * time.Second
)

// proposalBatcher hands commands to raft in batches. Each batch costs one write to every
// disk, and raft begins one as soon as it sees a command: under load the first of many
// that are about to come would go alone. It needs raft's BatchApplyCh, which keeps a
// batch together.
type proposalBatcher struct {
	*batchQueue[*proposal]
	raft     *raft.Raft
	calls    *raftCalls
	inflight atomic.Int64
}

// proposal is one command on its way through raft.
type proposal struct {
	data   []byte
	future raft.ApplyFuture
	done   chan proposalResult // never blocks
}

type proposalResult struct {
	commandResult
	err error
}

func newProposalBatcher(calls *raftCalls) *proposalBatcher {
	return &proposalBatcher{calls: calls, batchQueue: newBatchQueue[*proposal](maxPendingProposals, maxBatchEntries)}
}

// apply has raft commit and apply a command. When ctx or the member ends first, the command
// may or may not be applied.
func (b *proposalBatcher) apply(ctx, lifetime context.Context, data []byte) (commandResult, error) {
	p, err := b.enqueue(data)
	if err != nil {
		return commandResult{}, err
	}
	return awaitResult(ctx, lifetime, p.done)
}

// enqueue queues a command; nothing happened when it fails.
func (b *proposalBatcher) enqueue(data []byte) (*proposal, error) {
	p := &proposal{data: data, done: make(chan proposalResult, 1)}
	select {
	case b.pending <- p:
		b.inflight.Add(1)
		return p, nil
	default:
		return nil, errQueueFull
	}
}

var errQueueFull = fmt.Errorf("%w: %d commands are waiting already", ErrNotLeader, maxPendingProposals)

func awaitResult(ctx, lifetime context.Context, done <-chan proposalResult) (commandResult, error) {
	select {
	case a := <-done:
		return a.commandResult, a.err
	case <-ctx.Done():
		return commandResult{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	case <-lifetime.Done():
		return commandResult{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ErrShutdown)
	}
}

// send gives a batch to raft, and each command its result when raft has it.
func (b *proposalBatcher) send(batch []*proposal, done func()) {
	if b.calls.begin() != nil {
		return // the member closes: its callers no longer wait
	}
	for _, p := range batch {
		p.future = b.raft.Apply(p.data, enqueueTimeout)
	}
	go func() {
		defer b.calls.end()
		for _, p := range batch {
			p.done <- p.result()
			b.inflight.Add(-1)
		}
		done()
	}()
}

func (p *proposal) result() proposalResult {
	if err := p.future.Error(); err != nil {
		if errors.Is(err, raft.ErrLeadershipLost) && plantedbug.Is(plantedbug.AckBeforeCommit) {
			return proposalResult{commandResult: commandResult{outcome: &fsmpb.Outcome{}}}
		}
		return proposalResult{err: classifyError(err)}
	}
	outcome, ok := p.future.Response().(*fsmpb.Outcome)
	if !ok {
		return proposalResult{err: fmt.Errorf("%w: it was applied, and its outcome was lost when a Raft snapshot was restored", ErrOutcomeUnknown)}
	}
	return proposalResult{commandResult: commandResult{outcome: outcome, index: p.future.Index()}}
}
