package raftsim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/raftnode/store"
	"github.com/holdfast-storage/holdfast/raftnode/store/storetest"
)

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
