package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The controllers of two sites, and the hosts: n1 and n2 at A, n3 and n4 at B.
const controllerA, controllerB = "controller/cA", "controller/cB"

func registerMember(name, site string) *fsmpb.RegisterMember {
	return &fsmpb.RegisterMember{Name: name, MemberId: "id-" + name, Site: site}
}

// newSites has two sites. What is not said to come through one comes from an operator.
func newSites(t testing.TB) *sites {
	w := &sites{world: newWorldAt(t, MaxFeatureLevel)}
	for i, site := range []string{"A", "A", "B", "B"} {
		node := fmt.Sprint("n", i+1)
		r := replicating(node)
		r.Site = site
		w.ok("node/"+node, r)
	}
	w.ok(controllerA, registerMember("cA", "A"))
	w.ok(controllerB, registerMember("cB", "B"))
	return w
}

type sites struct{ *world }

// at applies what f applies through the site's endpoint.
func (w *sites) at(site string, f func(actor string)) {
	w.site = site
	f("controller/c" + site)
	w.site = ""
}

func (w *sites) okAt(site string, body proto.Message) (out *fsmpb.Outcome) {
	w.t.Helper()
	w.at(site, func(actor string) { out = w.twice(actor, body) })
	return out
}

func (w *sites) rejectedAt(site string, reason Reason, body proto.Message) {
	w.t.Helper()
	w.at(site, func(actor string) { w.rejected(reason, actor, body) })
}

// readyAt makes volume n through a site.
func (w *sites) readyAt(site string, n int, c *fsmpb.CreateVolume) *Volume {
	w.t.Helper()
	w.okAt(site, c)
	for _, r := range w.volume(n).Replicas {
		w.report(string(r.Node), &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(n).Size}}})
	}
	return w.volume(n)
}

func (w *sites) siteOfNode(id NodeID) string { return w.s.siteOf(id).String() }

