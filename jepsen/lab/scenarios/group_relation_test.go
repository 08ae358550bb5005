package scenarios

import (
	"fmt"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// One member of a group loses its peer alone, under a writer that writes to each member after the one before: the others
// are cut off with it before the writer goes on, so the other site's members are of one instant (S52). They are promoted
// together (S38).
func TestS38_S52_AMemberThatIsCutOffAloneStopsItsGroup(t *testing.T) {
	w, a, b := newSites(t)
	r := newGroupRelation(t, a, b, "together", 3)
	for range rounds() {
		r.use(t, a)
		r.cutOneMember(t, a, b)
		a.losePower(t)
		r.gone()
		require.NoError(t, w.cluster.StartNode(t.Context(), w.guest(b.host(t, r.volumes[b][0])).Index))
		b.awaitNodes(t, "reachable")
		r.awaitNeedsForce(t, b)
		r.promoteByForce(t, b)
		r.requireOneInstant(t, b)
		r.beginForcedTurn(t, b)
		a.boot(t)
		r.failBack(t, b, a)
		r.end(t, a)
		r.judge(t)
	}
	r.disown(t, b)
	r.remove(t, a)
}

// cutOneMember disconnects the first member at the other site, where no process connects it again, and waits until the
// writer went on.
func (r *relation) cutOneMember(t *testing.T, a, b *site) {
	t.Helper()
	v := r.volumes[b][0]
	node := b.host(t, v)
	require.NoError(t, r.w.cluster.KillNode(t.Context(), r.w.guest(node).Index))
	r.w.mustExec(t, node, "drbdadm disconnect --force "+v.id)
	for _, v := range r.volumes[a] {
		r.w.awaitKernel(t, v, a.host(t, v), timeout, v.name+" goes on alone", goesOnAlone)
	}
	r.writer.awaitBlocks(t, 50)
}

// requireOneInstant: no member has what the member before it has not, nor lacks more than the block in flight.
func (r *relation) requireOneInstant(t *testing.T, s *site) {
	t.Helper()
	var numbers []uint64
	for _, v := range r.volumes[s] {
		numbers = append(numbers, highest(r.w.scanOf(t, s.host(t, v), v.path(), 0)))
	}
	t.Logf("the members are at %v", numbers)
	for i := 1; i < len(numbers); i++ {
		require.LessOrEqual(t, numbers[i], numbers[i-1], "a later member has what an earlier one lacks")
		require.LessOrEqual(t, numbers[0], numbers[i]+1, "the members are of one instant")
	}
}

// The role of a group moves for all members or for none: not while one is in use, lags, or has its host fenced (S38).
func TestS38_OneMemberKeepsItsGroup(t *testing.T) {
	w, a, b := newSites(t)
	r := newGroupRelation(t, a, b, "one", 3)
	r.use(t, a)
	r.endWriting(t)
	last := r.volumes[a][2]
	for _, v := range r.volumes[a][:2] {
		require.NoError(t, a.unstage(t.Context(), v, a.host(t, v)))
		require.NoError(t, a.unpublish(t.Context(), v, a.host(t, v)))
	}
	err := r.demote(t.Context(), a)
	t.Logf("demote with one member in use: %v", err)
	require.ErrorContains(t, err, codes.FailedPrecondition.String())
	require.ErrorContains(t, err, last.id)
	r.requireAt(t, a, b)
	require.NoError(t, a.unstage(t.Context(), last, a.host(t, last)))
	require.NoError(t, a.unpublish(t.Context(), last, a.host(t, last)))
	r.keepOneBehind(t, a, b)
	r.fenceOne(t, a, b)
	w.reconnect(t)
	r.awaitInSync(t)
	require.NoError(t, r.promote(t.Context(), b, false))
	r.use(t, b)
	r.relocate(t, b, a)
	r.end(t, a)
	r.judge(t)
	r.disown(t, b)
	r.remove(t, a)
}

// requireAt: each member may be used at one site and at no other.
func (r *relation) requireAt(t *testing.T, s, not *site) {
	t.Helper()
	for i := range r.volumes[s] {
		v := r.volumes[not][i]
		_, err := not.controllers[0].ControllerPublishVolume(t.Context(), not.publishRequest(v, not.host(t, v)))
		require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
		v = r.volumes[s][i]
		require.NoError(t, s.publish(t.Context(), v, s.host(t, v)))
		if i < 2 {
			require.NoError(t, s.unpublish(t.Context(), v, s.host(t, v)))
		}
	}
}

// keepOneBehind has one member lag at the other site: the demoted group is promoted when that has everything.
func (r *relation) keepOneBehind(t *testing.T, a, b *site) {
	t.Helper()
	v := r.volumes[a][0]
	a.cutOff(t, lab.Replication)
	require.NoError(t, a.publish(t.Context(), v, a.host(t, v)))
	require.NoError(t, a.stage(t.Context(), v, a.host(t, v)))
	r.w.mustExec(t, a.host(t, v), fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M seek=8 count=1 oflag=direct 2>/dev/null", v.target()))
	require.NoError(t, a.unstage(t.Context(), v, a.host(t, v)))
	require.NoError(t, a.unpublish(t.Context(), v, a.host(t, v)))
	require.NoError(t, r.demote(t.Context(), a))
	r.requireRefused(t, b, false, codes.Aborted)
	r.requireRefused(t, b, true, codes.Aborted)
}

// fenceOne fences the other site's host: it is not promoted meanwhile.
func (r *relation) fenceOne(t *testing.T, a, b *site) {
	t.Helper()
	_, cidrs := r.w.clientsOf(t, b.host(t, r.volumes[b][0]))
	_, err := a.fencing.FenceClusterNetwork(t.Context(), &fence.FenceClusterNetworkRequest{Cidrs: cidrs})
	t.Logf("fence: %v", err) // it may answer later than that it is in force
	r.requireRefused(t, b, false, codes.Unavailable)
	r.requireRefused(t, b, true, codes.Unavailable)
	a.unfence(t, cidrs)
}
