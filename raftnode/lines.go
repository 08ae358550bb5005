package raftnode

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// commitPatience is how long a commit waits for the next entries to carry it to
// the followers, when there are proposals under way that will.
const commitPatience = 2 * time.Millisecond

// lines are the open pipelines to followers. Raft tells a follower what is
// committed with the next entries, or after CommitTimeout (50 to 100 ms) when there
// are none: too long for who waits on a follower for its own command, or watches
// there. A line sends, right after a commit, the same empty AppendEntries that raft
// itself sends after that time.
type lines struct {
	mu   sync.Mutex
	open map[*line]struct{}
	busy func() bool // there are proposals under way
}

// line is one pipeline.
type line struct {
	raft.AppendPipeline
	lines *lines

	mu   sync.Mutex                // held while a message is sent, which may take long
	last raft.AppendEntriesRequest // header and term of raft's own
	sent uint64                    // the highest index sent, or known to be there
	told uint64                    // the highest commit index told

	committed atomic.Pointer[entryID] // to be told
	wake      chan struct{}
	done      chan struct{}
	once      sync.Once
}

type entryID struct{ index, term uint64 }

// AppendEntriesPipeline opens a line.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, addressed(id, target))
	if err != nil {
		return nil, err
	}
	l := &line{AppendPipeline: inner, lines: &t.lines, wake: make(chan struct{}, 1), done: make(chan struct{})}
	t.lines.mu.Lock()
	t.lines.open[l] = struct{}{}
	t.lines.mu.Unlock()
	go l.run()
	return l, nil
}

// commit tells the lines of the newest committed entry.
func (ls *lines) commit(index, term uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.open {
		l.commit(&entryID{index, term})
	}
}

func (l *line) commit(e *entryID) {
	l.committed.Store(e)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *line) run() {
	for {
		select {
		case <-l.wake:
		case <-l.done:
			return
		}
		e := *l.committed.Load()
		if l.lines.busy() && !l.wait() {
			return
		}
		if l.tell(e) != nil {
			return
		}
	}
}

// wait gives the next entries time; false when the line was closed meanwhile.
func (l *line) wait() bool {
	t := time.NewTimer(commitPatience)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}

// tell sends what is committed, unless raft did. The entry was sent on this line
// before, so the follower has it; term and header are those of raft's own last
// message, so a leader that was deposed meanwhile only repeats what it once said.
func (l *line) tell(e entryID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told >= e.index || l.sent < e.index {
		return nil
	}
	args := l.last
	args.PrevLogEntry, args.PrevLogTerm = e.index, e.term
	args.Entries, args.LeaderCommitIndex = nil, e.index
	if _, err := l.AppendPipeline.AppendEntries(&args, new(raft.AppendEntriesResponse)); err != nil {
		return err
	}
	l.told = e.index
	return nil
}

// AppendEntries is raft's own message.
func (l *line) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	future, err := l.AppendPipeline.AppendEntries(args, resp)
	if err != nil {
		return nil, err
	}
	l.last = raft.AppendEntriesRequest{RPCHeader: args.RPCHeader, Term: args.Term}
	l.sent = max(l.sent, args.PrevLogEntry+uint64(len(args.Entries)))
	l.told = max(l.told, min(l.sent, args.LeaderCommitIndex))
	return future, nil
}

// Close is raft's; it does not wait for a message under way.
func (l *line) Close() error {
	l.once.Do(func() { close(l.done) })
	l.lines.mu.Lock()
	delete(l.lines.open, l)
	l.lines.mu.Unlock()
	return l.AppendPipeline.Close()
}
