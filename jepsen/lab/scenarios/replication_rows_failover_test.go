package scenarios

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// pendingRows are those of calls while an operation on the source is pending.
var pendingRows = []replicationRow{
	{"ADD-REPL-Promote-06", whileTheRoleMoves(replicate.Promote)},
	{"ADD-REPL-Demote-06", whileTheRoleMoves(replicate.Demote)},
	{"ADD-REPL-Resync-06", whileTheRoleMoves(replicate.Resync)},
	{"ADD-REPL-Disable-06", whileTheRoleMoves(replicate.Disable)},
	{"ADD-REPL-Info-05", whileTheRoleMoves(replicate.Info)},
}

func whileTheRoleMoves(method string) func(x *rowLab, t *testing.T) {
	return func(x *rowLab, t *testing.T) {
		requireStatus(t, x.pendingCalls(t)[method], codes.Aborted, method+" while the role moves")
	}
}

// pendingCalls are what each method was answered at B while the role was on its way there, by method; the promotion is that of
// a second caller. A's host is cut off from the controllers, and the process of B's host stands still, so that it does
// not cut A's writes off.
func (x *rowLab) pendingCalls(t *testing.T) map[string]error {
	t.Helper()
	return *x.pending.tell(t, func(t *testing.T) *map[string]error {
		v := x.pair(t)
		x.a.ok(t, replicate.Promote, replicate.Request{Volume: v.id}) // where the row demoted it
		x.a.use(t, v, "n1")
		x.awaitInSync(t, v)
		w := x.write(t, v, "n1", 1)
		require.NoError(t, x.lab.Isolate(t.Context(), lab.API, 1))
		x.awaitState(t, "n1", "unreachable")
		x.stopNode(t, 2, syscall.SIGSTOP)
		first := x.b.held(t.Context(), replicate.Promote, replicate.Request{Volume: v.id})
		errs := x.callAll(t, v)
		x.stopNode(t, 2, syscall.SIGCONT)
		requireStatus(t, first, codes.Aborted, "a promotion that is held")
		x.b.ok(t, replicate.Promote, replicate.Request{Volume: v.id})
		w.awaitFrozen(t)
		acked := w.readAcks().Number
		x.b.use(t, v, "n2")
		x.requireAcknowledged(t, v, "n2", acked)
		x.b.endUse(t, v, "n2")
		require.NoError(t, x.lab.ReconnectAll(t.Context()))
		x.awaitWriterError(t, w, acked)
		return &errs
	})
}

// stopNode sends a signal to the process of a node.
func (x *rowLab) stopNode(t *testing.T, guest int, signal syscall.Signal) {
	t.Helper()
	require.NoError(t, x.cluster.Node(guest).Signal(t.Context(), signal))
}

// callAll calls every method but the first at B at once, each once.
func (x *rowLab) callAll(t *testing.T, v *volume) map[string]error {
	t.Helper()
	errs := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, method := range []string{replicate.Promote, replicate.Demote, replicate.Resync, replicate.Disable, replicate.Info} {
		all.Go(func() {
			err := x.b.held(t.Context(), method, replicate.Request{Volume: v.id})
			mu.Lock()
			defer mu.Unlock()
			errs[method] = err
		})
	}
	all.Wait()
	return errs
}

