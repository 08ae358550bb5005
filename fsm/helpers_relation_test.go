package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// related has replicated volumes with a replica at each of the sites A and B.
type related struct{ *sites }

func sourceOf(n int) *fsmpb.ReplicationSource {
	return &fsmpb.ReplicationSource{VolumeId: volumeID(n)}
}

func groupSource(n int) *fsmpb.ReplicationSource {
	return &fsmpb.ReplicationSource{VolumeGroupId: volumeGroupID(n)}
}

func enable(source *fsmpb.ReplicationSource, peer string) *fsmpb.EnableReplication {
	return &fsmpb.EnableReplication{Source: source, PeerSite: peer}
}

func promote(source *fsmpb.ReplicationSource) *fsmpb.PromoteReplication {
	return &fsmpb.PromoteReplication{Source: source}
}

func promoteByForce(source *fsmpb.ReplicationSource) *fsmpb.PromoteReplication {
	return &fsmpb.PromoteReplication{Source: source, Force: true}
}

func demote(source *fsmpb.ReplicationSource) *fsmpb.DemoteReplication {
	return &fsmpb.DemoteReplication{Source: source}
}

func resync(source *fsmpb.ReplicationSource, force bool) *fsmpb.ResyncReplication {
	return &fsmpb.ResyncReplication{Source: source, Force: force}
}

func disable(source *fsmpb.ReplicationSource) *fsmpb.DisableReplication {
	return &fsmpb.DisableReplication{Source: source}
}

// newTwoSites has so many volumes with a replica at each site, made through A.
func newTwoSites(t testing.TB, volumes int) *related {
	w := &related{newSites(t)}
	for n := 1; n <= volumes; n++ {
		w.at("A", func(actor string) { w.readyReplicatedBy(actor, n, createAtTwoSites(n)) })
	}
	return w
}

func createAtTwoSites(n int) *fsmpb.CreateVolume {
	c := createReplicated(n, protocolC)
	c.Sites = []string{"A", "B"}
	return c
}

// newRelated is newTwoSites with volume 1, whose replication is enabled through A.
func newRelated(t testing.TB) *related {
	w := newTwoSites(t, 1)
	w.okAt("A", enable(sourceOf(1), "B"))
	return w
}

// newRelatedGroup has the volumes 1 and 2 in volume group 1, which is replicated.
func newRelatedGroup(t testing.TB) *related {
	w := newTwoSites(t, 2)
	w.okAt("A", createVolumeGroup(1, 1, 2))
	w.okAt("A", enable(groupSource(1), "B"))
	return w
}

// node is the one that has volume n's replica at the site.
func (w *related) node(n int, site Site) string {
	w.t.Helper()
	l := w.s.replicaAt(w.volume(n), site)
	require.NotNil(w.t, l, "volume %d at site %s", n, site)
	return string(l.Node)
}

// relation is that of volume n.
func (w *related) relation(n int) *Relation {
	w.t.Helper()
	r := w.s.RelationOf(w.volume(n))
	require.NotNil(w.t, r, "volume %d", n)
	return r
}

// roles are who has the role of volume n, and to whom it moves.
func (w *related) roles(n int) (primary, moving string) {
	w.t.Helper()
	r := w.relation(n)
	if r.Promoted {
		primary = r.Primary.String()
	}
	if r.Move != nil {
		moving = r.Move.To.String()
	}
	return primary, moving
}

func (w *related) isPrimary(n int, site string) {
	w.t.Helper()
	primary, moving := w.roles(n)
	require.Equal(w.t, []string{site, ""}, []string{primary, moving})
}

// used publishes volume n at the site and has its host primary.
func (w *related) used(n int, site Site) {
	w.t.Helper()
	node := w.node(n, site)
	w.at(string(site), func(actor string) { w.ok(actor, publish(n, node)) })
	w.ok("node/"+node, w.setPrimary(n, node, inSyncObservation(7)))
	observed := inSyncObservation(7)
	observed.Primary = true
	w.reportCurrent(n, node, observed)
	w.reportCurrent(n, w.node(n, w.relation(n).other(site)), inSyncObservation(7))
	require.True(w.t, w.s.PromotionDone(w.volume(n), NodeID(node)))
}

