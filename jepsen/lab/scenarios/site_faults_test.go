package scenarios

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

var wide = flag.Bool("wide", false, "replication between sites of two hosts each, and a witness: five guests instead of three")

// sitesEnv is shared by the scenarios of replication between sites, made by the first of them and closed by TestMain.
var sitesEnv *env

// newSites is the environment of a scenario of two sites with a witness, and the orchestrators of the two.
func newSites(t *testing.T) (w *env, a, b *site) {
	t.Helper()
	y := twoSites
	if *wide {
		y = wideSites
	}
	w = sharedScenario(t, &sitesEnv, y)
	return w, w.site(t, 1), w.site(t, len(y.sites)/2+1)
}

// host is the volume's host at the site.
func (s *site) host(t *testing.T, v *volume) string {
	t.Helper()
	for _, node := range v.hosts {
		if s.w.layout.sites[s.w.guest(node).Index-1] == s.name {
			return node
		}
	}
	require.Fail(t, "the volume has no host at the site", "%+v at %s", v, s.name)
	return ""
}

// nodesOf are the nodes of a site.
func (s *site) nodeNames() (all []string) {
	for _, i := range s.guests {
		if i <= s.w.layout.nodes {
			all = append(all, s.w.lab.Guest(i).Name())
		}
	}
	return all
}

// losePower crashes every guest of the site.
func (s *site) losePower(t *testing.T) {
	t.Helper()
	for _, i := range s.guests {
		require.NoError(t, s.w.lab.Guest(i).Crash())
	}
}

// boot boots them, and waits until they are used again.
func (s *site) boot(t *testing.T) {
	t.Helper()
	for _, i := range s.guests {
		require.NoError(t, s.w.bootGuest(t.Context(), s.w.lab.Guest(i)))
	}
	s.awaitNodes(t, "reachable")
}

func (s *site) awaitNodes(t *testing.T, state string) {
	t.Helper()
	for _, node := range s.nodeNames() {
		s.w.awaitState(t, node, state)
	}
}

// cutOff isolates the site from all others on networks.
func (s *site) cutOff(t *testing.T, networks ...lab.Network) {
	t.Helper()
	var others []int
	for i, name := range s.w.layout.sites {
		if name != s.name {
			others = append(others, i+1)
		}
	}
	for _, n := range networks {
		require.NoError(t, s.w.lab.Partition(t.Context(), n, s.guests, others))
	}
}

// reconnect ends all partitions.
func (w *env) reconnect(t *testing.T) {
	t.Helper()
	require.NoError(t, w.lab.ReconnectAll(t.Context()))
}
