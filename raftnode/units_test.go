package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

func TestMedianOfClocks(t *testing.T) {
	for name, tc := range map[string]struct {
		others []time.Duration
		want   time.Duration
		enough bool
	}{
		"nobody to compare with":                {nil, 0, false},
		"two clocks do not tell which is right": {[]time.Duration{time.Hour}, 0, false},
		"two against one":                       {[]time.Duration{-9 * time.Second, -10 * time.Second}, -9 * time.Second, true},
		"one of three is off":                   {[]time.Duration{time.Hour, 10}, 10, true},
		"an even number":                        {[]time.Duration{4, 8, 12}, 6, true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got, enough := median(tc.others)
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.enough, enough)
			}
		})
	}
}

func TestS23_MajorityHash(t *testing.T) {
	a, b, c := [32]byte{1}, [32]byte{2}, [32]byte{3}
	servers := []raft.Server{{ID: "1"}, {ID: "2"}, {ID: "3"}, {ID: "n", Suffrage: raft.Nonvoter}}
	for name, tc := range map[string]struct {
		hashes map[raft.ServerID][32]byte
		want   verdict
		agreed [32]byte
	}{
		"all agree":                          {map[raft.ServerID][32]byte{"1": a, "2": a, "3": a}, hashAgreed, a},
		"two agree against the leader":       {map[raft.ServerID][32]byte{"1": a, "2": b, "3": b}, hashAgreed, b},
		"two agree and one is silent":        {map[raft.ServerID][32]byte{"1": a, "3": a}, hashAgreed, a},
		"one speaks":                         {map[raft.ServerID][32]byte{"1": a}, hashUnknown, [32]byte{}},
		"two differ and one is silent":       {map[raft.ServerID][32]byte{"1": a, "2": b}, hashDisputed, [32]byte{}},
		"all differ":                         {map[raft.ServerID][32]byte{"1": a, "2": b, "3": c}, hashDisputed, [32]byte{}},
		"a member without a vote is ignored": {map[raft.ServerID][32]byte{"1": a, "n": a}, hashUnknown, [32]byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				agreed, got := majorityHash(tc.hashes, servers)
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.agreed, agreed)
			}
		})
	}
}

func TestTheHashRing(t *testing.T) {
	r := newHashRing(8)
	_, known := r.at(1)
	require.False(t, known, "nothing is known at first")
	for _, i := range []uint64{2, 3, 6} {
		r.put(i, [32]byte{byte(i)})
	}
	for at, want := range map[uint64]byte{2: 2, 3: 3, 4: 3, 5: 3, 6: 6, 7: 6} {
		hash, known := r.at(at)
		require.True(t, known, "index %d", at)
		require.Equal(t, [32]byte{want}, hash, "index %d", at)
	}
	r.put(11, [32]byte{11})
	_, known = r.at(3)
	require.False(t, known, "it was overwritten")
	_, known = r.at(2)
	require.False(t, known, "it is too old")
	r.reset(20, [32]byte{20})
	_, known = r.at(11)
	require.False(t, known, "a restore forgets what was before")
	hash, known := r.at(25)
	require.True(t, known)
	require.Equal(t, [32]byte{20}, hash)
}

func TestIndexWaiters(t *testing.T) {
	var w indexWaiters
	require.NoError(t, w.wait(t.Context(), 0))
	done := make(chan uint64, 64)
	for i := range uint64(64) {
		go func() {
			if err := w.wait(t.Context(), 64-i); err == nil {
				done <- 64 - i
			}
		}()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() { left <- w.wait(ctx, 1000) }()
	eventually(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.queue) != 65 {
			return fmt.Errorf("%d wait", len(w.queue))
		}
		return nil
	})
	why := errors.New("tired")
	cancel(why)
	require.ErrorIs(t, <-left, why)
	w.advance(10)
	for range 10 {
		require.LessOrEqual(t, <-done, uint64(10))
	}
	require.Empty(t, done)
	w.advance(5)
	require.EqualValues(t, 10, w.reached.Load(), "it never goes back")
	w.advance(64)
	for range 54 {
		<-done
	}
	require.Empty(t, w.queue)
}

