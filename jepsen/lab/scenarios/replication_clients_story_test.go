package scenarios

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/lab"
	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// replicateVolume: S37, S38, S40, S41, S48 as the controller of VolumeReplication calls: it never demotes before it promotes
// elsewhere, adds force by itself, and repeats all.
func (x *rowLab) replicateVolume(t *testing.T, a, b *siteKubernetes) {
	v := x.a.createOverSites(t, "managed", true)
	copied := x.copied(t, v, "B")
	a.claim(t, v, nil)
	b.claim(t, copied, nil)
	of := func(v *volume) managed {
		return managed{ref: kubeapi.Ref{Resource: "volumereplications", Namespace: shopNamespace, Name: "managed"}, spec: fields{
			"volumeReplicationClass": "sites", "replicationHandle": "", "dataSource": fields{"kind": "PersistentVolumeClaim", "name": v.name}}}
	}
	m, mb := of(v), of(copied)

	a.want(t, m, "primary")
	made := a.becomes(t, m, "Primary", saysPrimary)
	require.NotEmpty(t, made.Text("status", "lastSyncTime"))
	status, _, message := condition(made, "Replicating")
	require.NotEmpty(t, status, message)
	x.awaitInSync(t, v)
	b.want(t, mb, "secondary")
	b.becomes(t, mb, "Secondary", saysSecondary)

	acked := x.relocateManaged(t, a, b, m, mb, v, copied)
	acked = x.failBackUnforced(t, a, b, m, mb, v, copied, acked)
	x.failOverByForce(t, a, b, m, mb, v, copied, acked)

	b.want(t, mb, "secondary")
	b.becomes(t, mb, "Secondary", saysSecondary)
	a.want(t, m, "primary")
	a.becomes(t, m, "Primary", saysPrimary)
	b.remove(t, mb) // through the secondary, that ends its claim alone
	require.NotNil(t, x.a.info(t, replicate.Request{Volume: v.id}))
	a.remove(t, m)
	x.a.refused(t, codes.FailedPrecondition, replicate.Info, replicate.Request{Volume: v.id})
	for k, one := range map[*siteKubernetes]*volume{a: v, b: copied} {
		o, err := k.api.Get(k.claimOf(one))
		require.NoError(t, err)
		require.Empty(t, o.Texts("metadata", "finalizers"), "the manager holds the claim no longer")
	}
	x.a.deleteVolume(t, v)
}

// relocateManaged moves the role to B while a workload at A is still there at first.
func (x *rowLab) relocateManaged(t *testing.T, a, b *siteKubernetes, m, mb managed, v, copied *volume) (acked uint64) {
	t.Helper()
	x.a.use(t, v, "n1")
	w := x.write(t, v, "n1", 1)
	a.want(t, m, "secondary")
	a.await(t, m.ref, "a demotion of what is in use to be refused", func(o kubeapi.Object) bool {
		status, _, _ := condition(o, "Completed")
		return status == "False" && o.Text("status", "state") == "Primary"
	})
	w.awaitBlocks(t, 20)
	acked = w.stop(t).Number
	x.a.endUse(t, v, "n1")
	a.becomes(t, m, "Secondary", saysSecondary)
	b.want(t, mb, "primary")
	b.becomes(t, mb, "Primary", saysPrimary)
	x.b.use(t, copied, "n2")
	x.requireAcknowledged(t, copied, "n2", acked)
	return acked
}

// failBackUnforced: B is cut off from the controllers while its workload writes. A is promoted, without force, and the object
// of B, which still says primary when B is back, moves nothing.
func (x *rowLab) failBackUnforced(t *testing.T, a, b *siteKubernetes, m, mb managed, v, copied *volume, acked uint64) uint64 {
	t.Helper()
	w := x.write(t, copied, "n2", acked+1)
	w.awaitBlocks(t, 20)
	x.awaitInSync(t, copied)
	require.NoError(t, x.lab.Isolate(t.Context(), lab.API, 2))
	x.awaitState(t, "n2", "unreachable")
	a.want(t, m, "primary")
	a.becomes(t, m, "Primary", saysPrimary)
	acked = w.awaitStill(t)
	x.a.use(t, v, "n1")
	x.requireAcknowledged(t, v, "n1", acked)
	require.NoError(t, x.lab.ReconnectAll(t.Context()))
	x.awaitWriterError(t, w, acked)
	require.NoError(t, b.api.Update(mb.ref, func(o kubeapi.Object) { o.Get("spec").(fields)["autoResync"] = true })) // it is looked at again
	require.NotNil(t, x.a.info(t, replicate.Request{Volume: v.id}))
	x.b.endUse(t, copied, "n2")
	b.want(t, mb, "secondary")
	b.becomes(t, mb, "Secondary", saysSecondary)
	return acked
}

