package scenarios

import (
	"fmt"
	"strings"
	"testing"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// A site dies whose peer lacks acknowledged writes: it is given up by force only, which is recorded. The site returns
// with the newer content, which stays apart until a resynchronisation of it is forced, and is kept before (S30, S40,
// S44, S48).
func TestS38_S40_S44_S48_AStaleSiteIsPromotedByForce(t *testing.T) {
	w, a, b := newSites(t)
	for range rounds() {
		r := newRelation(t, a, b, "forced", true)
		r.use(t, a)
		v, stale := r.volumes[a][0], r.acked()
		a.cutOff(t, lab.Replication)
		w.awaitKernel(t, v, a.host(t, v), timeout, "it goes on alone", goesOnAlone)
		r.writer.awaitBlocks(t, 100)
		a.losePower(t)
		r.gone()
		r.awaitNeedsForce(t, b)
		r.promoteByForce(t, b)
		r.requireUntil(t, b, stale)
		w.reconnect(t)
		r.beginForcedTurn(t, b)
		r.returnApart(t, a, b)
		r.failBack(t, b, a)
		r.end(t, a)
		r.judge(t)
		r.remove(t, a)
	}
}

// promoteByForce promotes by force, requires that this is recorded, and stages. What was acknowledged before may be lost.
func (r *relation) promoteByForce(t *testing.T, s *site) {
	t.Helper()
	require.NoError(t, r.promote(t.Context(), s, true))
	for _, v := range r.volumes[s] {
		found, err := r.w.logState(t.Context(), v)
		require.NoError(t, err)
		require.NotNil(t, found.Relation)
		require.NotNil(t, found.Relation.GivenUp, "the log has what was given up")
		require.Equal(t, s.name, found.Relation.Primary)
	}
	r.stage(t, s)
}

// beginForcedTurn begins a turn before which acknowledged writes may be lost.
func (r *relation) beginForcedTurn(t *testing.T, s *site) {
	t.Helper()
	r.beginTurn(t, s)
	r.turns[len(r.turns)-1].Forced = true
}

// requireUntil requires that what was acknowledged until a number is there.
func (r *relation) requireUntil(t *testing.T, s *site, acked uint64) {
	t.Helper()
	all := r.turns
	defer func() { r.turns = all }()
	last := all[len(all)-1]
	for _, v := range r.volumes[s] {
		found := r.w.scanOf(t, s.host(t, v), v.path(), 0)
		require.GreaterOrEqual(t, highest(found), acked, "what was acknowledged before the loss is there")
		last.Acked = max(acked, highest(found))
		r.turns = append(append(r.turns[:0:0], all[:len(all)-1]...), last)
		r.requireJudged(t, v, found, "the promoted volume")
	}
}

// highest is the highest number that was found.
func highest(found scanned) (number uint64) {
	for _, b := range found.Blocks {
		number = max(number, b.Number)
	}
	return number
}

// returnApart boots the site that was given up. What it has stays as it is, is kept by the forced resynchronisation,
// and is replaced.
func (r *relation) returnApart(t *testing.T, a, b *site) {
	t.Helper()
	v := r.volumes[a][0]
	newer := r.turns[len(r.turns)-2].Acked
	a.boot(t)
	r.requireOusted(t, a)
	r.awaitStatus(t, b, replication.GetVolumeReplicationInfoResponse_ERROR)
	require.NoError(t, r.demote(t.Context(), a))
	for range 3 {
		ready, err := r.resync(t.Context(), a, false)
		require.NoError(t, err)
		require.False(t, ready, "it is not resynchronised without force")
	}
	r.awaitStatus(t, b, replication.GetVolumeReplicationInfoResponse_ERROR)
	require.Empty(t, r.w.keptOf(t, v, a.host(t, v)))
	require.GreaterOrEqual(t, highest(r.w.scanInactive(t, a.host(t, v), v.id, v.size)), newer, "what it has is what it was")
	r.awaitReady(t, a, true)
	r.awaitReady(t, a, true) // repeated: it keeps no second copy (S49)
	r.w.awaitKept(t, a.host(t, v), v)
	require.GreaterOrEqual(t, highest(r.w.scanKept(t, v, a.host(t, v))), newer, "what was given up is kept")
}

// scanKept reads the only copy that a host keeps of a volume.
func (w *env) scanKept(t *testing.T, v *volume, node string) scanned {
	t.Helper()
	all := w.keptOf(t, v, node)
	require.Len(t, all, 1)
	return w.scanInactive(t, node, all[0].ID, v.size)
}

// scanInactive reads a thin device that nobody has active: a kept copy, or a replica that stays apart.
func (w *env) scanInactive(t *testing.T, node, name string, bytes int64) scanned {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf("set -e; lvchange -qq -ay -K vg/%s; dmsetup mknodes", name))
	found := w.scanOf(t, node, "/dev/mapper/vg-"+strings.ReplaceAll(name, "-", "--"), bytes)
	w.mustExec(t, node, "lvchange -qq -an vg/"+name)
	return found
}

// With protocol A each takeover from a site that cannot be asked is forced (S11), and `isolated: freeze` suspends the
// writes of a primary that hears neither its peer nor a controller (S45).
func TestS11_S38_S45_AnAsynchronousSiteThatIsIsolatedFreezes(t *testing.T) {
	w, a, b := newSites(t)
	r := newRelation(t, a, b, "frozen", true, "protocol", "A", "isolated", "freeze")
	r.use(t, a)
	r.isolateAndFreeze(t, a)
	w.reconnect(t)
	r.writer.awaitBlocks(t, 50) // nobody was promoted meanwhile
	r.awaitInSync(t)
	r.isolateAndFreeze(t, a)
	old, frozen, oldNode := r.writer, r.acked(), a.host(t, r.volumes[a][0])
	r.gone()
	r.awaitNeedsForce(t, b)
	r.promoteByForce(t, b)
	r.beginForcedTurn(t, b)
	w.reconnect(t)
	w.awaitWriterError(t, old, frozen)
	a.awaitNodes(t, "reachable")
	require.NoError(t, r.demote(t.Context(), a))
	r.awaitReady(t, a, true)
	w.awaitKept(t, oldNode, r.volumes[a][0])
	require.NoError(t, a.unstage(t.Context(), r.volumes[a][0], oldNode))
	r.failBack(t, b, a)
	r.end(t, a)
	r.judge(t)
	r.remove(t, a)
}

// isolateAndFreeze cuts a site off from everything, and waits until its kernel suspends the writes.
func (r *relation) isolateAndFreeze(t *testing.T, s *site) {
	t.Helper()
	s.cutOff(t, lab.Replication, lab.API)
	v := r.volumes[s][0]
	r.w.awaitKernel(t, v, s.host(t, v), timeout, "its writes are suspended", func(d drbdState) bool { return d.connection != "Connected" && d.suspended })
	r.writer.awaitFrozen(t)
}
