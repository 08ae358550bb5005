package raftsim

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/raftnode/store"
	"github.com/holdfast-storage/holdfast/raftnode/store/storetest"
)

// injectors inject one fault each for as long as their step says, and heal it. They tell whether it took place.
var injectors = map[catalog.Fault]func(*world, Step) bool{
	catalog.Kill:             func(w *world, s Step) bool { return w.down(s, w.some(s, 1), (*member).kill) },
	catalog.KillAll:          func(w *world, s Step) bool { return w.down(s, w.members, (*member).kill) },
	catalog.PowerLoss:        func(w *world, s Step) bool { return w.down(s, w.some(s, 1), func(m *member) { m.losePower(0) }) },
	catalog.LostUnsynced:     func(w *world, s Step) bool { return w.down(s, w.members, func(m *member) { m.losePower(0) }) },
	catalog.Pause:            (*world).pause,
	catalog.MembershipChange: (*world).replaceMember,
	catalog.LeaderChange:     (*world).transfer,
	catalog.SnapshotStorm:    (*world).snapshotStorm,
	catalog.SnapshotFrozen:   (*world).freezeSnapshot,
	catalog.PartitionOne:     func(w *world, s Step) bool { return w.partition(s, alone(w.some(s, 1)[0])) },
	catalog.PartitionLeader:  func(w *world, s Step) bool { return w.partition(s, alone(w.leading(s))) },
	catalog.PartitionHalves:  func(w *world, s Step) bool { return w.partition(s, halves(w.shuffled(s))) },
	catalog.PartitionBridge:  func(w *world, s Step) bool { return w.partition(s, bridge(w.shuffled(s))) },
	catalog.PartitionRing:    func(w *world, s Step) bool { return w.partition(s, ring(w.shuffled(s))) },
	catalog.PartitionOneWay:  func(w *world, s Step) bool { return w.partition(s, oneWay(w.some(s, 1)[0])) },
	catalog.NetworkDrop:      (*world).drop,
	catalog.NetworkReset:     (*world).reset,
	catalog.NetworkFlapping:  (*world).flap,
	catalog.NetworkDelay:     func(w *world, s Step) bool { return w.tune(s, func(n *network) { n.delay = 300 * time.Millisecond }) },
	catalog.NetworkDuplicate: (*world).duplicate,
	catalog.NetworkSlow:      (*world).slowLinks,
	catalog.WriteError:       func(w *world, s Step) bool { return w.failDisk(s, catalog.WriteError, 0) },
	catalog.TornBatch:        func(w *world, s Step) bool { return w.failDisk(s, catalog.TornBatch, 0.5) },
	catalog.FsyncError:       (*world).failSync,
	catalog.DiskHung:         func(w *world, s Step) bool { return w.disk(s, func(d *diskFaults) { d.hangs = true }) },
	catalog.DiskSlow:         func(w *world, s Step) bool { return w.disk(s, func(d *diskFaults) { d.slow = 100 * time.Millisecond }) },
	catalog.DiskFull:         func(w *world, s Step) bool { return w.disk(s, func(d *diskFaults) { d.full = true }) },
	catalog.CorruptSnapshot:  (*world).corruptSnapshot,
}

// Faults are the faults that this layer injects.
func Faults() []catalog.Fault { return slices.Sorted(maps.Keys(injectors)) }

