package raftsim

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/raftnode/store"
	"github.com/holdfast-storage/holdfast/raftnode/store/storetest"
)

// diskFaults is what goes wrong next on a process's disk.
type diskFaults struct {
	mu      sync.Mutex
	rand    *rand.Rand
	fails   catalog.Fault          // the next operation that can
	only    func(path string) bool // of these files; nil: any
	large   bool                   // only once the log was given more than a few pages at once
	hangs   bool
	slow    time.Duration
	full    bool
	happens int
}

// set arms a fault.
func (d *diskFaults) set(arm func(*diskFaults)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	arm(d)
}

// statFS is the room on the disk.
func (d *diskFaults) statFS(string) (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return 4 << 10, 1 << 30, nil
	}
	return 1 << 29, 1 << 30, nil
}

// fault decides on an operation of a process's store. A dead process gets nowhere: its raft would panic if
// it were told that a write failed, for it is meant to be ended by then.
func (p *process) fault(op storetest.Operation) storetest.Fault {
	if p.dead() {
		if op.Kind == storetest.Begin && p.open.Load() {
			endGoroutine()
			return storetest.Fault{}
		}
		return storetest.Fault{Err: storetest.EIO}
	}
	if !p.open.Load() {
		return storetest.Fault{}
	}
	if op.Kind == storetest.Begin && op.Path == store.AfterFailure {
		<-p.gone // it exits just now, and raft would panic at the error
		endGoroutine()
		return storetest.Fault{}
	}
	if op.Kind == storetest.Begin {
		p.hold(op)
		return storetest.Fault{}
	}
	return p.faults.draw(op)
}

// endGoroutine ends the goroutine that calls, of a dead process. One that replicates to a follower reads on: another goroutine of
// raft waits until it returns.
func endGoroutine() {
	stack := make([]byte, 64<<10)
	if !strings.Contains(string(stack[:runtime.Stack(stack, false)]), "raft.(*Raft).setupAppendEntries(") {
		runtime.Goexit()
	}
}

// hold keeps an operation waiting on a disk that is slow or hangs.
func (p *process) hold(op storetest.Operation) {
	p.faults.mu.Lock()
	hangs, slow := p.faults.hangs, p.faults.slow
	if hangs && !strings.Contains(op.Path, "read") {
		p.faults.happens++
	}
	p.faults.mu.Unlock()
	switch {
	case strings.Contains(op.Path, "read"): // from memory
	case hangs:
		<-p.gone
		runtime.Goexit()
	case slow > 0:
		select {
		case <-time.After(slow):
		case <-p.gone:
			runtime.Goexit()
		}
	}
}

// draw lets an armed fault happen to the first operation that suits it.
func (d *diskFaults) draw(op storetest.Operation) storetest.Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	suits := map[catalog.Fault]storetest.Kind{
		catalog.WriteError: storetest.Write, catalog.TornBatch: storetest.Write, catalog.FsyncError: storetest.Sync,
	}
	if op.Kind == storetest.Write && op.Size > largeWrite {
		d.large = false
	}
	if d.large && !strings.HasSuffix(op.Path, ".db") {
		return storetest.Fault{}
	}
	if d.fails == "" || suits[d.fails] != op.Kind || d.only != nil && !d.only(op.Path) {
		return storetest.Fault{}
	}
	f := storetest.Fault{Err: storetest.EIO}
	if d.fails == catalog.TornBatch {
		f.Reaches = d.rand.Float64()
	}
	d.fails = ""
	d.happens++
	return f
}
