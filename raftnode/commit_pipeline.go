package raftnode

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// commitCoalesceDelay is how long a commit waits for the next entries to carry it to
// the followers, when proposals are in flight that will.
const commitCoalesceDelay = 2 * time.Millisecond

// commitPipelines are the open pipelines to followers. Raft sends a follower the commit
// index with the next entries, or after CommitTimeout (50 to 100 ms by default) when there are none:
// too long for a caller or a watch on a follower. A pipeline sends, right after a commit,
// the same empty AppendEntries that raft itself sends after that time.
type commitPipelines struct {
	mu                sync.Mutex
	active            map[*commitPipeline]struct{} // nil once the member shuts down
	proposalsInFlight func() bool
}

// commitPipeline is one pipeline.
type commitPipeline struct {
	raft.AppendPipeline
	all      *commitPipelines
	isSilent func(term uint64) bool
	onAnswer func()

	mu                waitMutex                 // held while a message is sent, which may take long
	lastRequest       raft.AppendEntriesRequest // header and term of raft's own
	highestSent       uint64                    // the highest index sent, or known to be there
	highestCommitSent uint64                    // the highest commit index sent

	answers   chan raft.AppendFuture  // to raft
	pending   atomic.Pointer[entryID] // committed, not sent yet
	wake      chan struct{}
	done      chan struct{}
	closeOnce sync.Once
}

type entryID struct{ index, term uint64 }

// AppendEntriesPipeline opens a commit pipeline.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, withMemberID(id, target))
	if err != nil {
		return nil, err
	}
	p := &commitPipeline{
		AppendPipeline: inner, all: &t.commitPipelines, isSilent: t.isSilent, answers: make(chan raft.AppendFuture),
		wake: make(chan struct{}, 1), done: make(chan struct{}), mu: newWaitMutex(),
		onAnswer: func() { t.recordAnswer(withMemberID(id, target)) },
	}
	if !t.commitPipelines.add(p) {
		return nil, errors.Join(raft.ErrTransportShutdown, inner.Close())
	}
	go p.run()
	go p.deliver()
	return p, nil
}

// add tells whether the pipeline may be used: none is opened once the member shuts down.
func (ps *commitPipelines) add(p *commitPipeline) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.active == nil {
		return false
	}
	ps.active[p] = struct{}{}
	return true
}

// shutdown closes all pipelines, which ends the messages in flight: raft waits for them when it
// shuts down, and a follower may not answer.
func (ps *commitPipelines) shutdown() {
	ps.mu.Lock()
	active := ps.active
	ps.active = nil
	ps.mu.Unlock()
	for p := range active {
		_ = p.Close()
	}
}

// notify gives the pipelines the newest committed entry.
func (ps *commitPipelines) notify(index, term uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.active {
		p.notify(&entryID{index, term})
	}
}

func (p *commitPipeline) notify(e *entryID) {
	p.pending.Store(e)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *commitPipeline) run() {
	for {
		select {
		case <-p.wake:
		case <-p.done:
			return
		}
		e := *p.pending.Load()
		if p.all.proposalsInFlight() && !p.waitForEntries() {
			return
		}
		if p.sendCommit(e) != nil {
			return
		}
	}
}

// waitForEntries gives the next entries time; false when the pipeline was closed meanwhile.
func (p *commitPipeline) waitForEntries() bool {
	t := time.NewTimer(commitCoalesceDelay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.done:
		return false
	}
}

// sendCommit sends the commit index, unless raft did. The entry was sent on this pipeline
// before, so the follower has it; term and header are those of raft's own last message, so
// a leader that was deposed meanwhile repeats a message that it already sent.
func (p *commitPipeline) sendCommit(e entryID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highestCommitSent >= e.index || p.highestSent < e.index {
		return nil
	}
	args := p.lastRequest
	args.PrevLogEntry, args.PrevLogTerm = e.index, e.term
	args.Entries, args.LeaderCommitIndex = nil, e.index
	if _, err := p.AppendPipeline.AppendEntries(&args, new(raft.AppendEntriesResponse)); err != nil {
		return err
	}
	p.highestCommitSent = e.index
	return nil
}

// AppendEntries is raft's own message.
func (p *commitPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.isSilent(args.Term) {
		return nil, errSilent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	future, err := p.AppendPipeline.AppendEntries(args, resp)
	if err != nil {
		return nil, err
	}
	p.lastRequest = raft.AppendEntriesRequest{RPCHeader: args.RPCHeader, Term: args.Term}
	p.highestSent = max(p.highestSent, args.PrevLogEntry+uint64(len(args.Entries)))
	p.highestCommitSent = max(p.highestCommitSent, min(p.highestSent, args.LeaderCommitIndex))
	return future, nil
}

// Consumer implements raft.AppendPipeline.
func (p *commitPipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// deliver passes the answers to raft. Raft reads none after the first that is no success, and the
// inner pipeline takes no message while an answer is unread: a sender would wait indefinitely, and
// the follower be sent nothing more. So those that raft does not read are taken here.
func (p *commitPipeline) deliver() {
	for raftReads := true; ; {
		select {
		case a := <-p.AppendPipeline.Consumer():
			if a.Error() == nil {
				p.onAnswer()
			}
			if raftReads {
				raftReads = p.pass(a) && a.Response().Success && a.Response().Term <= a.Request().Term
			}
		case <-p.done:
			return
		}
	}
}

func (p *commitPipeline) pass(a raft.AppendFuture) bool {
	select {
	case p.answers <- a:
		return true
	case <-p.done:
		return false
	}
}

// Close implements raft.AppendPipeline, and may be called more than once; it does not wait for a message in flight.
func (p *commitPipeline) Close() error {
	p.closeOnce.Do(func() { close(p.done) })
	p.all.mu.Lock()
	delete(p.all.active, p)
	p.all.mu.Unlock()
	return p.AppendPipeline.Close()
}
