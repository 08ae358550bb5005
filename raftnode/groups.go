package raftnode

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// largestGroup is also raft's largest message.
	largestGroup = 512
	// proposalsAtOnce bounds what waits in a leader, and in a forwarder.
	proposalsAtOnce = 8192
	// enqueueTime bounds how long raft may take to accept a command.
	enqueueTime = 10 * time.Second
)

// groups hands commands to raft in groups. Each group costs one write to every
// disk, and raft begins one as soon as it sees a command: under load the first of
// many that are about to come would go alone. It needs raft's BatchApplyCh, so
// that a group arrives whole.
type groups struct {
	*queue[*proposal]
	raft     *raft.Raft
	inflight atomic.Int64
}

// proposal is one command on its way through raft.
type proposal struct {
	data   []byte
	future raft.ApplyFuture
	done   chan applied // never blocks
}

type applied struct {
	answer
	err error
}

func newGroups() *groups {
	return &groups{queue: newQueue[*proposal](proposalsAtOnce, largestGroup)}
}

// apply has raft commit and apply a command. What was handed over when ctx or the
// member ends may or may not be applied.
func (g *groups) apply(ctx, closing context.Context, data []byte) (answer, error) {
	p, err := g.enter(data)
	if err != nil {
		return answer{}, err
	}
	return awaitApplied(ctx, closing, p.done)
}

// enter queues a command; nothing happened when it fails.
func (g *groups) enter(data []byte) (*proposal, error) {
	p := &proposal{data: data, done: make(chan applied, 1)}
	select {
	case g.waiting <- p:
		g.inflight.Add(1)
		return p, nil
	default:
		return nil, errTooMany
	}
}

var errTooMany = fmt.Errorf("%w: %d commands are waiting already", ErrNotLeader, proposalsAtOnce)

func awaitApplied(ctx, closing context.Context, done <-chan applied) (answer, error) {
	select {
	case a := <-done:
		return a.answer, a.err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	case <-closing.Done():
		return answer{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ErrShutdown)
	}
}

// send gives a group to raft, and each command its answer when raft has it.
func (g *groups) send(group []*proposal, ended func()) {
	for _, p := range group {
		p.future = g.raft.Apply(p.data, enqueueTime)
	}
	go func() {
		for _, p := range group {
			p.done <- p.result()
			g.inflight.Add(-1)
		}
		ended()
	}()
}

func (p *proposal) result() applied {
	if err := p.future.Error(); err != nil {
		return applied{err: classify(err)}
	}
	outcome, ok := p.future.Response().(*fsmpb.Outcome)
	if !ok {
		return applied{err: fmt.Errorf("%w: it was applied, and its answer lost in a restore", ErrOutcomeUnknown)}
	}
	return applied{answer: answer{outcome: outcome, index: p.future.Index()}}
}
