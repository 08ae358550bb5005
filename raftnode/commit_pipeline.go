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
// index with the next entries, or after CommitTimeout (50 to 100 ms) when there are none:
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
	all *commitPipelines

	mu                sync.Mutex                // held while a message is sent, which may take long
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
	l := &commitPipeline{
		AppendPipeline: inner, all: &t.commitPipelines, answers: make(chan raft.AppendFuture),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if !t.commitPipelines.add(l) {
		return nil, errors.Join(raft.ErrTransportShutdown, inner.Close())
	}
	go l.run()
	go l.deliver()
	return l, nil
}

// add tells whether the pipeline may be used: none is opened once the member shuts down.
func (ls *commitPipelines) add(l *commitPipeline) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.active == nil {
		return false
	}
	ls.active[l] = struct{}{}
	return true
}

// shutdown closes all pipelines, which ends the messages in flight: raft waits for them when it
// shuts down, and a follower may not answer.
func (ls *commitPipelines) shutdown() {
	ls.mu.Lock()
	active := ls.active
	ls.active = nil
	ls.mu.Unlock()
	for l := range active {
		_ = l.Close()
	}
}

// notify gives the pipelines the newest committed entry.
func (ls *commitPipelines) notify(index, term uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.active {
		l.notify(&entryID{index, term})
	}
}

func (l *commitPipeline) notify(e *entryID) {
	l.pending.Store(e)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *commitPipeline) run() {
	for {
		select {
		case <-l.wake:
		case <-l.done:
			return
		}
		e := *l.pending.Load()
		if l.all.proposalsInFlight() && !l.waitForEntries() {
			return
		}
		if l.sendCommit(e) != nil {
			return
		}
	}
}

// waitForEntries gives the next entries time; false when the pipeline was closed meanwhile.
func (l *commitPipeline) waitForEntries() bool {
	t := time.NewTimer(commitCoalesceDelay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}

// sendCommit sends the commit index, unless raft did. The entry was sent on this pipeline
// before, so the follower has it; term and header are those of raft's own last message, so
// a leader that was deposed meanwhile repeats a message that it already sent.
func (l *commitPipeline) sendCommit(e entryID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.highestCommitSent >= e.index || l.highestSent < e.index {
		return nil
	}
	args := l.lastRequest
	args.PrevLogEntry, args.PrevLogTerm = e.index, e.term
	args.Entries, args.LeaderCommitIndex = nil, e.index
	if _, err := l.AppendPipeline.AppendEntries(&args, new(raft.AppendEntriesResponse)); err != nil {
		return err
	}
	l.highestCommitSent = e.index
	return nil
}

// AppendEntries is raft's own message.
func (l *commitPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	future, err := l.AppendPipeline.AppendEntries(args, resp)
	if err != nil {
		return nil, err
	}
	l.lastRequest = raft.AppendEntriesRequest{RPCHeader: args.RPCHeader, Term: args.Term}
	l.highestSent = max(l.highestSent, args.PrevLogEntry+uint64(len(args.Entries)))
	l.highestCommitSent = max(l.highestCommitSent, min(l.highestSent, args.LeaderCommitIndex))
	return future, nil
}

// Consumer implements raft.AppendPipeline.
func (l *commitPipeline) Consumer() <-chan raft.AppendFuture { return l.answers }

// deliver passes the answers to raft. Raft reads none after the first that is no success, and the
// inner pipeline takes no message while an answer is unread: a sender would wait indefinitely, and
// the follower be sent nothing more. So those that raft does not read are taken here.
func (l *commitPipeline) deliver() {
	for raftReads := true; ; {
		select {
		case a := <-l.AppendPipeline.Consumer():
			if raftReads {
				raftReads = l.pass(a) && a.Response().Success && a.Response().Term <= a.Request().Term
			}
		case <-l.done:
			return
		}
	}
}

func (l *commitPipeline) pass(a raft.AppendFuture) bool {
	select {
	case l.answers <- a:
		return true
	case <-l.done:
		return false
	}
}

// Close implements raft.AppendPipeline, and may be called more than once; it does not wait for a message in flight.
func (l *commitPipeline) Close() error {
	l.closeOnce.Do(func() { close(l.done) })
	l.all.mu.Lock()
	delete(l.all.active, l)
	l.all.mu.Unlock()
	return l.AppendPipeline.Close()
}