func (w *world) shuffled(s Step) []*member {
	all := slices.Clone(w.members)
	s.draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (w *world) some(s Step, n int) []*member { return w.shuffled(s)[:n] }

// leading is the member that leads, or any.
func (w *world) leading(s Step) *member {
	if p := w.leader(); p != nil {
		return p.member
	}
	return w.some(s, 1)[0]
}

// other is a member that does not lead.
func (w *world) other(s Step) *member {
	leader := w.leading(s)
	all := w.shuffled(s)
	return all[slices.IndexFunc(all, func(m *member) bool { return m != leader })]
}

// revive starts every member that does not run.
func (w *world) revive() {
	for _, m := range w.members {
		if m.running() == nil {
			w.note(m.name, "starts")
			w.fail(m.start())
		}
	}
}

func (w *world) down(s Step, members []*member, end func(*member)) bool {
	for _, m := range members {
		end(m)
	}
	time.Sleep(s.For)
	w.revive()
	return true
}

func (w *world) pause(s Step) bool {
	m := w.leading(s)
	w.network.change(func() { w.network.frozen[m.addr] = true })
	time.Sleep(s.For)
	w.network.change(func() { delete(w.network.frozen, m.addr) })
	return true
}

// replaceMember takes a member's disk away, removes it, and has it join again under a new id.
func (w *world) replaceMember(s Step) bool {
	m := w.some(s, 1)[0]
	p := m.running()
	if p == nil {
		return false
	}
	return w.replace(m, p.id) == nil
}

func (w *world) replace(m *member, id string) error {
	m.wipe()
	w.note(m.name, "loses its disk; %s is to be removed", id)
	err := w.until(2*time.Minute, "the member "+id+" cannot be removed", func() error {
		up := w.up()
		if len(up) == 0 {
			return errors.New("nobody runs")
		}
		ctx, cancel := within(10 * time.Second)
		defer cancel()
		return up[0].RemovePeer(ctx, id)
	})
	w.fail(err)
	w.fail(m.start())
	return err
}

func (w *world) transfer(s Step) bool {
	p := w.leader()
	if p == nil {
		return false
	}
	ctx, cancel := within(5 * time.Second)
	defer cancel()
	return p.TransferLeadership(ctx) == nil
}

// snapshotStorm keeps a follower away for so long that it has to be sent a Raft snapshot, again and again.
func (w *world) snapshotStorm(s Step) bool {
	m := w.other(s)
	for range 3 {
		w.partition(Step{For: 5 * time.Second}, alone(m))
		time.Sleep(2 * time.Second)
	}
	return true
}

// freezeSnapshot has the leader stand still in the middle of a transfer, and the others serve meanwhile.
func (w *world) freezeSnapshot(s Step) bool {
	behind := w.other(s)
	behind.kill()
	time.Sleep(8 * time.Second) // what it lacks is no longer in the log
	leader := w.leader()
	if leader == nil || leader.member == behind {
		w.revive()
		return false
	}
	link := [2]string{leader.member.addr, behind.addr}
	began := make(chan struct{}, 1)
	w.network.change(func() {
		w.network.rates[link] = 20 << 10
		w.network.large[link] = began
	})
	w.fail(behind.start())
	froze := false
	select {
	case <-began:
		time.Sleep(200*time.Millisecond + time.Duration(s.draw.Int64N(int64(300*time.Millisecond))))
		froze = true
	case <-time.After(10 * time.Second):
	}
	w.network.change(func() {
		delete(w.network.large, link)
		delete(w.network.rates, link)
		w.network.frozen[leader.member.addr] = froze
	})
	if froze {
		w.note(leader.member.name, "stands still in the middle of a Raft snapshot to %s", behind.name)
		w.fail(w.until(45*time.Second, "the others do not serve beside a leader that stands still", func() error { return w.serveBut(leader) }))
	}
	w.network.change(func() { delete(w.network.frozen, leader.member.addr) })
	return froze
}

// serveBut is nil when a member beside this one gets a command through.
func (w *world) serveBut(except *process) error {
	r := w.fork()
	for _, p := range w.up() {
		if p == except {
			continue
		}
		err := errors.New("it died")
		guarded(func() {
			ctx, cancel := within(2 * time.Second)
			defer cancel()
			_, err = p.Propose(ctx, registration(r))
			if !isUnavailable(err) {
				err = nil
			}
		})
		if err == nil {
			return nil
		}
	}
	return errors.New("nobody takes a command")
}

func (w *world) tune(s Step, change func(*network)) bool {
	delay := w.network.delay
	w.network.change(func() { change(w.network) })
	time.Sleep(s.For)
	w.network.change(func() { w.network.delay, w.network.again = delay, 0; clear(w.network.rates) })
	return true
}

func (w *world) duplicate(s Step) bool {
	return w.tune(s, func(n *network) { n.again = 0.3 }) && w.network.repeated() > 0
}

func (w *world) slowLinks(s Step) bool {
	m := w.leading(s)
	return w.tune(s, func(n *network) {
		for _, other := range w.members {
			n.rates[[2]string{m.addr, other.addr}] = 8 << 10
		}
	})
}

// drop loses what is sent on one link after the other.
func (w *world) drop(s Step) bool {
	for end := time.Now().Add(s.For); time.Now().Before(end); {
		pair := w.some(s, 2)
		w.partition(Step{For: time.Duration(50+s.draw.IntN(250)) * time.Millisecond}, func(from, to *member) bool { return from == pair[0] && to == pair[1] })
		w.network.reset(func(from, to string) bool { return from == pair[0].addr && to == pair[1].addr })
	}
	return true
}

func (w *world) reset(s Step) bool {
	count := 0
	for end := time.Now().Add(s.For); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		m := w.some(s, 1)[0]
		count += w.network.reset(func(from, to string) bool { return from == m.addr || to == m.addr })
	}
	return count > 0
}

