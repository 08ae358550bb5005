package scenarios

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// demoteRows are those of DemoteVolume, with what of ResyncVolume needs no failover.
var demoteRows = []replicationRow{
	{"ADD-REPL-Demote-01", idRow(replicate.Demote)},
	{"ADD-REPL-Resync-01", idRow(replicate.Resync)},
	{"ADD-REPL-Demote-10", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		x.a.use(t, v, "n1")
		for _, force := range []bool{false, true} { // what is in use is not demoted, and nothing is given up for it
			x.a.refused(t, codes.FailedPrecondition, replicate.Demote, replicate.Request{Volume: v.id, Force: force})
			require.NotNil(t, x.a.info(t, replicate.Request{Volume: v.id}))
		}
		x.a.endUse(t, v, "n1")
		x.a.ok(t, replicate.Demote, replicate.Request{Volume: v.id})
		x.a.refused(t, codes.FailedPrecondition, replicate.Info, replicate.Request{Volume: v.id})
	}},
	{"ADD-REPL-Demote-12", func(x *rowLab, t *testing.T) {
		of := replicate.Request{Volume: x.pair(t).id}
		for range 3 {
			x.b.ok(t, replicate.Demote, of) // it is secondary
		}
		require.NotNil(t, x.a.info(t, of), "the primary is what it was")
		for range 3 {
			x.a.ok(t, replicate.Demote, of)
		}
		x.b.ok(t, replicate.Promote, of)
		x.a.ok(t, replicate.Demote, of)
		require.NotNil(t, x.b.info(t, of))
	}},
	{"ADD-REPL-Demote-13", func(x *rowLab, t *testing.T) { x.relocate(t, func(*volume, uint64) {}) }},
	{"ADD-REPL-Demote-14", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		x.a.use(t, v, "n1")
		w := x.write(t, v, "n1", 1)
		for range 3 {
			err := x.a.once(t, func(ctx context.Context) error {
				_, err := x.a.call(ctx, replicate.Demote, replicate.Request{Volume: v.id})
				return err
			})
			requireStatus(t, err, codes.FailedPrecondition, "demote with an open writer")
			require.Contains(t, status.Convert(err).Message(), v.id)
			require.Contains(t, status.Convert(err).Message(), "n1")
			w.awaitBlocks(t, 20)
		}
		last := w.stop(t)
		require.Empty(t, last.Error)
		x.requireAcknowledged(t, v, "n1", last.Number)
		x.a.endUse(t, v, "n1")
	}},
	{"ADD-REPL-Resync-12", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		for _, force := range []bool{false, true} {
			x.a.refused(t, codes.FailedPrecondition, replicate.Resync, replicate.Request{Volume: v.id, Force: force})
		}
		require.NotNil(t, x.a.info(t, replicate.Request{Volume: v.id}))
	}},
}

// relocate has the volume used at A, demoted there and used at B. Between, nobody can write to it; what was acknowledged at A
// is at B.
func (x *rowLab) relocate(t *testing.T, then func(v *volume, acked uint64)) {
	t.Helper()
	v := x.pair(t)
	of := replicate.Request{Volume: v.id}
	x.a.use(t, v, "n1")
	w := x.write(t, v, "n1", 1)
	w.awaitBlocks(t, 50)
	last := w.stop(t)
	require.Empty(t, last.Error)
	x.a.endUse(t, v, "n1")
	x.a.ok(t, replicate.Demote, of)

	requireStatus(t, x.a.publication(t, v, "n1"), codes.FailedPrecondition, "publish a demoted volume")
	minor := x.minor(t, v, "n1")
	require.NotEmpty(t, minor)
	refused := fmt.Sprintf("dd if=/dev/zero of=/dev/drbd%s bs=4096 count=1 oflag=direct 2>&1 && echo it was written; true", minor)
	require.NotContains(t, x.mustExec(t, "n1", refused), "it was written")
	d, err := x.kernel(t.Context(), v, "n1")
	require.NoError(t, err)
	require.Equal(t, "Secondary", d.role)

	x.b.ok(t, replicate.Promote, of)
	copied := x.copied(t, v, "B")
	x.b.use(t, copied, "n2")
	x.requireAcknowledged(t, copied, "n2", last.Number)
	then(copied, last.Number)
	x.b.endUse(t, copied, "n2")
}