// forcedRows are those of a site that is promoted although it lacks writes, and of the other one when it is back.
var forcedRows = []replicationRow{
	{"ADD-REPL-Promote-10", func(x *rowLab, t *testing.T) {
		requireStatus(t, x.forcedFailover(t).unforced, codes.FailedPrecondition, "a promotion that says nothing of force")
	}},
	{"ADD-REPL-Promote-11", func(x *rowLab, t *testing.T) {
		plain := x.a.createUnused(t)
		for _, force := range []bool{false, true} {
			x.a.refused(t, codes.FailedPrecondition, replicate.Promote, replicate.Request{Volume: plain.id, Force: force})
		}
		x.a.deleteVolume(t, plain)
		requireStatus(t, x.forcedFailover(t).unforced, codes.FailedPrecondition, "a promotion that needs force")
	}},
	{"ADD-REPL-Promote-13", func(x *rowLab, t *testing.T) {
		f := x.forcedFailover(t)
		require.Equal(t, codes.Aborted, codeOf(f.behindForced), "a primary that can be asked is not overruled: %v", f.behindForced)
		require.Greater(t, f.written, f.acked, "it was used at B")
	}},
	{"ADD-REPL-Resync-10", func(x *rowLab, t *testing.T) {
		for _, ready := range x.forcedFailover(t).unforcedReady {
			require.False(t, ready, "nothing is discarded without force")
		}
		require.Contains(t, x.forcedFailover(t).unforcedStatus, "waits for a forced resync")
	}},
	{"ADD-REPL-Resync-13", func(x *rowLab, t *testing.T) {
		f := x.forcedFailover(t)
		require.False(t, f.ready[0])
		require.True(t, f.ready[len(f.ready)-1])
	}},
	{"ADD-REPL-Resync-14", func(x *rowLab, t *testing.T) {
		f := x.forcedFailover(t)
		require.Greater(t, len(f.generations), 1)
		for _, g := range f.generations {
			require.Equal(t, f.generations[0], g, "a repetition begins nothing anew")
		}
		require.IsNonDecreasing(t, f.copied)
		require.Equal(t, 1, f.kept, "copies that were kept of what was discarded")
		require.Equal(t, []bool{true, true, true}, f.readyAgain)
	}},
	{"ADD-REPL-Resync-15", func(x *rowLab, t *testing.T) {
		f := x.forcedFailover(t)
		require.NotEqual(t, f.sums["B"], f.sums["A before"], "what both had differed")
		require.Equal(t, f.sums["B"], f.sums["A"])
	}},
}

// forcedFailover is what was seen of a failover in which B lacks what A wrote last.
type forcedFailover struct {
	size                             int64
	behind, behindForced             error // B promoted while A can be asked
	unforced                         error // B promoted without force when A cannot
	acked, written                   uint64
	unforcedReady, ready, readyAgain []bool // of A's resynchronisation
	unforcedStatus                   string // of the replication, when that was asked for without force
	generations                      []string
	copied                           []int64
	kept                             int
	sums                             map[string]string
	synced                           *replication.GetVolumeReplicationInfoResponse
}

func (x *rowLab) forcedFailover(t *testing.T) *forcedFailover {
	t.Helper()
	return x.forced.tell(t, func(t *testing.T) *forcedFailover {
		v := x.newPair(t, "forced", replicate.Request{})
		f := &forcedFailover{size: v.size, sums: map[string]string{}}
		x.loseA(t, v, f)
		x.useByForce(t, v, f)
		x.resyncA(t, v, f)
		x.compareBoth(t, v, f)
		return f
	})
}