// S32: a command acts for the site that its controller is recorded with, and a controller and a host
// with anything of a volume stay at their site.
func TestS32_SitesAreOnRecord(t *testing.T) {
	w := newSites(t)
	w.ok(controllerA, registerMember("cA", "A"))
	w.rejected(Precondition, controllerA, registerMember("cA", "B"))
	w.rejected(Forbidden, controllerA, registerMember("cC", "A"))
	for _, site := range []string{"", "a b", "-A", string(make([]byte, 64))} {
		w.rejected(Invalid, "controller/c9", registerMember("c9", site))
	}
	w.site = "B"
	w.rejected(Forbidden, controllerA, create(1))
	w.rejected(Unreachable, "controller/c9", create(1))
	w.site = DefaultSite
	w.rejected(Forbidden, controllerA, create(1))
	w.site = ""
	v := w.readyAt("A", 1, create(1))
	r := replicating(string(v.Replicas[0].Node))
	r.Site = "B"
	w.rejected(Precondition, "node/"+r.NodeId, r)
	w.okAt("A", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejected(Precondition, "node/"+r.NodeId, r)
	w.report(r.NodeId, &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
	w.ok("node/"+r.NodeId, r)
}

// S33: names of one site are unknown at the other, for all that has a name.
func TestS33_NamesArePerSite(t *testing.T) {
	w := newSites(t)
	a := w.readyAt("A", 1, create(1))
	second := changed(2, func(c *fsmpb.CreateVolume) { c.Name = a.Name })
	b := w.readyAt("B", 2, second)
	require.NotEqual(t, a.ID, b.ID, "two orchestrators create a volume of one name")
	require.Equal(t, []string{"A", "B"}, []string{w.siteOfNode(a.Replicas[0].Node), w.siteOfNode(b.Replicas[0].Node)})
	again := w.okAt("A", changed(3, func(c *fsmpb.CreateVolume) { c.Name = a.Name }))
	require.Equal(t, string(a.ID), again.GetVolumeId())
	w.readyAt("A", 4, create(4))
	w.okAt("A", createSnapshot(1, 4))
	other := createSnapshot(2, 2)
	other.Name = createSnapshot(1, 4).Name
	require.Equal(t, snapshotID(2), w.okAt("B", other).GetSnapshotId())
	w.readyAt("B", 5, create(5))
	w.readyAt("A", 6, create(6))
	w.okAt("A", createGroup(1, 6))
	sameName := createGroup(2, 5)
	sameName.Name = createGroup(1, 6).Name
	require.Equal(t, groupID(2), w.okAt("B", sameName).GetGroupSnapshotId())
	w.okAt("A", createVolumeGroup(1))
	require.Equal(t, volumeGroupID(2), w.okAt("B", changedGroup(2, func(c *fsmpb.CreateVolumeGroup) { c.Name = createVolumeGroup(1).Name })).GetVolumeGroupId())
	require.Nil(t, w.s.VolumeNamed(a.Name), "an operator says which is meant")
	require.Equal(t, b.ID, w.s.VolumeNamed("B/"+a.Name).ID)
	w.okAt("A", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, b.ID, w.s.VolumeNamed(a.Name).ID)
}

// S29, S35: what changes a volume or copies it comes through its home; it moves with a publication.
func TestS35_AVolumeHasOneHome(t *testing.T) {
	w := newSites(t)
	twoSites := changed(1, func(c *fsmpb.CreateVolume) { c.Replicas, c.Sites = 2, []string{"B", "A"} })
	w.at("A", func(string) { w.readyReplicatedBy(controllerA, 1, twoSites) })
	v := w.volume(1)
	require.Equal(t, "A", v.Home.String())
	require.Equal(t, []string{"A", "B"}, []string{w.siteOfNode(v.Replicas[0].Node), w.siteOfNode(v.Replicas[1].Node)}, "one replica at each site")
	changes := []proto.Message{
		&fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib},
		&fsmpb.ModifyVolume{VolumeId: volumeID(1), Limits: &fsmpb.Limits{ReadIops: 5}},
		createSnapshot(1, 1), createGroup(1, 1),
		createFrom(2, fromVolume(1)),
		&fsmpb.DeleteVolume{VolumeId: volumeID(1)},
	}
	for _, c := range changes {
		w.rejectedAt("B", Precondition, c)
	}
	atB := publish(1, string(v.Replicas[1].Node))
	w.okAt("B", atB)
	require.Equal(t, "B", w.volume(1).Home.String(), "nobody else had it published")
	for _, c := range changes {
		w.rejectedAt("A", Precondition, c)
	}
	w.rejectedAt("A", InUse, publish(1, string(v.Replicas[0].Node)))
	require.Equal(t, "B", w.volume(1).Home.String())
}

// S35: a volume that moved is deleted at its home, also while it is in a group of the site that had it: that site's
// endpoints may be gone for good. There it stays a member until then, and keeps the group from being deleted.
func TestS35_AVolumeThatMovedIsDeletedAtItsHome(t *testing.T) {
	w := newSites(t)
	twoSites := changed(1, func(c *fsmpb.CreateVolume) { c.Replicas, c.Sites = 2, []string{"B", "A"} })
	w.at("A", func(string) { w.readyReplicatedBy(controllerA, 1, twoSites) })
	w.readyAt("A", 2, create(2))
	w.okAt("A", createVolumeGroup(1, 1, 2))
	w.okAt("B", publish(1, string(w.volume(1).Replicas[1].Node)))
	w.okAt("B", &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	require.Equal(t, volumeIDs(1, 2), w.members(1))
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(2)})
	w.rejected(Precondition, admin, &fsmpb.DeleteVolume{VolumeId: volumeID(2)})
	w.okAt("B", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, volumeIDs(2), w.members(1))
	w.okAt("A", &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
}

// S36: through a site only its own nodes exist.
func TestS36_OnlyTheSitesOwnNodesExist(t *testing.T) {
	w := newSites(t)
	v := w.readyAt("A", 1, create(1))
	node := string(v.Replicas[0].Node)
	w.rejectedAt("B", NotFound, publish(1, node))
	w.okAt("A", publish(1, node))
	require.True(t, w.s.Through("B").HiddenNodes()[NodeID(node)])
	require.Nil(t, newWorld(t).s.Through(DefaultSite).HiddenNodes(), "with one site nothing changes")
	for _, n := range []string{node, ""} {
		require.Empty(t, w.s.Through("B").UnpublishProgress(controller, v.ID, NodeID(n)).Held)
		w.okAt("B", &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: n})
		require.NotNil(t, w.volume(1).Publication(NodeID(node)), "a stale attachment of another cluster ends nothing")
	}
	require.Len(t, w.s.Through("A").UnpublishProgress(controller, v.ID, "").Held, 1)
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.Empty(t, w.volume(1).Publications())
	a, _ := w.s.Through("A").Available(nil, nil, 1, nil)
	c, _ := w.s.Through("C").Available(nil, nil, 1, nil)
	require.Positive(t, a)
	require.Zero(t, c, "a site without hosts has no room")
	w.rejectedAt("A", NoCapacity, changed(2, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n3")} }))
}

// S32: the replicas of a volume at two sites stay at them, and those of another at one.
func TestS32_ReplicasStayAtTheirSites(t *testing.T) {
	w := newSites(t)
	for name, c := range map[string]func(*fsmpb.CreateVolume){
		"one site":       func(c *fsmpb.CreateVolume) { c.Replicas, c.Sites = 2, []string{"A"} },
		"one site twice": func(c *fsmpb.CreateVolume) { c.Replicas, c.Sites = 2, []string{"A", "A"} },
		"one replica":    func(c *fsmpb.CreateVolume) { c.Sites = []string{"A", "B"} },
		"others":         func(c *fsmpb.CreateVolume) { c.Replicas, c.Sites = 2, []string{"B", "C"} },
	} {
		t.Run(name, func(t *testing.T) { w.rejectedAt("A", Invalid, changed(9, c)) })
	}
	w.at("A", func(string) {
		w.readyReplicatedBy(controllerA, 1, changed(1, func(c *fsmpb.CreateVolume) { c.Replicas = 2 }))
		w.readyReplicatedBy(controllerA, 2, changed(2, func(c *fsmpb.CreateVolume) { c.Replicas, c.Sites = 2, []string{"A", "B"} }))
	})
	for n, want := range map[int][]string{1: {"A", "A"}, 2: {"A", "B"}} {
		v := w.volume(n)
		require.Equal(t, want, []string{w.siteOfNode(v.Replicas[0].Node), w.siteOfNode(v.Replicas[1].Node)})
	}
	lost := w.volume(2).Replicas[1]
	w.ok("admin/ann", &fsmpb.LoseNode{NodeId: string(lost.Node), HostId: string(lost.Host), Reason: "burnt"})
	w.rejected(Precondition, "controller/c1", &fsmpb.AddReplica{VolumeId: volumeID(2), NodeId: otherThan(w.volume(2).Replicas[0].Node, "n1", "n2")})
	w.ok("controller/c1", &fsmpb.AddReplica{VolumeId: volumeID(2)})
	added := w.volume(2).ActiveReplicas()[1]
	require.Equal(t, "B", w.siteOfNode(added.Node))
	require.NotEqual(t, lost.Node, added.Node)
}

func otherThan(node NodeID, choices ...string) string {
	for _, c := range choices {
		if c != string(node) {
			return c
		}
	}
	return ""
}

// S29: what a group snapshot cut, and a kept copy, belong to their site: volumes are made of them there.
func TestSnapshotsBelongToTheSiteThatCutThem(t *testing.T) {
	w := newSites(t)
	w.readyAt("B", 1, create(1))
	cut := createGroup(1, 1)
	w.okAt("B", cut)
	id := cut.GetMembers()[0].GetSnapshotId()
	for site, allowed := range map[Site]bool{"A": false, "B": true} {
		rej := w.s.checkSourceSite(endpoint{site: site, named: true}, &Volume{Source: Source{Snapshot: SnapshotID(id)}})
		require.Equal(t, allowed, rej == nil, site)
	}
	host, _ := w.s.Node("n3")
	kept := newKeptCopy(w.volume(1), host, SnapshotID(snapshotID(9)), "pool-n3")
	require.Equal(t, Site("B"), kept.Origin)
}

// S32: a host registers with a name of a site; one that was recorded with another text at level 1 stays.
func TestAHostsSiteIsAName(t *testing.T) {
	bad := register("n5")
	bad.Site = "rack 1"
	newWorld(t).rejected(Invalid, "node/n5", bad)
	w := newWorldAt(t, Level1)
	w.ok("node/n5", bad)
	w.ok(controller, &fsmpb.SetFeatureLevel{Level: Level2})
	w.ok("node/n5", bad)
}
