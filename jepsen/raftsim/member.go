package raftsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/store"
	"github.com/holdfast-storage/holdfast/raftnode/store/storetest"
)

// segmentSize is that of a wal segment, in bytes.
const segmentSize = 64 << 10

// member is a machine with a controller on it, whose processes come and go.
type member struct {
	world *world
	name  string
	addr  string
	files pki.Files

	mu      sync.Mutex
	dir     string // of the next process
	disk    *storetest.Disk
	process *process // nil while none runs
	wipes   int
	starts  int
}

// process is one run of a controller. When it has died its goroutines are ended bit by bit, and nothing that they do counts.
type process struct {
	member *member
	*raftnode.Member
	dir    string
	disk   *storetest.Disk
	gone   chan struct{} // closed when it died
	once   sync.Once
	open   atomic.Bool // Open has returned
	faults diskFaults
	code   int // that it exited with, -1 when it was killed
	id     string
}

// running is the process, nil while none runs.
func (m *member) running() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// start starts a process on what the last one left. Nothing fails before it is open.
func (m *member) start() error {
	m.mu.Lock()
	p := &process{member: m, dir: m.dir, disk: m.disk, gone: make(chan struct{}), code: -1}
	m.starts++
	m.mu.Unlock()
	p.disk.Fault = p.fault
	p.faults.rand = m.world.fork()
	credentials, err := pki.Load(m.files)
	if err != nil {
		return err
	}
	p.Member, err = raftnode.Open(context.Background(), m.config(p, credentials))
	if err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	if status, err := p.Status(context.Background(), 0); err == nil {
		p.id = status.GetMemberId()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !p.dead() {
		m.process = p
	}
	p.open.Store(true)
	return nil
}

func (m *member) config(p *process, credentials *pki.Credentials) raftnode.Config {
	w := m.world
	return raftnode.Config{
		Dir: p.dir, Name: m.name, LogStore: w.plan.Kind, Listener: w.network.listen(m.addr), Advertise: m.addr, Credentials: credentials,
		Bootstrap: m == w.members[0] && m.wipes == 0, Join: w.joinAddresses(m), BootstrapMarker: filepath.Join(w.root, m.name+".founded"),
		SnapshotThreshold: w.plan.SnapshotThreshold, SnapshotInterval: time.Second, CheckpointEvery: 16,
		SegmentSize: segmentSize, DiskReserve: 64 << 10, DiskGuard: 64 << 10, JournalRetain: 64 << 20,
		Logger: w.logger(m.name), Exit: p.exit,
		Simulated: raftnode.Machine{
			Dial: w.network.dialer(m.addr, p.gone), Disk: p.disk, StatFS: p.faults.statFS, Repeat: w.network.repeat,
		},
	}
}

// exit ends the process as os.Exit does: the goroutine that calls it goes no further.
func (p *process) exit(code int) {
	p.die(code, func(to string) (*storetest.Disk, error) { return p.disk.Kill(to) })
	runtime.Goexit()
}

// die ends the process at this instant. What it leaves is what the next one starts with.
func (p *process) die(code int, leave func(to string) (*storetest.Disk, error)) {
	p.once.Do(func() {
		m := p.member
		p.code = code
		next := filepath.Join(m.world.root, fmt.Sprintf("%s-%d", m.name, m.starts))
		disk, err := leave(next)
		m.world.fail(err)
		close(p.gone)
		m.mu.Lock()
		m.dir, m.disk, m.process = next, disk, nil
		m.mu.Unlock()
		m.world.network.disconnect(m.addr)
		m.world.note(m.name, "died with code %d", code)
		m.world.bury(p)
	})
}

// dead tells whether the process has died.
func (p *process) dead() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// kill ends the process by a signal.
func (m *member) kill() {
	if p := m.running(); p != nil {
		p.die(-1, p.disk.Kill)
	}
}

// losePower ends the process and takes what was not synced, but for a share of the pages.
func (m *member) losePower(reached float64) {
	p := m.running()
	if p == nil { // it lies dead already: its page cache is lost too
		m.mu.Lock()
		defer m.mu.Unlock()
		next := fmt.Sprintf("%s-off", m.dir)
		disk, err := m.disk.LosePower(next, reached)
		m.world.fail(err)
		m.dir, m.disk = next, disk
		return
	}
	counted := p.applied()
	p.die(-1, func(to string) (*storetest.Disk, error) {
		m.world.fail(p.checkLeft(to+"-seen", counted))
		return p.disk.LosePower(to, reached)
	})
}

// applied is an index up to which the process has counted on its log.
func (p *process) applied() uint64 {
	ctx, cancel := within(time.Second)
	defer cancel()
	status, err := p.Status(ctx, 0)
	if err != nil {
		return 0
	}
	return status.GetAppliedIndex()
}

// checkLeft fails when a power failure now takes entries that the process has counted on.
func (p *process) checkLeft(to string, counted uint64) error {
	disk, err := p.disk.LosePower(to, 0)
	if err != nil {
		return err
	}
	s, err := store.Open(store.Options{Dir: to, Kind: p.member.world.plan.Kind, SegmentSize: segmentSize, Disk: disk})
	if err != nil {
		return fmt.Errorf("%s after a power failure: %w", p.member.name, err)
	}
	last, err := s.Logs.LastIndex()
	snapshots, listed := s.Snapshots.List()
	if len(snapshots) > 0 {
		last = max(last, snapshots[0].Index)
	}
	if last < counted {
		err = fmt.Errorf("%s counted on entry %d, and a power failure leaves those up to %d", p.member.name, counted, last)
	}
	return errors.Join(err, listed, s.Close())
}

// wipe replaces the machine's disk by an empty one.
func (m *member) wipe() {
	m.kill()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wipes++
	m.dir = filepath.Join(m.world.root, fmt.Sprintf("%s-wiped-%d", m.name, m.wipes))
	m.world.fail(os.MkdirAll(m.dir, 0o700))
	var err error
	m.disk, err = storetest.New(m.dir, m.world.fork().Uint64())
	m.world.fail(err)
}

// logger keeps what members log, for the story of a failure.
func (w *world) logger(name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelWarn})).With("on", name)
}

// end closes what is left of a process; its disk and its network are gone.
func (p *process) end() {
	if p.Member == nil {
		return
	}
	p.member.world.fail(p.member.world.history.collect(p))
	if err := p.Close(); err != nil && !p.dead() {
		p.member.world.fail(errors.Join(fmt.Errorf("close %s", p.member.name), err))
	}
}
