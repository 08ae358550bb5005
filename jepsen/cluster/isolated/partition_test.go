package isolated

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/netns"
)

// TestALeaderThatIsNotHeardOrDoesNotHearIsReplaced: cut in one direction only, either one, a leader loses its leadership to a member that the others
// hear, serves nothing meanwhile, and comes back as a follower.
func TestALeaderThatIsNotHeardOrDoesNotHearIsReplaced(t *testing.T) {
	c := startCluster(t, Options{})
	for name, shape := range map[string]func(one, all []*netns.Host) netns.Shape{
		"nobody hears it":    netns.OneWay,
		"it hears nobody":    func(one, all []*netns.Host) netns.Shape { return netns.OneWay(all, one) },
		"neither way is one": netns.Between,
	} {
		t.Run(name, func(t *testing.T) {
			old := c.leader(t)
			one, all := Hosts([]*Member{old}), Hosts(c.Members())
			require.NoError(t, c.Net().Apply(t.Context(), shape(one, all)))
			v := c.createAtOthers(t, old, name)
			require.NotEqual(t, old.ID, c.leaderOfOthers(t, old))
			require.NoError(t, c.Net().Heal(t.Context()))
			c.requireWell(t)
			requireListedAt(t, c, old, v)
		})
	}
}

// TestOneHostIsTheOnlyOneThatAllReach: of two sides that only one controller reaches both of, one leader comes out, and what was
// acknowledged is everywhere in the end.
func TestOneHostIsTheOnlyOneThatAllReach(t *testing.T) {
	c := startCluster(t, Options{})
	for i, middle := range c.Controllers() {
		require.NoError(t, c.Net().Apply(t.Context(), netns.Bridge(Hosts(c.Controllers()), middle.Host())))
		v, err := c.View().NewCO().Create(t.Context(), harness.Spec{Name: fmt.Sprintf("bridge-%d", i), Size: harness.Mi})
		require.NoError(t, err)
		require.NoError(t, c.Net().Heal(t.Context()))
		c.requireWell(t)
		requireListedAt(t, c, middle, v)
	}
}

// leader is the controller that leads now.
func (c *Cluster) leader(t *testing.T) *Member {
	t.Helper()
	id, err := c.View().Leader(t.Context())
	require.NoError(t, err)
	return c.Member(id)
}

// others are the ids of the controllers but one.
func (c *Cluster) others(but *Member) (ids []string) {
	for _, m := range c.Controllers() {
		if m != but {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// createAtOthers makes a volume by asking all controllers but one.
func (c *Cluster) createAtOthers(t *testing.T, but *Member, name string) *harness.Volume {
	t.Helper()
	co := c.View().NewCO()
	co.Controllers, co.Timeout = c.others(but), harness.Patience
	v, err := co.Create(t.Context(), harness.Spec{Name: name, Size: harness.Mi})
	require.NoError(t, err)
	return v
}

// leaderOfOthers is whom the controllers but one follow.
func (c *Cluster) leaderOfOthers(t *testing.T, but *Member) (leader string) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "another leader than "+but.ID, func() (bool, error) {
		s, err := c.View().Status(t.Context())
		leader = s.Leader
		return err == nil && leader != "" && leader != but.ID, err
	}))
	return leader
}

// requireWell asserts that after the last fault all members serve and vote, and hold one state, and that each host has what
// the log says.
func (c *Cluster) requireWell(t *testing.T) {
	t.Helper()
	require.NoError(t, c.AwaitServing(t.Context()))
	require.NoError(t, c.AwaitVoting(t.Context()))
	require.NoError(t, c.View().AwaitAgreement(t.Context()))
	require.NoError(t, c.View().AwaitCleanAudit(t.Context()))
}

// requireListedAt asserts that one controller lists a volume.
func requireListedAt(t *testing.T, c *Cluster, at *Member, v *harness.Volume) {
	t.Helper()
	co := c.View().NewCO()
	co.Controllers, co.Timeout = []string{at.ID}, harness.Patience
	listed, err := co.List(t.Context())
	require.NoError(t, err)
	require.Contains(t, listed, v.ID)
}
