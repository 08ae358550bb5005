package scenarios

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// A site is cut off under writers, from everything or from the controllers only: its writes are suspended before the
// other site goes on, and end with errors. When the networks are back nothing that it wrote afterwards counts, and no
// kernel sees a split brain (S38, S42, S9).
func TestS9_S38_S42_ASiteIsCutOff(t *testing.T) {
	for name, cut := range map[string][]lab.Network{
		"from its peer and the controllers": {lab.Replication, lab.API},
		"from the controllers only":         {lab.API},
	} {
		t.Run(name, func(t *testing.T) {
			_, a, b := newSites(t)
			relations := []*relation{newRelation(t, a, b, "cut", false), newRelation(t, a, b, "cut-raw", true)}
			for range rounds() {
				cutAndFailOver(t, relations, a, b, cut)
			}
			for _, r := range relations {
				r.remove(t, a)
			}
		})
	}
}

func cutAndFailOver(t *testing.T, relations []*relation, a, b *site, cut []lab.Network) {
	for _, r := range relations {
		r.use(t, a)
	}
	a.cutOff(t, cut...)
	var old []*writer
	for _, r := range relations {
		called := time.Now()
		require.NoError(t, r.promote(t.Context(), b, false))
		t.Logf("the role is at %s after %s", b.name, time.Since(called).Round(time.Millisecond))
		r.writer.awaitFrozen(t)
		r.gone()
		old = append(old, r.writer)
		r.use(t, b)
	}
	a.w.reconnect(t)
	a.awaitNodes(t, "reachable")
	for i, r := range relations {
		r.w.awaitWriterError(t, old[i], r.turns[len(r.turns)-2].Acked)
		r.requireOusted(t, a)
		r.w.awaitKept(t, old[i].node, r.volumes[a][0])
		require.NoError(t, r.demote(t.Context(), a))
		r.awaitReady(t, a, true)
		require.NoError(t, a.unstage(t.Context(), r.volumes[a][0], old[i].node))
		r.relocate(t, b, a)
		r.end(t, a)
		r.judge(t)
	}
}