func TestWatches(t *testing.T) {
	h := newWatchHub()
	v, n, all := h.watch(Interest{Volumes: []fsm.VolumeID{"v1"}}), h.watch(Interest{Node: "n1"}), h.watch(Interest{All: true})
	h.publish([]fsm.Change{{Volume: "v1", Node: "n2"}, {Volume: "v2", Node: "n1"}, {Node: "n3"}})
	for _, tc := range []struct {
		w    *Watch
		want []fsm.VolumeID
	}{{v, []fsm.VolumeID{"v1"}}, {n, []fsm.VolumeID{"v2"}}, {all, []fsm.VolumeID{"", "v1", "v2"}}} {
		require.Len(t, tc.w.C, 1)
		got, everything := tc.w.TakeVolumes()
		require.Equal(t, tc.want, got)
		require.False(t, everything)
		got, everything = tc.w.TakeVolumes()
		require.Empty(t, got)
		require.False(t, everything)
	}
	h.publishAll()
	for _, w := range []*Watch{v, n, all} {
		got, everything := w.TakeVolumes()
		require.Empty(t, got)
		require.True(t, everything, "after a restore")
	}
	for i := range maxListedChanges + 1 {
		h.publish([]fsm.Change{{Volume: fsm.VolumeID(fmt.Sprint(i))}})
	}
	got, everything := all.TakeVolumes()
	require.Empty(t, got)
	require.True(t, everything, "what cannot be listed is everything")
	for _, w := range []*Watch{v, n, all} {
		w.Close()
		w.Close()
	}
	require.Empty(t, h.all)
	require.Empty(t, h.byNode)
	require.Empty(t, h.byVolume)
}

func TestWatchesOfSnapshotsAndGroups(t *testing.T) {
	h := newWatchHub()
	snapshot, group := h.watch(Interest{Snapshot: "s1"}), h.watch(Interest{Group: "g1"})
	node, volume, all := h.watch(Interest{Node: "n1"}), h.watch(Interest{Volumes: []fsm.VolumeID{"v1"}}), h.watch(Interest{All: true})
	s1, s2, s3 := fsm.Change{Snapshot: "s1"}, fsm.Change{Snapshot: "s2", Group: "g1"}, fsm.Change{Snapshot: "s3"}
	g1, v1 := fsm.Change{Group: "g1"}, fsm.Change{Volume: "v1"}
	for range 2 {
		h.publish([]fsm.Change{
			{Snapshot: "s1", Node: "n1"}, {Snapshot: "s2", Group: "g1", Node: "n2"}, {Snapshot: "s3", Node: "n1"},
			{Group: "g1"}, {Volume: "v1", Node: "n1"}, {Snapshot: "s1", Node: "n3"},
		})
		for _, tc := range []struct {
			w    *Watch
			want []fsm.Change
		}{{snapshot, []fsm.Change{s1}}, {group, []fsm.Change{g1, s2}}, {node, []fsm.Change{s1, s3, v1}}, {volume, []fsm.Change{v1}}, {all, []fsm.Change{g1, s1, s2, s3, v1}}} {
			got, everything := tc.w.TakeChanges()
			require.Equal(t, tc.want, got)
			require.False(t, everything)
		}
	}
	h.publish([]fsm.Change{{Snapshot: "s1", Node: "n1"}, {Node: "n1"}})
	volumes, _ := node.TakeVolumes()
	require.Equal(t, []fsm.VolumeID{""}, volumes, "a snapshot is not the node's own record")
	h.publishAll()
	for _, w := range []*Watch{snapshot, group} {
		got, everything := w.TakeChanges()
		require.Empty(t, got)
		require.True(t, everything, "after a restore")
		w.Close()
	}
	require.Empty(t, h.bySnapshot)
	require.Empty(t, h.byGroup)
}