// failOverByForce: B lacks what A wrote last, A is cut off, and the controller adds force. What A wrote alone is discarded only
// once its object says resync.
func (x *rowLab) failOverByForce(t *testing.T, a, b *siteKubernetes, m, mb managed, v, copied *volume, acked uint64) {
	t.Helper()
	x.awaitInSync(t, v)
	require.NoError(t, x.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
	w := x.write(t, v, "n1", acked+1)
	x.awaitKernel(t, v, "n1", timeout, "it goes on alone", isAlone)
	w.awaitBlocks(t, 30)
	w.stop(t)
	require.NoError(t, x.lab.Isolate(t.Context(), lab.API, 1))
	x.awaitState(t, "n1", "unreachable")
	b.want(t, mb, "primary")
	b.becomes(t, mb, "Primary", saysPrimary)
	x.b.use(t, copied, "n2")
	x.requireAcknowledged(t, copied, "n2", acked)
	fresh := x.write(t, copied, "n2", acked+1)
	fresh.awaitBlocks(t, 20)
	last := fresh.stop(t)
	require.Empty(t, last.Error)
	x.b.endUse(t, copied, "n2")
	require.NoError(t, x.lab.ReconnectAll(t.Context()))
	x.awaitState(t, "n1", "reachable")
	x.a.endUse(t, v, "n1")

	a.want(t, m, "secondary")
	a.becomes(t, m, "Secondary", saysDegraded)
	require.Equal(t, 0, x.keptCopies(t, v, "n1"), "nothing is discarded without force")
	a.want(t, m, "resync")
	a.becomes(t, m, "Secondary", saysResync)
	require.Equal(t, 1, x.keptCopies(t, v, "n1"))
	x.awaitInSync(t, v)
	require.True(t, x.b.isPrimary(t.Context(), v))
}

// replicateGroup: a VolumeGroupReplication at each site. The manager makes a group of each site's claims, and a VolumeReplication
// of it.
func (x *rowLab) replicateGroup(t *testing.T, a, b *siteKubernetes) {
	var volumes, copies []*volume
	for i := range 2 {
		v := x.a.createOverSites(t, fmt.Sprintf("grouped-%d", i), true)
		copied := x.copied(t, v, "B")
		a.claim(t, v, fields{"app": "shop"})
		b.claim(t, copied, fields{"app": "shop"})
		volumes, copies = append(volumes, v), append(copies, copied)
	}
	m := managed{ref: kubeapi.Ref{Resource: "volumegroupreplications", Namespace: shopNamespace, Name: "grouped"}, spec: fields{
		"volumeGroupReplicationClassName": "sites", "volumeReplicationClassName": "sites", "source": fields{"selector": fields{"matchLabels": fields{"app": "shop"}}}}}
	a.want(t, m, "primary")
	a.becomesGroup(t, m, "Primary")
	for _, v := range volumes {
		x.awaitInSync(t, v)
	}
	b.want(t, m, "secondary")
	b.becomesGroup(t, m, "Secondary")
	require.Equal(t, a.groupHandle(t, m), b.groupHandle(t, m), "the members are those of one group")

	a.want(t, m, "secondary")
	a.becomesGroup(t, m, "Secondary")
	b.want(t, m, "primary")
	b.becomesGroup(t, m, "Primary")
	x.requireUsable(t, []*volume{copies[0], copies[1], copies[1]}, x.b, "n2", x.a, "n1")
	require.NoError(t, x.b.unpublish(t.Context(), copies[1], "n2"))

	a.remove(t, m)
	x.requireGroupAt(t, x.b, replicate.Request{Group: b.groupHandle(t, m)})
	b.remove(t, m)
	for _, v := range copies {
		x.b.refused(t, codes.FailedPrecondition, replicate.Info, replicate.Request{Volume: v.id})
		x.b.deleteVolume(t, v)
	}
}

// becomesGroup waits until the group's object says that it is in a state.
func (k *siteKubernetes) becomesGroup(t *testing.T, m managed, state string) {
	t.Helper()
	k.await(t, m.ref, m.ref.Name+" to become "+state, func(o kubeapi.Object) bool {
		return o.Text("status", "state") == state && o.Text("status", "message") == map[string]string{"Primary": saysPrimary, "Secondary": saysSecondary}[state]
	})
}

// groupHandle is the id of the group that a site's manager made.
func (k *siteKubernetes) groupHandle(t *testing.T, m managed) string {
	t.Helper()
	o, err := k.api.Get(m.ref)
	require.NoError(t, err)
	content, err := k.api.Get(kubeapi.Ref{Resource: "volumegroupreplicationcontents", Name: o.Text("spec", "volumeGroupReplicationContentName")})
	require.NoError(t, err)
	require.NotEmpty(t, content.Text("spec", "volumeGroupReplicationHandle"))
	return content.Text("spec", "volumeGroupReplicationHandle")
}

// requireGroupAt requires that a group is replicated, with a site as its primary.
func (x *rowLab) requireGroupAt(t *testing.T, s *rowSite, g replicate.Request) {
	t.Helper()
	require.NoError(t, retryUntil(t.Context(), "ask for the group", func(ctx context.Context) error {
		_, err := s.call(ctx, replicate.Info, g)
		return err
	}))
}
