package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S37, ADD-REPL-Disable-01 to -06: through the secondary a claim ends and nothing else, through the primary the relation.
func TestS37_DisableThroughTheSecondaryEndsAClaim(t *testing.T) {
	w := newRelated(t)
	w.okAt("B", enable(sourceOf(1), "A"))
	w.used(1, "A")
	before := *w.volume(1)
	w.okAt("B", disable(sourceOf(1)))
	require.Equal(t, []Site{"A"}, w.relation(1).Claims)
	require.Equal(t, before.Replicas, w.volume(1).Replicas)
	done, _, _ := w.s.ClaimEndHolds(sourceOf(1), "B")
	require.True(t, done)
	w.okAt("B", disable(sourceOf(1)))
	w.okAt("B", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.True(t, w.s.KeptByRelation(VolumeID(volumeID(1)), "B"))
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejected(Precondition, admin, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejected(Invalid, controller, disable(sourceOf(1)))
	w.okAt("A", disable(sourceOf(1)))
	require.Nil(t, w.volume(1).RelationMember)
	require.Len(t, w.volume(1).ActiveReplicas(), 2, "it was created with both")
	w.okAt("A", disable(sourceOf(1)))
	w.okAt("B", disable(sourceOf(1)))
	w.rejectedAt("B", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
}

// S37: while nobody is primary the last claim is not ended by a deletion, and the site that disables has everything.
func TestS37_TheLastClaimOfADemotedVolume(t *testing.T) {
	w := newRelated(t)
	w.okAt("B", enable(sourceOf(1), "A"))
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("B", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, []Site{"A"}, w.relation(1).Claims)
	w.okAt("B", disable(sourceOf(1)))
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.okAt("A", disable(sourceOf(1)))
	require.Nil(t, w.s.RelationOf(w.volume(1)))
	require.Equal(t, Site("A"), w.volume(1).Home)
}

// S37: a site whose replica lacks writes does not become the home.
func TestS37_WhatIsBehindDoesNotBecomeTheHome(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	w.alone(1, "A")
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.tornDown(1, "A")
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("B", enable(sourceOf(1), "A"))
	w.okAt("A", disable(sourceOf(1))) // its claim
	w.rejectedAt("B", Precondition, disable(sourceOf(1)))
}

// S37: what replication made is removed with it, also where its host cannot be asked, and without the other site.
func TestS37_DisableRemovesWhatReplicationMade(t *testing.T) {
	w := newConverted(t)
	w.siteUnreachable("B", true)
	w.reboot(w.node(1, "A")) // what it has is known by its content
	w.attach(1, w.node(1, "A"), 2)
	w.reportCurrent(1, w.node(1, "A"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	node := w.node(1, "B")
	w.okAt("A", disable(sourceOf(1)))
	require.Equal(t, ReplicaLeaving, w.volume(1).Replica(HostID("host-"+node)).State)
	require.Len(t, w.volume(1).ActiveReplicas(), 1)
	w.okAt("A", publish(1, string(w.volume(1).ActiveReplicas()[0].Node)))
}

// S37, S53, ADD-VG-Delete-05: a group through its other site.
func TestS37_AGroupThroughTheSecondary(t *testing.T) {
	w := newRelatedGroup(t)
	named := createVolumeGroup(2, 1, 2)
	named.Name = "of-b"
	require.Equal(t, volumeGroupID(1), w.okAt("B", named).GetVolumeGroupId())
	require.Equal(t, []Site{"A", "B"}, w.relation(1).Claims)
	g, ok := w.s.VolumeGroupByName("B", "of-b")
	require.True(t, ok)
	require.Equal(t, VolumeGroupID(volumeGroupID(1)), g.ID)
	wrong := createVolumeGroup(3, 1)
	wrong.Name = "of-b"
	w.rejectedAt("B", Incompatible, wrong)
	before := *w.volume(1)
	w.okAt("B", modifyVolumeGroup(1))
	require.Equal(t, volumeIDs(1, 2), w.members(1))
	require.Equal(t, []Site{"A"}, w.relation(1).Claims)
	w.okAt("B", &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	_, ok = w.s.VolumeGroupByName("B", "of-b")
	require.False(t, ok)
	require.Equal(t, before, *w.volume(1))
	w.okAt("B", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.okAt("A", demote(groupSource(1)))
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejectedAt("A", Precondition, modifyVolumeGroup(1))
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	w.okAt("A", disable(groupSource(1)))
}

// S35, S37: when the primary disabled replication first, the other site's orchestrator ends what it has of the group
// without a change to the group.
func TestS37_AGroupIsEndedThroughTheOtherSiteAfterItsReplication(t *testing.T) {
	w := newRelatedGroup(t)
	named := createVolumeGroup(2, 1, 2)
	named.Name = "of-b"
	w.okAt("B", named)
	w.okAt("A", disable(groupSource(1)))
	w.okAt("B", disable(groupSource(1)))
	w.okAt("B", modifyVolumeGroup(1))
	require.Equal(t, volumeIDs(1, 2), w.members(1))
	w.okAt("B", &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1), KeepVolumes: true})
	require.Equal(t, volumeIDs(1, 2), w.members(1))
	_, ok := w.s.VolumeGroupByName("B", "of-b")
	require.False(t, ok)
	w.okAt("A", modifyVolumeGroup(1))
	w.okAt("A", &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	_, ok = w.s.VolumeGroup(VolumeGroupID(volumeGroupID(1)))
	require.False(t, ok)
}

// S37: the site that made a group deletes it after the role moved, which changes nothing at the other one. When that one
// disables replication nobody has the group any more: it ends, and its volumes stay. The deletion may be repeated at any time.
func TestS37_AGroupEndsWithItsLastUse(t *testing.T) {
	for _, named := range []bool{false, true} {
		w := newRelatedGroup(t)
		of := createVolumeGroup(2, 1, 2)
		of.Name = "of-b"
		if named {
			w.okAt("B", of)
		}
		w.okAt("A", demote(groupSource(1)))
		w.okAt("B", promote(groupSource(1)))
		remove := &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)}
		for range 2 {
			w.okAt("A", remove)
			require.Equal(t, volumeIDs(1, 2), w.members(1))
		}
		w.at("B", func(actor string) { w.ok(actor, disable(groupSource(1))) })
		_, there := w.s.VolumeGroup(VolumeGroupID(volumeGroupID(1)))
		require.Equal(t, named, there)
		w.okAt("A", remove)
		if named {
			w.okAt("B", disable(groupSource(1)))
		} else {
			w.rejectedAt("B", NotFound, disable(groupSource(1))) // which callers take for disabled (ADD-REPL-Disable-05)
		}
		for _, n := range []int{1, 2} {
			require.Nil(t, w.s.RelationOf(w.volume(n)))
			require.Equal(t, Ready{}, w.volume(n).Phase)
			require.Equal(t, named, w.s.GroupOf(w.volume(n).ID) != "")
		}
		if named {
			w.okAt("B", modifyVolumeGroup(1))
			w.okAt("A", remove)
			w.okAt("B", remove)
		}
		w.okAt("B", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	}
}

// S70: a volume whose hosts were all lost is in no relation, and can be deleted; its group goes on.
func TestS70_AVolumeThatFailedIsInNoRelation(t *testing.T) {
	w := newRelated(t)
	w.lose(1, "A")
	w.lose(1, "B")
	require.Nil(t, w.s.RelationOf(w.volume(1)))
	w.okAt("A", disable(sourceOf(1)))
	w.ok(admin, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})

	g := newTwoSites(t, 1)
	g.readyAt("A", 2, create(2))
	g.okAt("A", createVolumeGroup(1, 1, 2))
	g.okAt("A", enable(groupSource(1), "B"))
	seed := g.volume(2).Replicas[0].Node
	if string(seed) == g.node(1, "A") {
		seed = ""
	}
	if seed != "" { // the host that has the content of a volume that is being converted
		g.admin(&fsmpb.LoseNode{NodeId: string(seed), HostId: "host-" + string(seed), Reason: "burnt"})
		require.True(t, g.volume(2).isContentLost())
	}
	g.okAt("A", demote(groupSource(1)))
	g.okAt("A", promote(groupSource(1)))
	g.okAt("A", modifyVolumeGroup(1, 1))
	g.okAt("A", disable(groupSource(1)))
	if seed != "" {
		g.ok(admin, &fsmpb.DeleteVolume{VolumeId: volumeID(2)})
	}
}

// S50: what was to be kept for the relation is not waited for when there is none any more.
func TestS50_NothingIsKeptForARelationThatEnded(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	w.alone(1, "A")
	require.True(t, w.replicaSync(1, w.node(1, "B")).KeepDue)
	w.okAt("A", disable(sourceOf(1)))
	require.False(t, w.replicaSync(1, w.node(1, "B")).KeepDue)
	require.True(t, w.desired(1, "B").Connect)
}
