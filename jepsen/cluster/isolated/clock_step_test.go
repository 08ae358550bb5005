package isolated

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestS27_ALeaderWhoseClockJumpsHandsLeadershipOver: far ahead or far behind, it is not the leader for long, and neither it nor the cluster
// stops serving.
func TestS27_ALeaderWhoseClockJumpsHandsLeadershipOver(t *testing.T) {
	c := startCluster(t, Options{})
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 400 * 24 * time.Hour} {
		old := c.leader(t)
		stepOrSkip(t, old, ahead)
		require.NotEqual(t, old.ID, c.leaderOfOthers(t, old))
		_, err := c.View().NewCO().Create(t.Context(), harness.Spec{Name: "ahead-" + ahead.String(), Size: harness.Mi})
		require.NoError(t, err)
		require.NoError(t, old.StepClock(0))
	}
	c.requireWell(t)
}

// TestJumpingClocksBreakNoLeaseAndNoTimeout: what is timed in a process is timed by the clock that does not jump. All clocks jump
// together, so that no leader is wrong, and hosts' too, while a volume stays in use.
func TestJumpingClocksBreakNoLeaseAndNoTimeout(t *testing.T) {
	c := startCluster(t, Options{})
	co := c.View().NewCO()
	v, err := co.Create(t.Context(), harness.Spec{Name: "used", Size: 4 * harness.Mi, Node: "n1"})
	require.NoError(t, err)
	require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
	for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour, 0} {
		for _, m := range c.Members() {
			stepOrSkip(t, m, ahead)
		}
		w, err := co.Create(t.Context(), harness.Spec{Name: "at-" + ahead.String(), Size: harness.Mi, Node: "n1"})
		require.NoError(t, err)
		require.NoError(t, co.PublishStageBind(t.Context(), w, "n1"))
		require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), w))
		require.NoError(t, co.Delete(t.Context(), w))
	}
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	c.requireWell(t)
}

func stepOrSkip(t *testing.T, m *Member, ahead time.Duration) {
	t.Helper()
	err := m.StepClock(ahead)
	if errors.Is(err, ErrNoClock) {
		t.Skip(err)
	}
	require.NoError(t, err)
}
