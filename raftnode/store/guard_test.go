package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"
	"github.com/stretchr/testify/require"
)

// faulty is a log store that fails, panics or hangs on cue.
type faulty struct {
	*raft.InmemStore
	mu   sync.Mutex
	fail map[string]func() error
}

func (f *faulty) on(call string) error {
	f.mu.Lock()
	fn := f.fail[call]
	f.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn()
}

func (f *faulty) set(call string, fn func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[call] = fn
}

func (f *faulty) GetLog(i uint64, l *raft.Log) error {
	return errors.Join(f.on("GetLog"), f.InmemStore.GetLog(i, l))
}
func (f *faulty) StoreLogs(l []*raft.Log) error {
	return errors.Join(f.on("StoreLogs"), f.InmemStore.StoreLogs(l))
}
func (f *faulty) DeleteRange(a, b uint64) error {
	return errors.Join(f.on("DeleteRange"), f.InmemStore.DeleteRange(a, b))
}
func (f *faulty) Set(k, v []byte) error { return errors.Join(f.on("Set"), f.InmemStore.Set(k, v)) }

// harness is the wrappers of this package around a faulty store.
type harness struct {
	inner *faulty
	logs  *cached
	votes *votes
	fatal chan string
	hung  chan string
	syncs chan time.Duration
}

func newHarness(t *testing.T, hang time.Duration) *harness {
	t.Helper()
	h := &harness{
		inner: &faulty{InmemStore: raft.NewInmemStore(), fail: map[string]func() error{}},
		fatal: make(chan string, 100), hung: make(chan string, 100), syncs: make(chan time.Duration, 100),
	}
	o, err := Options{Dir: "-", Hang: hang,
		OnFatal: func(what string, _ error) { h.fatal <- what },
		OnHang:  func(what string) { h.hung <- what },
		OnSync:  func(d time.Duration) { h.syncs <- d },
	}.complete()
	require.NoError(t, err)
	g := newGuard(o)
	g.armed.Store(true)
	t.Cleanup(g.close)
	dir := fastDir(t)
	require.NoError(t, createMark(filepath.Join(dir, "mark"), "m"))
	m, _, whole, err := openMark(filepath.Join(dir, "mark"), "m")
	require.NoError(t, err)
	require.True(t, whole)
	l, err := newLogs(h.inner, g, m, "m")
	require.NoError(t, err)
	h.logs, err = newCached(4, l)
	require.NoError(t, err)
	h.votes = &votes{db: h.inner, guard: g, path: filepath.Join(dir, "vote.json"), member: "m", values: map[string][]byte{}}
	for i := uint64(1); i <= 10; i++ {
		require.NoError(t, h.logs.StoreLog(entry(i, 1)))
	}
	require.Len(t, h.syncs, 10)
	return h
}

// S133: what an fsync says after one that failed is worth nothing.
func TestTheFirstFailureIsFinal(t *testing.T) {
	var got raft.Log
	calls := map[string]func(h *harness) error{
		"StoreLogs":   func(h *harness) error { return h.logs.StoreLogs([]*raft.Log{entry(11, 1)}) },
		"GetLog":      func(h *harness) error { return h.logs.GetLog(1, &got) },
		"DeleteRange": func(h *harness) error { return h.logs.DeleteRange(1, 2) },
		"Set":         func(h *harness) error { return h.votes.SetUint64([]byte(keyTerm), 8) },
	}
	causes := map[string]func() error{
		"an I/O error": func() error { return syscall.EIO },
		"a full disk":  func() error { return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC} },
		"a panic":      func() error { panic("page 7 is what?") },
	}
	for name, call := range calls {
		for cause, fail := range causes {
			t.Run(name+" after "+cause, func(t *testing.T) {
				h := newHarness(t, time.Minute)
				h.inner.set(name, fail)
				require.Error(t, call(h))
				require.Len(t, h.fatal, 1)
				h.inner.set(name, nil) // the disk recovers, the store does not
				for range 2 {
					for _, any := range calls {
						require.Error(t, any(h))
					}
					require.Error(t, h.logs.GetLog(10, &got), "not from memory either")
					_, err := h.logs.LastIndex()
					require.Error(t, err)
					_, err = h.votes.GetUint64([]byte(keyTerm))
					require.Error(t, err)
				}
				require.Len(t, h.fatal, 1, "told once")
			})
		}
	}
}

