package raftnode

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// newOnlyMember is the one member of a cluster, and what it logs.
func newOnlyMember(t *testing.T) (*testMember, *lockedBuffer) {
	t.Helper()
	c, log := newTestCluster(t, nil), new(lockedBuffer)
	c.log = slog.New(slog.NewTextHandler(log, nil))
	n := c.add("c1", nil)
	c.waitReady(1)
	return n, log
}

// A leader's clock that is wrong is logged once, when it was found, and again only after it was right.
func TestAWrongClockIsLoggedOnce(t *testing.T) {
	t.Parallel()
	n, log := newOnlyMember(t)
	l := &leader{core: n.core}
	const right, wrong = time.Duration(0), time.Hour
	for i, probe := range []struct {
		offset time.Duration
		logged int
	}{{right, 0}, {wrong, 1}, {wrong, 1}, {right, 1}, {right, 1}, {wrong, 2}} {
		l.checkClock(map[raft.ServerID]memberStatus{"c2": {clockOffset: probe.offset}, "c3": {clockOffset: probe.offset}})
		require.Equal(t, probe.logged, strings.Count(log.String(), "clock differs too much"), "probe %d", i)
		require.Equal(t, probe.offset == wrong, l.clock.skewed.Load(), "probe %d", i)
	}
	require.Contains(t, log.String(), "by=1h0m0s")
}

// A promotion that fails is logged, unless the leader's term is over.
func TestAFailedPromotionIsLogged(t *testing.T) {
	t.Parallel()
	n, log := newOnlyMember(t)
	self, ok := n.serverOf(n.id)
	require.True(t, ok)
	n.crash(t)
	n.membership.promoteToVoter(doneContext(), self)
	require.Contains(t, log.String(), "promoting a member to voter")
	require.NotContains(t, log.String(), "cannot promote")
	n.membership.promoteToVoter(context.Background(), self)
	require.Contains(t, log.String(), "cannot promote a member to voter")
}

// A leader whose state diverged transfers leadership before it exits.
func TestADivergedLeaderResignsBeforeItExits(t *testing.T) {
	t.Parallel()
	n, log := newOnlyMember(t)
	n.checkpoints.quarantine(1, []byte{1}, []byte{2})
	require.EqualValues(t, ExitRestart, n.exitCode.Load())
	_, resigned, found := strings.Cut(log.String(), "transferring leadership")
	require.True(t, found)
	require.Contains(t, resigned, "its state diverged")
	require.Contains(t, resigned, "msg=exiting")
}

// Checkpoints are spaced, also where entries come faster than they are compared.
func TestCheckpointsAreSpaced(t *testing.T) {
	t.Parallel()
	n, _ := newOnlyMember(t)
	began := time.Now()
	n.checkpoints.checkpoint(testContext(t))
	require.GreaterOrEqual(t, time.Since(began), checkpointPause)
}
