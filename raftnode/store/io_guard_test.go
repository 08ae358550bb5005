package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"
	"github.com/stretchr/testify/require"
)

// faultyStore is a log store that fails, panics or hangs on cue.
type faultyStore struct {
	*raft.InmemStore
	mu     sync.Mutex
	faults map[string]func() error
}

func (f *faultyStore) call(op string) error {
	f.mu.Lock()
	fn := f.faults[op]
	f.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn()
}

func (f *faultyStore) setFault(op string, fn func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[op] = fn
}

func (f *faultyStore) GetLog(i uint64, l *raft.Log) error {
	return errors.Join(f.call("GetLog"), f.InmemStore.GetLog(i, l))
}
func (f *faultyStore) StoreLogs(l []*raft.Log) error {
	return errors.Join(f.call("StoreLogs"), f.InmemStore.StoreLogs(l))
}
func (f *faultyStore) DeleteRange(a, b uint64) error {
	return errors.Join(f.call("DeleteRange"), f.InmemStore.DeleteRange(a, b))
}
func (f *faultyStore) Set(k, v []byte) error {
	return errors.Join(f.call("Set"), f.InmemStore.Set(k, v))
}

// guardedStores is the wrappers of this package around a faulty store.
type guardedStores struct {
	store *faultyStore
	logs  *cachedLogs
	votes *voteStore
	fatal chan string
	hung  chan string
	syncs chan time.Duration
}

func newGuardedStores(t *testing.T, hang time.Duration) *guardedStores {
	t.Helper()
	h := &guardedStores{
		store: &faultyStore{InmemStore: raft.NewInmemStore(), faults: map[string]func() error{}},
		fatal: make(chan string, 100), hung: make(chan string, 100), syncs: make(chan time.Duration, 100),
	}
	o, err := Options{Dir: "-", Hang: hang,
		OnFatal: func(operation string, _ error) { h.fatal <- operation },
		OnHang:  func(operation string) { h.hung <- operation },
		OnSync:  func(d time.Duration) { h.syncs <- d },
	}.withDefaults()
	require.NoError(t, err)
	g := newIOGuard(o)
	g.armed.Store(true)
	t.Cleanup(func() { g.close() })
	dir := fastDir(t)
	require.NoError(t, createHighWaterMark(dataDir{root: dir}, "m"))
	m, _, valid, err := openHighWaterMark(dataDir{root: dir}, "m")
	require.NoError(t, err)
	require.True(t, valid)
	l, err := newLogs(h.store, g, m, "m")
	require.NoError(t, err)
	h.logs, err = newCachedLogs(4, l)
	require.NoError(t, err)
	h.votes = &voteStore{db: h.store, guard: g, dir: dataDir{root: dir}, member: "m", values: map[string][]byte{}}
	for i := uint64(1); i <= 10; i++ {
		require.NoError(t, h.logs.StoreLog(entry(i, 1)))
	}
	require.Len(t, h.syncs, 10)
	return h
}