func TestAnEntryThatIsNotThereIsNoFailure(t *testing.T) {
	h := newHarness(t, time.Minute)
	for range 2 {
		require.Equal(t, raft.ErrLogNotFound, h.logs.GetLog(99, &raft.Log{}))
		_, err := h.votes.Get([]byte("nothing"))
		require.EqualError(t, err, "not found")
	}
	require.Empty(t, h.fatal)
	require.NoError(t, h.logs.StoreLog(entry(11, 1)))
}

// S133: a write that ends after another failed is not acknowledged.
func TestACallUnderWayDoesNotSucceedAfterAFailure(t *testing.T) {
	h := newHarness(t, time.Minute)
	entered, leave := make(chan struct{}), make(chan struct{})
	h.inner.set("StoreLogs", func() error { close(entered); <-leave; return nil })
	late := make(chan error, 1)
	go func() { late <- h.logs.StoreLog(entry(11, 1)) }()
	<-entered
	h.inner.set("GetLog", func() error { return syscall.EIO })
	require.Error(t, h.logs.GetLog(1, &raft.Log{}))
	close(leave)
	require.ErrorContains(t, <-late, syscall.EIO.Error())
}

func TestADamagedEntryIsFinalAndNamesTheRemedy(t *testing.T) {
	h := newHarness(t, time.Minute)
	l := *entry(3, 1)
	sealed := newSealer("m").seal(&l)
	sealed.Data[0] ^= 1
	require.NoError(t, h.inner.InmemStore.StoreLogs([]*raft.Log{sealed}))
	err := h.logs.GetLog(3, &raft.Log{})
	require.ErrorIs(t, err, errEntry)
	require.ErrorContains(t, err, "entry 3")
	require.ErrorContains(t, err, rejoin)
	require.Len(t, h.fatal, 1)
}

// S27, S132: heartbeats do not touch the disk, so the store tells by itself.
func TestS27_ACallThatHangsIsTold(t *testing.T) {
	for call, run := range map[string]func(h *harness) error{
		"StoreLogs": func(h *harness) error { return h.logs.StoreLog(entry(11, 1)) },
		"GetLog":    func(h *harness) error { return h.logs.GetLog(1, &raft.Log{}) },
		"Set":       func(h *harness) error { return h.votes.SetUint64([]byte(keyTerm), 8) },
	} {
		t.Run(call, func(t *testing.T) {
			h := newHarness(t, 20*time.Millisecond)
			leave, ended := make(chan struct{}), make(chan struct{})
			h.inner.set(call, func() error { <-leave; return nil })
			go func() { defer close(ended); _ = run(h) }()
			select {
			case what := <-h.hung:
				require.NotEmpty(t, what)
			case <-time.After(time.Minute):
				t.Fatal("nobody was told")
			}
			close(leave)
			<-ended
			require.Empty(t, h.hung, "told once")
		})
	}
}

func TestS27_TheWatchdogCountsItsOwnTicks(t *testing.T) {
	w := &watchdog{limit: ticksPerHang}
	w.ticks.Store(1)
	slot := w.begin("append")
	_, hung := w.look(1 + ticksPerHang)
	require.False(t, hung, "a call of just the limit is not hung")
	what, hung := w.look(2 + ticksPerHang)
	require.True(t, hung)
	require.Equal(t, "append", what)
	w.end(slot)
	_, hung = w.look(1000)
	require.False(t, hung, "a call that came back is not hung")
	for range slots {
		require.GreaterOrEqual(t, w.begin("many"), 0)
	}
	require.Equal(t, -1, w.begin("one too many"))
	w.end(-1)
}

func TestAFailureInTheBackgroundOfTheWALIsFinal(t *testing.T) {
	h := newHarness(t, time.Minute)
	meta := &walMeta{path: filepath.Join(fastDir(t), "absent", "meta.json"), guard: h.logs.guard}
	require.Error(t, meta.CommitState(types.PersistentState{}))
	require.Len(t, h.fatal, 1)
	require.Error(t, h.logs.StoreLog(entry(11, 1)))
}

func TestNothingIsFatalOnceTheStoreIsClosed(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		o := options(fastDir(t), kind)
		o.OnFatal = func(what string, err error) { t.Errorf("%s: %v", what, err) }
		o.Logger = slog.New(slog.DiscardHandler)
		s, err := Open(o)
		require.NoError(t, err)
		fill(t, s, 1, 9, 1)
		for range 2 {
			require.NoError(t, s.Close())
			require.ErrorContains(t, s.Logs.StoreLog(entry(10, 1)), "closed")
			require.ErrorContains(t, s.Logs.GetLog(1, &raft.Log{}), "closed")
			require.ErrorContains(t, s.Stable.Set([]byte("k"), nil), "closed")
		}
	})
}
