package raftsim

import (
	"errors"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// disk disturbs the disk of the leader or of another member; a process that hangs on it ends itself.
func (w *world) disk(s Step, arm func(*diskFaults)) bool {
	p := w.leading(s).running()
	if p == nil {
		return false
	}
	p.faults.set(arm)
	time.Sleep(s.For + 6*time.Second) // longer than a disk may hang
	p.faults.set(func(d *diskFaults) { d.hangs, d.slow, d.full = false, 0, false })
	w.revive()
	return true
}

// failDisk fails one operation on a member's disk, after which its process exits; then the power fails.
func (w *world) failDisk(s Step, fault catalog.Fault, reached float64) bool {
	m := w.leading(s)
	if !w.exitByDisk(m, func(d *diskFaults) { d.fails = fault }, func() {}) {
		return false
	}
	if reached > 0 {
		m.losePower(reached)
	}
	return true
}

// exitByDisk arms a fault and waits for the process to exit by it.
func (w *world) exitByDisk(m *member, arm func(*diskFaults), provoke func()) bool {
	p := m.running()
	if p == nil {
		return false
	}
	p.faults.set(arm)
	exited := w.until(20*time.Second, "nothing is written", func() error {
		if !p.dead() {
			provoke()
			return errors.New("the process runs")
		}
		return nil
	}) == nil
	p.faults.set(func(d *diskFaults) { d.fails, d.only = "", nil })
	return exited
}

// failSync fails a sync of the log or of the vote, has a process start on the page cache, and takes the power
// soon after: what that process counted on must be there.
func (w *world) failSync(s Step) bool {
	failed := w.failLogSync
	if s.draw.IntN(2) == 0 {
		failed = w.failVoteSync
	}
	m := failed(s)
	if m == nil {
		return false
	}
	w.revive()
	time.Sleep(time.Duration(s.draw.Int64N(int64(2 * time.Second))))
	m.losePower(0)
	time.Sleep(time.Second)
	return true
}

// failLogSync fails the sync of large entries: those on one page with later ones are carried to the disk by them.
func (w *world) failLogSync(s Step) *member {
	m, r := w.leading(s), w.fork()
	p := m.running()
	isLog := func(path string) bool { return strings.HasSuffix(path, ".wal") || path == "raft.db" }
	exited := w.exitByDisk(m, func(d *diskFaults) { d.fails, d.only, d.large = catalog.FsyncError, isLog, true }, func() { w.tell(p, largeRegistration(r)) })
	if !exited {
		return nil
	}
	return m
}

// failVoteSync fails the sync of a term or a vote, of a member that an election reaches.
func (w *world) failVoteSync(s Step) *member {
	m := w.other(s)
	isVote := func(path string) bool { return path == "." || path == "raft.db" }
	exited := w.exitByDisk(m, func(d *diskFaults) { d.fails, d.only = catalog.FsyncError, isVote }, func() { w.transfer(s) })
	if !exited {
		return nil
	}
	return m
}

// tell proposes a command without asking for its outcome.
func (w *world) tell(p *process, cmd *fsmpb.Command) {
	guarded(func() {
		ctx, cancel := within(time.Second)
		defer cancel()
		_, _ = p.Propose(ctx, cmd)
	})
}
