package isolated

import (
	"errors"
	"fmt"
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
		c.awaitAnotherLeader(t, old, ahead)
		_, err := c.View().NewCO().Create(t.Context(), harness.Spec{Name: "ahead-" + ahead.String(), Size: harness.Mi})
		require.NoError(t, err)
		setClock(t, old, 0)
	}
	c.requireWell(t)
}

// awaitAnotherLeader has the leader's clock jump, and waits until another member leads. A process of the leader's that ended, as one does
// whose main loop had no time, is followed by one with a right clock: that one's jumps too.
func (c *Cluster) awaitAnotherLeader(t *testing.T, old *Member, ahead time.Duration) {
	t.Helper()
	pid := setClock(t, old, ahead)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "another leader than "+old.ID, func() (bool, error) {
		if old.PID() != pid {
			pid = setClock(t, old, ahead)
		}
		s, err := c.View().Status(t.Context())
		if err != nil || s.Leader == "" || s.Leader == old.ID {
			return false, errors.Join(err, fmt.Errorf("the leader is %q", s.Leader))
		}
		return true, nil
	}))
}

// testedSteps are by how much all clocks jump together, back by more than two hours too. No clock is so far behind that it takes the certificates, which are
// valid from five minutes before they were issued, for not valid yet: a cluster of such clocks is one only for as long as no connection ends.
var testedSteps = []time.Duration{2 * time.Hour, -4 * time.Minute, 2 * time.Hour, 0}

// TestJumpingClocksBreakNoLeaseAndNoTimeout: what is timed in a process is timed by the clock that does not jump. All clocks jump
// together, and hosts' too, while a volume stays in use.
func TestJumpingClocksBreakNoLeaseAndNoTimeout(t *testing.T) {
	c := startCluster(t, Options{})
	co := c.View().NewCO()
	v, err := co.Create(t.Context(), harness.Spec{Name: "used", Size: 4 * harness.Mi, Node: "n1"})
	require.NoError(t, err)
	require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
	for i, ahead := range testedSteps {
		for _, m := range c.Members() {
			setClock(t, m, ahead)
		}
		w, err := co.Create(t.Context(), harness.Spec{Name: fmt.Sprintf("at-%d", i), Size: harness.Mi, Node: "n1"})
		require.NoError(t, err)
		require.NoError(t, co.PublishStageBind(t.Context(), w, "n1"))
		require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), w))
		require.NoError(t, co.Delete(t.Context(), w))
	}
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	c.requireWell(t)
}

// setClock sets a member's clock, and answers of which process. One that ended is started again by itself, and waited for.
func setClock(t *testing.T, m *Member, ahead time.Duration) (pid int) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the clock of "+m.ID+" to be set", func() (bool, error) {
		pid = m.PID()
		err := m.StepClock(ahead)
		if errors.Is(err, ErrNoClock) {
			t.Skip(err)
		}
		return err == nil && pid == m.PID(), err
	}))
	return pid
}