// promoteRows are those of PromoteVolume that need no failover.
var promoteRows = []replicationRow{
	{"ADD-REPL-Promote-01", idRow(replicate.Promote)},
	{"ADD-REPL-Promote-12", func(x *rowLab, t *testing.T) {
		of := replicate.Request{Volume: x.pair(t).id}
		for _, force := range []bool{false, true, false} {
			of.Force = force
			x.a.ok(t, replicate.Promote, of)
		}
		v, err := x.logState(t.Context(), x.shared)
		require.NoError(t, err)
		x.a.ok(t, replicate.Promote, of)
		again, err := x.logState(t.Context(), x.shared)
		require.NoError(t, err)
		require.Equal(t, v.Replication.Generation, again.Replication.Generation, "it is no new promotion")
	}},
	{"ADD-REPL-Promote-14", (*rowLab).neverTwoPrimaries},
	{"ADD-REPL-Promote-15", func(x *rowLab, t *testing.T) {
		x.relocate(t, func(v *volume, acked uint64) {
			w := x.write(t, v, "n2", acked+1)
			w.awaitBlocks(t, 20)
			last := w.stop(t)
			require.Empty(t, last.Error)
			x.requireAcknowledged(t, v, "n2", last.Number)
		})
	}},
	{"ADD-REPL-Promote-16", (*rowLab).transientIsNoForce},
}

// neverTwoPrimaries: a site is not promoted beside a primary that can be asked, and of two that are promoted at once one
// is.
func (x *rowLab) neverTwoPrimaries(t *testing.T) {
	v := x.pair(t)
	of := replicate.Request{Volume: v.id}
	x.a.use(t, v, "n1")
	for _, force := range []bool{false, true} {
		x.b.refused(t, codes.Aborted, replicate.Promote, replicate.Request{Volume: v.id, Force: force})
		require.NotNil(t, x.a.info(t, of))
	}
	x.a.endUse(t, v, "n1")
	for range 3 {
		x.a.ok(t, replicate.Demote, of)
		x.b.ok(t, replicate.Demote, of)
		won := x.promoteBoth(t, of)
		require.Len(t, won, 1, "sites that were promoted at once")
		for _, s := range []*rowSite{x.a, x.b} {
			require.Equal(t, s == won[0], s.isPrimary(t.Context(), v), "site %s", s.name)
		}
		requireStatus(t, won[0].other(x).publication(t, v, won[0].other(x).node()), codes.FailedPrecondition, "publish at the secondary")
		won[0].ok(t, replicate.Demote, of)
	}
	x.a.ok(t, replicate.Promote, of)
}

func (s *rowSite) other(x *rowLab) *rowSite {
	if s == x.a {
		return x.b
	}
	return x.a
}

func (s *rowSite) node() string { return map[string]string{"A": "n1", "B": "n2"}[s.name] }

// promoteBoth promotes both sites at once; it answers those that were.
func (x *rowLab) promoteBoth(t *testing.T, of replicate.Request) (won []*rowSite) {
	t.Helper()
	var mu sync.Mutex
	var both sync.WaitGroup
	for _, s := range []*rowSite{x.a, x.b} {
		both.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			defer cancel()
			_, err := replicate.Call(ctx, s.conn, replicate.Promote, of)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, s)
			} else if code := codeOf(err); code != codes.Aborted && code != codes.Unavailable && code != codes.DeadlineExceeded {
				t.Errorf("promote at site %s: %v", s.name, err)
			}
		})
	}
	both.Wait()
	for _, s := range []*rowSite{x.a, x.b} { // one that got no answer in time may be promoted as well
		if len(won) == 0 && s.isPrimary(t.Context(), x.shared) {
			won = append(won, s)
		}
	}
	return won
}

// transientIsNoForce: what passes by itself is never answered with the code that a client answers with force.
func (x *rowLab) transientIsNoForce(t *testing.T) {
	v := x.pair(t)
	of := replicate.Request{Volume: v.id}
	requirePassing := func(what string) {
		t.Helper()
		for range 3 {
			err := x.b.held(t.Context(), replicate.Promote, of)
			require.Contains(t, []codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}, codeOf(err), "%s: %v", what, err)
		}
	}
	requirePassing("the other site is primary")
	x.a.ok(t, replicate.Demote, of)
	require.NoError(t, x.cluster.KillNode(t.Context(), 2))
	x.awaitState(t, "n2", "unreachable")
	requirePassing("the site's own host is away")
	require.NoError(t, x.cluster.StartNode(t.Context(), 2))
	x.awaitState(t, "n2", "reachable")
	for _, i := range []int{1, 3} {
		require.NoError(t, x.cluster.KillController(t.Context(), i))
	}
	requirePassing("there is no majority")
	require.NoError(t, x.restore(t.Context()))
	for method, err := range x.pendingCalls(t) {
		require.NotEqual(t, codes.FailedPrecondition, codeOf(err), "%s while the role moves: %v", method, err)
	}
	require.Equal(t, codes.Aborted, codeOf(x.forcedFailover(t).behind), "the other site can be asked, and has what is missing here")
}