// S131: a Raft snapshot that brings nothing new is installed repeatedly.
func TestARestoreLoopIsDetected(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		indexes []uint64
		apart   time.Duration
		want    bool
	}{
		"each brings something new":      {[]uint64{5, 6, 7, 8}, time.Second, false},
		"twice the same":                 {[]uint64{5, 5}, time.Second, false},
		"three times the same":           {[]uint64{5, 5, 5}, time.Second, true},
		"three that do not advance":      {[]uint64{5, 4, 5}, time.Second, true},
		"the same, but hours apart":      {[]uint64{5, 5, 5, 5}, time.Hour, false},
		"going on after the second time": {[]uint64{5, 5, 6, 6}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			var l restoreLoop
			got := false
			for i, index := range tc.indexes {
				got = l.detect(index, now.Add(time.Duration(i)*tc.apart))
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// newTestMachine returns a machine without a member.
func newTestMachine(t *testing.T, fault *atomic.Pointer[string]) *machine {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return newMachine(j, machineEvents{
		revoked: func(*fsm.State) {},
		changed: func([]fsm.Change) {}, allChanged: func() {}, committed: func(uint64, uint64) {},
		clusterNamed: func(string) error { return nil }, diverged: func(uint64, []byte, []byte) {},
		failed: func(what string) { fault.Store(&what) }, entryFailed: func(*raft.Log, any) {},
		batchApplied: func(int, time.Duration) {}, dumpDone: func(string) {},
	})
}

func newLog(t *testing.T, index uint64, cmd *fsmpb.Command) *raft.Log {
	t.Helper()
	data, err := marshal(cmd)
	require.NoError(t, err)
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
}

type readerCloser struct {
	io.Reader
	io.Closer
}

// dumpAt returns the machine's dump as Raft opens it.
func dumpAt(t *testing.T, m *machine, index uint64) io.ReadCloser {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, m.fork().WriteDump(&b, 1))
	return &dumpReader{ReadCloser: readerCloser{&b, io.NopCloser(nil)}, index: index}
}

func TestS24_AnOlderSnapshotDoesNotTakeTheStateBack(t *testing.T) {
	var fault atomic.Pointer[string]
	m := newTestMachine(t, &fault)
	m.markStarted()
	m.Apply(newLog(t, 3, registerNode("a")))
	old := dumpAt(t, m, 4)
	b := newLog(t, 6, registerNode("b"))
	m.Apply(b)
	before := m.fork().Hash()
	require.NoError(t, m.Restore(old))
	require.EqualValues(t, 6, m.index.Load())
	require.EqualValues(t, 6, m.applied.reached.Load())
	require.Nil(t, m.Apply(b), "what was applied is passed over")
	require.Equal(t, before, m.fork().Hash())
	m.Apply(newLog(t, 7, registerNode("c")))
	require.EqualValues(t, 7, m.index.Load())
	require.Nil(t, fault.Load())
}

func TestS24_ApplyGoesOnAboveARestoredState(t *testing.T) {
	var fault atomic.Pointer[string]
	from, to := newTestMachine(t, &fault), newTestMachine(t, &fault)
	from.Apply(newLog(t, 3, registerNode("a")))
	to.markStarted()
	require.NoError(t, to.Restore(dumpAt(t, from, 9)))
	require.EqualValues(t, 3, to.index.Load(), "the state's index")
	require.EqualValues(t, 9, to.applied.reached.Load(), "Raft's")
	require.NotNil(t, to.Apply(newLog(t, 10, registerNode("b"))))
	require.EqualValues(t, 10, to.index.Load())
	require.Nil(t, fault.Load())
}

// S136: the state is replaced only by one that was decoded and verified completely.
func TestARestoreThatFailsKeepsTheStateAndStops(t *testing.T) {
	var fault atomic.Pointer[string]
	m := newTestMachine(t, &fault)
	m.Apply(newLog(t, 3, registerNode("a")))
	before := m.fork().Hash()
	broken := func() io.ReadCloser { return readerCloser{bytes.NewReader([]byte("no snapshot")), io.NopCloser(nil)} }
	require.Error(t, m.Restore(broken()), "while starting, raft tries an older one")
	m.markStarted()
	done := make(chan struct{})
	go func() { // raft's goroutine, which ends
		defer close(done)
		_ = m.Restore(broken())
		require.Fail(t, "it must not return")
	}()
	<-done
	require.Contains(t, *fault.Load(), "restore")
	require.Equal(t, before, m.fork().Hash())
	_, err := m.Snapshot()
	require.Error(t, err)
}

// S147: Raft's logs appear at INFO and above, and never contain an entry's content.
func TestRaftsLogMessagesHoldNoEntry(t *testing.T) {
	var b bytes.Buffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.Debug("unseen")
	l.Trace("unseen")
	l.With("peer", "p").Named("x").Info("seen", "what", hclog.Fmt("%d apples", 3), "command", "secret")
	l.Log(hclog.Warn, "warned")
	l.Log(hclog.Error, "failed", "error", errors.New("why"))
	l.Log(hclog.Debug, "unseen")
	require.NotContains(t, b.String(), "unseen")
	require.NotContains(t, b.String(), "secret")
	for _, want := range []string{"3 apples", "peer=p", "level=WARN", "error=why", "part=raft"} {
		require.Contains(t, b.String(), want)
	}
	require.Equal(t, hclog.Info, l.GetLevel())
}

// S134: with a full disk an append is refused before anything is written, without an error of the store.
func TestTheGuardedLogKeepsIsMonotonic(t *testing.T) {
	plain := guardedLogs{LogStore: raft.NewInmemStore(), checkAppend: func() error { return nil }}
	require.False(t, plain.IsMonotonic())
	require.NoError(t, plain.StoreLog(&raft.Log{Index: 1}))
	cache, err := raft.NewLogCache(4, monotonic{raft.NewInmemStore()})
	require.NoError(t, err)
	full := guardedLogs{LogStore: cache, checkAppend: func() error { return ErrDiskFull }}
	require.True(t, full.IsMonotonic())
	for range 2 {
		require.ErrorIs(t, full.StoreLog(&raft.Log{Index: 1}), ErrDiskFull)
	}
	last, err := full.LastIndex()
	require.NoError(t, err)
	require.Zero(t, last, "nothing was written")
}

type monotonic struct{ *raft.InmemStore }

func (monotonic) IsMonotonic() bool { return true }

// S138: errors after which the command was certainly not applied differ from those after which it may have been.
func TestRetriableErrors(t *testing.T) {
	for err, want := range map[error]bool{
		ErrNotLeader: true, ErrOutcomeUnknown: true, ErrShutdown: true, ErrDiskFull: true, ErrDiverged: true,
		fsm.Reject(fsm.Busy, "no"): false, io.EOF: false,
	} {
		require.Equal(t, want, IsUnavailable(fmt.Errorf("do it: %w", err)), "%v", err)
		require.Equal(t, want, IsUnavailable(err), "%v", err)
	}
	for from, want := range map[error]error{
		raft.ErrNotLeader: ErrNotLeader, raft.ErrEnqueueTimeout: ErrNotLeader,
		raft.ErrLeadershipTransferInProgress: ErrNotLeader, raft.ErrAbortedByRestore: ErrNotLeader,
		raft.ErrLeadershipLost: ErrOutcomeUnknown, raft.ErrRaftShutdown: ErrOutcomeUnknown,
		ErrDiskFull: ErrDiskFull, io.ErrUnexpectedEOF: ErrOutcomeUnknown,
	} {
		require.ErrorIs(t, classifyError(from), want, "%v", from)
		require.Equal(t, want, errorOfFailure(failureResponse(classifyError(from))), "over the wire: %v", from)
	}
}
