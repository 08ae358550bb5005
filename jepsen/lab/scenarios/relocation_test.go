package scenarios

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// relocations is how often the role goes from one site to the other.
func relocations() int {
	if *long {
		return 20
	}
	return 2
}

// The role moves in order, there and back, also while the peer lags: no acknowledged write is lost, and the
// resynchronisations that orchestrators ask for, with force, discard nothing (S46, S47). Only one site is primary at
// any time, and a site without the role uses nothing (S38).
func TestS38_S46_S47_RelocationAndBack(t *testing.T) {
	w, a, b := newSites(t)
	r := newRelation(t, a, b, "relocate", false)
	r.use(t, a)
	from, to := a, b
	for i := range relocations() {
		r.requireRefused(t, to, false, codes.Aborted)
		r.requireRefused(t, to, true, codes.Aborted)
		if i%2 == 1 {
			r.relocateLagging(t, from, to)
		} else {
			r.relocate(t, from, to)
		}
		from, to = to, from
	}
	r.end(t, from)
	r.judge(t)
	for _, s := range r.sites {
		require.Empty(t, w.keptOf(t, r.volumes[a][0], s.host(t, r.volumes[a][0])), "nothing was given up")
	}
	r.remove(t, from)
}

// relocateLagging moves the role while the other site lacks writes: they come first.
func (r *relation) relocateLagging(t *testing.T, from, to *site) {
	t.Helper()
	from.cutOff(t, lab.Replication)
	v := r.volumes[from][0]
	r.w.awaitKernel(t, v, from.host(t, v), timeout, "it goes on alone", goesOnAlone)
	r.writer.awaitBlocks(t, 50)
	r.end(t, from)
	require.NoError(t, r.demote(t.Context(), from))
	r.requireRefused(t, to, false, codes.Aborted)
	r.requireRefused(t, to, true, codes.Aborted)
	for _, s := range r.sites {
		ready, err := r.resync(t.Context(), s, true)
		require.NoError(t, err)
		require.False(t, ready, "%s lacks writes", to.name)
	}
	r.w.reconnect(t)
	require.NoError(t, r.promote(t.Context(), to, false))
	r.use(t, to)
}

func goesOnAlone(d drbdState) bool { return d.connection != "Connected" && !d.suspended }

// keptCopy is what the log has of a copy of what a replica had.
type keptCopy struct {
	ID    string `json:"id"`
	Node  string `json:"node"`
	Phase string `json:"phase"`
}

// keptOf are the copies that a host keeps of a volume.
func (w *env) keptOf(t *testing.T, v *volume, node string) (all []keptCopy) {
	t.Helper()
	var said struct {
		Snapshots []keptCopy `json:"snapshots"`
	}
	w.cluster.MustAsk(t, &said, "volumes", "kept", v.id)
	for _, kept := range said.Snapshots {
		if kept.Node == node {
			all = append(all, kept)
		}
	}
	return all
}
