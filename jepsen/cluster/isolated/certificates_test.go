package isolated

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestCertificatesRunOutAndAreRenewed: the controllers' certificates run out while they are used: once their connections end there is no
// cluster any more. With good ones in their files it comes back without a restart.
func TestCertificatesRunOutAndAreRenewed(t *testing.T) {
	c := startCluster(t, Options{})
	co := c.View().NewCO()
	before, err := co.Create(t.Context(), harness.Spec{Name: "before", Size: harness.Mi})
	require.NoError(t, err)
	time.Sleep(time.Until(c.issueShort(t)))
	c.resetAll(t)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "no controller to serve", func() (bool, error) {
		var serving error
		for _, m := range c.Controllers() {
			if m.Ready(t.Context()) == nil {
				serving = errors.Join(serving, errors.New(m.ID+" serves"))
			}
		}
		return serving == nil, serving
	}))
	pids := map[string]int{}
	for _, m := range c.Members() {
		pids[m.ID] = m.PID()
		_, err := m.Issue(t.Context(), usualValidity)
		require.NoError(t, err)
	}
	require.NoError(t, c.AwaitServing(t.Context()))
	for _, m := range c.Members() {
		require.Equal(t, pids[m.ID], m.PID(), "%s was started again", m.ID)
	}
	_, err = co.Create(t.Context(), harness.Spec{Name: "after", Size: harness.Mi})
	require.NoError(t, err)
	requireListedAt(t, c, c.leader(t), before)
	c.requireWell(t)
}

// issueShort gives all controllers certificates that run out soon, and answers when the last one does. On a machine so slow that one ran out
// before it was taken up, which a process refuses, it begins again.
func (c *Cluster) issueShort(t *testing.T) (last time.Time) {
	t.Helper()
	for validity := 10 * time.Second; ; validity *= 2 {
		taken := 0
		for _, m := range c.Controllers() {
			var err error
			last, err = m.Issue(t.Context(), validity)
			require.NoError(t, err)
			shown, err := m.Presents(t.Context())
			require.NoError(t, err)
			if shown {
				taken++
			}
		}
		if taken == len(c.Controllers()) {
			return last.Add(time.Second)
		}
		require.Less(t, validity, 10*time.Minute, "no certificate is taken up")
	}
}

func (c *Cluster) resetAll(t *testing.T) {
	t.Helper()
	for _, m := range c.Members() {
		_, err := m.Host().Reset(t.Context())
		require.NoError(t, err)
	}
}