func (w *world) flap(s Step) bool {
	m := w.some(s, 1)[0]
	for end := time.Now().Add(s.For); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		w.partition(Step{For: 200 * time.Millisecond}, alone(m))
	}
	return true
}

// partition blocks the links for which cut is true.
func (w *world) partition(s Step, cut func(from, to *member) bool) bool {
	cuts := 0
	w.network.change(func() {
		for _, from := range w.members {
			for _, to := range w.members {
				if from != to && cut(from, to) {
					w.network.blocked[[2]string{from.addr, to.addr}] = true
					cuts++
				}
			}
		}
	})
	time.Sleep(s.For)
	w.network.change(func() { clear(w.network.blocked) })
	return cuts > 0
}

func alone(m *member) func(from, to *member) bool {
	return func(from, to *member) bool { return from == m || to == m }
}

func oneWay(m *member) func(from, to *member) bool {
	return func(from, _ *member) bool { return from == m }
}

func halves(all []*member) func(from, to *member) bool {
	side := all[:len(all)/2]
	return func(from, to *member) bool { return slices.Contains(side, from) != slices.Contains(side, to) }
}

// bridge leaves the first member in reach of both halves.
func bridge(all []*member) func(from, to *member) bool {
	cut := halves(all[1:])
	return func(from, to *member) bool { return from != all[0] && to != all[0] && cut(from, to) }
}

// ring leaves each member in reach of its two neighbours; of three, of the first one only.
func ring(all []*member) func(from, to *member) bool {
	if len(all) < 4 {
		return bridge(all)
	}
	return func(from, to *member) bool {
		distance := (slices.Index(all, from) - slices.Index(all, to) + len(all)) % len(all)
		return distance != 1 && distance != len(all)-1
	}
}

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

// corruptSnapshot damages the newest Raft snapshot of a member. It starts with an older one, or says what is
// wrong and is replaced.
func (w *world) corruptSnapshot(s Step) bool {
	m := w.some(s, 1)[0]
	p := m.running()
	if p == nil || w.until(time.Minute, "no Raft snapshot is taken", func() error { return hasSnapshot(p.dir) }) != nil {
		return false
	}
	m.kill()
	damaged, err := m.damageSnapshot()
	w.fail(err)
	w.history.damages++
	err = m.start()
	if !damaged || err == nil {
		w.fail(err)
		return damaged
	}
	if !errors.Is(err, store.ErrRefused) {
		w.fail(fmt.Errorf("a damaged Raft snapshot is not refused: %w", err))
	}
	return w.replace(m, p.id) == nil
}

// hasSnapshot is nil when a folder has a finished Raft snapshot.
func hasSnapshot(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "seal"))
	if err == nil && len(found) == 0 {
		err = errors.New("there is none")
	}
	return err
}

// damageSnapshot flips a bit of the newest Raft snapshot that the next process will find.
func (m *member) damageSnapshot() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := filepath.Glob(filepath.Join(m.dir, "snapshots", "*", "seal"))
	for i, seal := range found {
		found[i] = filepath.Join(filepath.Dir(seal), "state.bin")
	}
	if err != nil || len(found) == 0 {
		return false, err
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return compareSnapshots(a, b) })
	content, err := os.ReadFile(newest)
	if err != nil {
		return false, err
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(newest, content, 0o600); err != nil {
		return false, err
	}
	m.disk, err = storetest.New(m.dir, 1)
	return true, err
}

// compareSnapshots orders Raft snapshots by term and index, as their folders are named.
func compareSnapshots(a, b string) int {
	place := func(path string) (p [2]uint64) {
		_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(path)), "%d-%d-", &p[0], &p[1])
		return p
	}
	pa, pb := place(a), place(b)
	return slices.Compare(pa[:], pb[:])
}