// loseA has A write what B does not get, and then cuts A off.
func (x *rowLab) loseA(t *testing.T, v *volume, f *forcedFailover) {
	t.Helper()
	of := replicate.Request{Volume: v.id}
	x.a.use(t, v, "n1")
	x.awaitInSync(t, v)
	w := x.write(t, v, "n1", 1)
	w.awaitBlocks(t, 30)
	f.acked = w.stop(t).Number
	require.NoError(t, x.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
	w = x.write(t, v, "n1", f.acked+1)
	x.awaitKernel(t, v, "n1", timeout, "it goes on alone", isAlone)
	w.awaitBlocks(t, 50)
	w.stop(t)
	f.behind = x.b.held(t.Context(), replicate.Promote, of)
	f.behindForced = x.b.held(t.Context(), replicate.Promote, replicate.Request{Volume: v.id, Force: true})
	require.NoError(t, x.lab.Isolate(t.Context(), lab.API, 1))
	x.awaitState(t, "n1", "unreachable")
	for range 2 {
		f.unforced = x.b.once(t, func(ctx context.Context) error {
			_, err := x.b.call(ctx, replicate.Promote, of)
			return err
		})
		x.b.refused(t, codes.FailedPrecondition, replicate.Info, of)
	}
}

// useByForce promotes B and writes there: that A may still acknowledge writes is said, until A is back.
func (x *rowLab) useByForce(t *testing.T, v *volume, f *forcedFailover) {
	t.Helper()
	of := replicate.Request{Volume: v.id}
	x.b.ok(t, replicate.Promote, replicate.Request{Volume: v.id, Force: true})
	require.Equal(t, replication.GetVolumeReplicationInfoResponse_ERROR, x.b.info(t, of).GetStatus())
	copied := x.copied(t, v, "B")
	x.b.use(t, copied, "n2")
	x.requireAcknowledged(t, copied, "n2", f.acked)
	x.mustExec(t, "n2", fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M seek=16 count=8 oflag=direct 2>/dev/null", copied.target()))
	w := x.write(t, copied, "n2", f.acked+1)
	w.awaitBlocks(t, 30)
	last := w.stop(t)
	require.Empty(t, last.Error)
	f.written = last.Number
	require.NoError(t, x.lab.ReconnectAll(t.Context()))
	x.awaitState(t, "n1", "reachable")
	x.a.endUse(t, v, "n1")
	x.a.refused(t, codes.Aborted, replicate.Promote, replicate.Request{Volume: v.id, Force: true})
}

// resyncA has A take part again: its writes, which were given up, are discarded with force only.
func (x *rowLab) resyncA(t *testing.T, v *volume, f *forcedFailover) {
	t.Helper()
	of := replicate.Request{Volume: v.id}
	x.a.ok(t, replicate.Demote, of)
	for range 3 {
		f.unforcedReady = append(f.unforcedReady, x.a.ok(t, replicate.Resync, of).Ready)
	}
	f.unforcedStatus = x.b.info(t, of).GetStatusMessage()
	f.sums["A before"] = x.backingSum(t, v, "n1")
	x.limitResyncRate(t, v, "n2", "1M")
	of.Force = true
	eventually(t, resyncTimeout, "A is ready", func(ctx context.Context) error {
		answer, err := x.a.call(ctx, replicate.Resync, of)
		if err != nil {
			return err
		}
		f.ready = append(f.ready, answer.Ready)
		state, err := x.logState(ctx, v)
		if err != nil {
			return err
		}
		if answer.Ready {
			return nil
		}
		if d, err := x.kernel(ctx, v, "n1"); err == nil && d.connection == "SyncTarget" {
			f.generations = append(f.generations, state.Replication.Generation.String())
			f.copied = append(f.copied, -x.outOfSync(t, v, "n1"))
		}
		return fmt.Errorf("it is not: %+v", state)
	})
	for range 3 {
		f.readyAgain = append(f.readyAgain, x.a.ok(t, replicate.Resync, of).Ready)
	}
	f.synced = x.b.info(t, replicate.Request{Volume: v.id})
	f.kept = x.keptCopies(t, v, "n1")
}

// compareBoth moves the role back, and compares what both have below DRBD.
func (x *rowLab) compareBoth(t *testing.T, v *volume, f *forcedFailover) {
	t.Helper()
	of := replicate.Request{Volume: v.id}
	x.b.endUse(t, x.copied(t, v, "B"), "n2")
	x.b.ok(t, replicate.Demote, of)
	x.a.ok(t, replicate.Promote, of)
	f.sums["A"], f.sums["B"] = x.backingSum(t, v, "n1"), x.backingSum(t, v, "n2")
	x.a.use(t, v, "n1")
	x.requireAcknowledged(t, v, "n1", f.written)
	x.a.endUse(t, v, "n1")
}

// backingSum is the checksum of a volume's content below DRBD.
func (x *rowLab) backingSum(t *testing.T, v *volume, node string) string {
	t.Helper()
	return x.mustExec(t, node, fmt.Sprintf("sync; echo 3 >/proc/sys/vm/drop_caches; head -c %d /dev/mapper/%s | sha256sum", v.size, v.device()))
}
