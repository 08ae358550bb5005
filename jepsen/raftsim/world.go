package raftsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/report"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/store/storetest"
)

// world is everything of one schedule.
type world struct {
	plan    Plan
	root    string
	network *network
	members []*member
	began   time.Time
	log     safeLog

	mu       sync.Mutex
	rand     *rand.Rand
	problems []error
	story    []string
	graves   sync.WaitGroup
	history  history
	verdicts []report.Verdict
}

// safeLog is a log that several goroutines write.
type safeLog struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is what was logged.
func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWorld(p Plan, root string) (*world, error) {
	w := &world{plan: p, root: root, network: newNetwork(p.Seed), began: time.Now(), rand: rand.New(rand.NewPCG(p.Seed, 3))}
	w.history.entries, w.history.terms, w.history.leaders = map[uint64]raftnode.Entry{}, map[string]uint64{}, map[uint64]string{}
	ca := filepath.Join(root, "ca")
	if err := pki.MakeCA(ca, "raftsim"); err != nil {
		return nil, err
	}
	for i := range p.Members {
		m := &member{world: w, name: fmt.Sprintf("c%d", i+1), addr: fmt.Sprintf("10.0.0.%d:7000", i+1), dir: filepath.Join(root, fmt.Sprintf("c%d-0", i+1))}
		var err error
		if m.files, err = pki.Issue(ca, filepath.Join(root, m.name+"-pki"), pki.Identity{Role: pki.Controller, Name: m.name}, 24*time.Hour); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return nil, err
		}
		if m.disk, err = storetest.New(m.dir, p.Seed+uint64(i)); err != nil {
			return nil, err
		}
		w.members = append(w.members, m)
	}
	return w, nil
}

// fork is a source of choices of its own, so that goroutines do not share one.
func (w *world) fork() *rand.Rand {
	w.mu.Lock()
	defer w.mu.Unlock()
	return rand.New(rand.NewPCG(w.rand.Uint64(), w.rand.Uint64()))
}

// fail records a problem: the schedule fails.
func (w *world) fail(err error) {
	if err == nil {
		return
	}
	w.note("", "PROBLEM: %v", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, err)
}

// told is the story so far, and all problems.
func (w *world) told() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.story, "\n"), errors.Join(w.problems...)
}

// note adds a line to the story.
func (w *world) note(who, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, fmt.Sprintf("%9.3fs %s %s", time.Since(w.began).Seconds(), who, fmt.Sprintf(format, args...)))
}

// bury ends what is left of a dead process in the background.
func (w *world) bury(p *process) { w.graves.Go(p.end) }

func (w *world) joinAddresses(except *member) (addrs []string) {
	for _, m := range w.members {
		if m != except {
			addrs = append(addrs, m.addr)
		}
	}
	return addrs
}

// up are the processes that run.
func (w *world) up() (all []*process) {
	for _, m := range w.members {
		if p := m.running(); p != nil {
			all = append(all, p)
		}
	}
	return all
}

// leader is the process that leads, in the highest term; nil without one.
func (w *world) leader() (leader *process) {
	var highest uint64
	for _, p := range w.up() {
		if leading, term, _ := p.Leadership(); leading && term > highest {
			leader, highest = p, term
		}
	}
	return leader
}

// until waits until there is no error, at most so long.
func (w *world) until(limit time.Duration, what string, check func() error) error {
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s, not even after %s: %w", what, limit, err)
}

// found starts the first cluster: one member bootstraps, the others join it.
func (w *world) found() error {
	for _, m := range w.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	return w.until(time.Minute, "the members make no cluster", w.checkServing)
}

// checkServing is nil when all members run, vote and are ready.
func (w *world) checkServing() error {
	for _, m := range w.members {
		p := m.running()
		if p == nil {
			return fmt.Errorf("%s does not run", m.name)
		}
		if err := p.Ready(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		voters := 0
		for _, peer := range p.Peers() {
			if peer.Voter {
				voters++
			}
		}
		if voters != len(w.members) {
			return fmt.Errorf("%s knows %d voters of %d", m.name, voters, len(w.members))
		}
	}
	return nil
}

// close ends all processes, each within its time.
func (w *world) close() error {
	var errs []error
	for _, p := range w.up() {
		done := make(chan error, 1)
		go func() { done <- p.Close() }()
		select {
		case err := <-done:
			errs = append(errs, err)
		case <-time.After(time.Minute):
			errs = append(errs, fmt.Errorf("%s does not close", p.member.name))
		}
	}
	return errors.Join(append(errs, w.buried())...)
}

// buried waits for what is left of dead processes.
func (w *world) buried() error {
	ended := make(chan struct{})
	go func() {
		w.graves.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(10 * time.Minute):
		return errors.New("what is left of a dead process does not end")
	}
}

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