// S133: what an fsync says after one that failed is worth nothing.
func TestTheFirstFailureIsFinal(t *testing.T) {
	var got raft.Log
	calls := map[string]func(h *guardedStores) error{
		"StoreLogs":   func(h *guardedStores) error { return h.logs.StoreLogs([]*raft.Log{entry(11, 1)}) },
		"GetLog":      func(h *guardedStores) error { return h.logs.GetLog(1, &got) },
		"DeleteRange": func(h *guardedStores) error { return h.logs.DeleteRange(1, 2) },
		"Set":         func(h *guardedStores) error { return h.votes.SetUint64([]byte(keyTerm), 8) },
	}
	causes := map[string]func() error{
		"an I/O error": func() error { return syscall.EIO },
		"a full disk":  func() error { return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC} },
		"a panic":      func() error { panic("page 7 is what?") },
	}
	for name, call := range calls {
		for cause, fail := range causes {
			t.Run(name+" after "+cause, func(t *testing.T) {
				h := newGuardedStores(t, time.Minute)
				h.store.setFault(name, fail)
				require.Error(t, call(h))
				require.Len(t, h.fatal, 1)
				h.store.setFault(name, nil) // the disk recovers, the store does not
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

func TestAMissingEntryIsNoFailure(t *testing.T) {
	h := newGuardedStores(t, time.Minute)
	for range 2 {
		require.Equal(t, raft.ErrLogNotFound, h.logs.GetLog(99, &raft.Log{}))
		_, err := h.votes.Get([]byte("nothing"))
		require.EqualError(t, err, "not found")
	}
	require.Empty(t, h.fatal)
	require.NoError(t, h.logs.StoreLog(entry(11, 1)))
}

// S133: a write that ends after another failed is not acknowledged.
func TestAPendingCallDoesNotSucceedAfterAFailure(t *testing.T) {
	h := newGuardedStores(t, time.Minute)
	entered, leave := make(chan struct{}), make(chan struct{})
	h.store.setFault("StoreLogs", func() error { close(entered); <-leave; return nil })
	late := make(chan error, 1)
	go func() { late <- h.logs.StoreLog(entry(11, 1)) }()
	<-entered
	h.store.setFault("GetLog", func() error { return syscall.EIO })
	require.Error(t, h.logs.GetLog(1, &raft.Log{}))
	close(leave)
	require.ErrorContains(t, <-late, syscall.EIO.Error())
}

func TestADamagedEntryIsFinalAndNamesTheRemedy(t *testing.T) {
	h := newGuardedStores(t, time.Minute)
	l := *entry(3, 1)
	sealed := newEntryChecksums("m").add(&l)
	sealed.Data[0] ^= 1
	require.NoError(t, h.store.InmemStore.StoreLogs([]*raft.Log{sealed}))
	err := h.logs.GetLog(3, &raft.Log{})
	require.ErrorIs(t, err, errEntryChecksum)
	require.ErrorContains(t, err, "entry 3")
	require.ErrorContains(t, err, remedyRejoin)
	require.Len(t, h.fatal, 1)
}

// S27, S132: heartbeats do not touch the disk, so the store tells by itself.
func TestS27_AHungCallIsReported(t *testing.T) {
	for call, run := range map[string]func(h *guardedStores) error{
		"StoreLogs": func(h *guardedStores) error { return h.logs.StoreLog(entry(11, 1)) },
		"GetLog":    func(h *guardedStores) error { return h.logs.GetLog(1, &raft.Log{}) },
		"Set":       func(h *guardedStores) error { return h.votes.SetUint64([]byte(keyTerm), 8) },
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newGuardedStores(t, time.Minute)
				leave, ended := make(chan struct{}), make(chan struct{})
				h.store.setFault(call, func() error { <-leave; return nil })
				began := time.Now()
				go func() { defer close(ended); _ = run(h) }()
				require.NotEmpty(t, <-h.hung)
				require.Greater(t, time.Since(began), time.Minute)
				time.Sleep(time.Hour)
				close(leave)
				<-ended
				require.Empty(t, h.hung, "told once")
			})
		})
	}
}

func TestS27_TheWatchdogCountsItsOwnTicks(t *testing.T) {
	w := &watchdog{limit: ticksPerHang}
	w.ticks.Store(1)
	slot := w.begin("append")
	_, hung := w.findHung(1 + ticksPerHang)
	require.False(t, hung, "a call of just the limit is not hung")
	what, hung := w.findHung(2 + ticksPerHang)
	require.True(t, hung)
	require.Equal(t, "append", what)
	w.end(slot)
	_, hung = w.findHung(1000)
	require.False(t, hung, "a call that came back is not hung")
	for range maxWatchedCalls {
		require.GreaterOrEqual(t, w.begin("many"), 0)
	}
	require.Equal(t, -1, w.begin("one too many"))
	w.end(-1)
}

func TestAFailureInTheBackgroundOfTheWALIsFinal(t *testing.T) {
	h := newGuardedStores(t, time.Minute)
	meta := &walMeta{dir: dataDir{root: filepath.Join(fastDir(t), "absent")}, guard: h.logs.guard}
	require.Error(t, meta.CommitState(types.PersistentState{}))
	require.Len(t, h.fatal, 1)
	require.Error(t, h.logs.StoreLog(entry(11, 1)))
}

func TestNothingIsFatalOnceTheStoreIsClosed(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		o := options(fastDir(t), kind)
		o.OnFatal = func(what string, err error) { t.Errorf("%s: %v", what, err) }
		o.Logger = slog.New(slog.DiscardHandler)
		s, err := Open(o)
		require.NoError(t, err)
		appendEntries(t, s, 1, 9, 1)
		for range 2 {
			require.NoError(t, s.Close())
			require.ErrorContains(t, s.Logs.StoreLog(entry(10, 1)), "closed")
			require.ErrorContains(t, s.Logs.GetLog(1, &raft.Log{}), "closed")
			require.ErrorContains(t, s.Stable.Set([]byte("k"), nil), "closed")
		}
	})
}