// siteUnreachable has no host of the site reachable.
func (w *related) siteUnreachable(site Site, unreachable bool) {
	w.t.Helper()
	for n := range w.s.Nodes() {
		if n.site() == site {
			w.setUnreachable(string(n.ID), unreachable)
		}
	}
}

// severed: the host at the site disconnected from its peer.
func (w *related) severed(n int, site Site) {
	w.t.Helper()
	w.reportCurrent(n, w.node(n, site), disconnectedObservation(7, standAlone))
}

// alone has the primary at the site go on without its peer.
func (w *related) alone(n int, site Site) {
	w.t.Helper()
	out := w.ok("node/"+w.node(n, site), w.outdate(n, w.node(n, site), disconnectedPrimary(7)))
	require.Equal(w.t, peerOutdated, out.GetVerdict())
}

// holds tells what a wait for the promotion at the site answers.
func (w *related) holds(n int, site Site) bool {
	w.t.Helper()
	done, _, rej := w.s.PromoteHolds(sourceOf(n), site)
	require.Nil(w.t, rej)
	return done
}

// fact reports a fact of a node.
func (w *related) fact(n int, node string, o *fsmpb.Observation) {
	w.t.Helper()
	o.VolumeId = volumeID(n)
	w.ok("node/"+node, &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Observations: []*fsmpb.Observation{o}})
}

// kept has the host at the site keep what it has before it is synchronised.
func (w *related) kept(n int, site Site, id int, beforeSync bool) {
	w.t.Helper()
	node := w.node(n, site)
	w.ok("node/"+node, w.keep(n, node, id, beforeSync))
	w.ok("node/"+node, &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Observations: []*fsmpb.Observation{{
		VolumeId: volumeID(n), SnapshotId: snapshotID(id),
		Fact: &fsmpb.Observation_SnapshotKept{SnapshotKept: &fsmpb.SnapshotKept{Attach: w.replicaSync(n, node).Attachment, PoolId: "pool-" + node, CutUnixNano: int64(id) * 1000}},
	}}})
}

func (w *related) keep(n int, node string, id int, beforeSync bool) *fsmpb.KeepReplica {
	return &fsmpb.KeepReplica{
		VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Attach: w.replicaSync(n, node).Attachment,
		SnapshotId: snapshotID(id), BeforeSync: beforeSync,
	}
}

// syncing: the replica at the site is the target of a synchronisation.
func (w *related) syncing(n int, site Site) {
	w.t.Helper()
	w.reportCurrent(n, w.node(n, site), ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 6, OutOfSync: 4096})
}

// desired is what the host of volume n at the site is to do.
func (w *related) desired(n int, site Site) *DesiredReplica {
	w.t.Helper()
	d, ok := w.s.DesiredVolume(NodeID(w.node(n, site)), VolumeID(volumeID(n)))
	require.True(w.t, ok)
	require.NotNil(w.t, d.Replication)
	return d.Replication
}

// reboot registers the node's next boot.
func (w *related) reboot(node string) {
	w.t.Helper()
	n, _ := w.s.Node(NodeID(node))
	r := replicating(node)
	r.Site, r.BootId = n.Site, n.Boot+"+"
	w.ok("node/"+node, r)
}

func (w *related) admin(body proto.Message) *fsmpb.Outcome { return w.ok(admin, body) }

// lose records the loss of the host that has volume n's replica at the site.
func (w *related) lose(n int, site Site) {
	w.t.Helper()
	node := w.node(n, site)
	w.admin(&fsmpb.LoseNode{NodeId: node, HostId: "host-" + node, Reason: "burnt"})
}

// tornDown: the host at the site ended its use of volume n.
func (w *related) tornDown(n int, site Site) {
	w.t.Helper()
	node := w.node(n, site)
	w.reportObservation(n, node, ReplicaObservation{Boot: w.bootOf(node), Attachment: w.replicaSync(n, node).Attachment, Generation: w.volume(n).Replication.Generation, Unconfigured: true})
	if t := w.volume(n).Teardown(HostID("host-" + node)); t != nil {
		w.unstaged(n, node, t.Epoch)
	}
}
