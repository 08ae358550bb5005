package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S30, S38, S46, ADD-REPL-Promote-01, ADD-REPL-Demote-01: the role goes by demotion and promotion, one entry each.
func TestS38_TheRoleMovesByDemoteAndPromote(t *testing.T) {
	w := newRelated(t)
	w.isPrimary(1, "A")
	w.okAt("A", promote(sourceOf(1)))
	w.rejectedAt("B", Busy, promote(sourceOf(1)))
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
	w.used(1, "A")
	w.rejectedAt("A", Precondition, demote(sourceOf(1)))
	epoch := w.volume(1).Publications()[0].Epoch
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.okAt("A", demote(sourceOf(1)))
	w.isPrimary(1, "")
	done, _, rej := w.s.DemoteHolds(sourceOf(1), "A")
	require.Nil(t, rej)
	require.False(t, done, "its host may be primary still")
	w.okAt("B", promote(sourceOf(1)))
	w.isPrimary(1, "B")
	require.False(t, w.holds(1, "B"), "the host of A has not ended its use")
	w.reportCurrent(1, w.node(1, "A"), inSyncObservation(7))
	w.unstaged(1, w.node(1, "A"), epoch)
	require.True(t, w.holds(1, "B"))
	w.used(1, "B")
	require.Equal(t, Site("B"), w.volume(1).Home)
	w.rejectedAt("A", Precondition, publish(1, w.node(1, "A")))
}

// S38: whoever proposes it, nothing is published outside of the primary.
func TestS38_NobodyIsPublishedOutsideOfThePrimary(t *testing.T) {
	w := newRelated(t)
	w.rejected(Precondition, controller, publish(1, w.node(1, "B")))
	w.rejected(Precondition, admin, publish(1, w.node(1, "B")))
	w.okAt("A", demote(sourceOf(1)))
	w.rejected(Precondition, controller, publish(1, w.node(1, "A")))
	w.rejectedAt("A", Precondition, publish(1, w.node(1, "A")))
	// What is published at the other site when replication is enabled would be used beside the primary.
	other := newTwoSites(t, 1)
	other.ok(admin, publish(1, other.node(1, "B")))
	other.rejectedAt("A", Precondition, enable(sourceOf(1), "B"))
}

// S38, S42: a promotion beside a primary that cannot be asked waits until that one is cut off.
func TestS42_APromotionHoldsWhenTheOtherSiteIsCutOff(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	before := w.relation(1).Role
	w.siteUnreachable("A", true)
	w.okAt("B", promote(sourceOf(1)))
	primary, moving := w.roles(1)
	require.Equal(t, []string{"", "B"}, []string{primary, moving})
	require.Empty(t, w.volume(1).Publications())
	require.False(t, w.desired(1, "B").Connect)
	require.False(t, w.holds(1, "B"))
	w.rejectedAt("B", Precondition, publish(1, w.node(1, "B")))
	w.rejectedAt("A", Busy, promote(sourceOf(1)))
	require.Equal(t, before, w.relation(1).Role)
	w.severed(1, "B")
	w.isPrimary(1, "B")
	require.True(t, w.holds(1, "B"))
	require.NotNil(t, w.relation(1).ousted("A"))
	w.at("B", func(actor string) { w.ok(actor, publish(1, w.node(1, "B"))) })
	w.ok("node/"+w.node(1, "B"), w.setPrimary(1, w.node(1, "B"), disconnectedObservation(7, standAlone)))
}

// S38: a role that moves goes back when the site to which it moves cannot be asked.
func TestS38_TheRoleIsTakenBack(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	w.siteUnreachable("A", true)
	w.okAt("B", promote(sourceOf(1)))
	w.siteUnreachable("A", false)
	w.rejectedAt("A", Busy, promote(sourceOf(1)))
	w.rejectedAt("A", Busy, demote(sourceOf(1)))
	w.rejectedAt("A", Busy, resync(sourceOf(1), true))
	w.rejectedAt("A", Busy, disable(sourceOf(1)))
	w.rejectedAt("B", Busy, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.siteUnreachable("B", true)
	w.okAt("A", promote(sourceOf(1)))
	w.isPrimary(1, "A")
	require.Nil(t, w.relation(1).ousted("A"))
}

// S38: when the move cannot be completed any more, as the replica lost what made it whole, force ends it.
func TestS38_AMoveThatCannotBeCompletedIsForced(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	w.siteUnreachable("A", true)
	w.okAt("B", promote(sourceOf(1)))
	node := w.node(1, "B")
	w.reboot(node)
	w.rejectedAt("B", Busy, promote(sourceOf(1))) // not attached: nobody knows what it has
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
	w.attach(1, node, 2)
	w.reportCurrent(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.rejectedAt("B", NeedsForce, promote(sourceOf(1)))
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.isPrimary(1, "B")
	require.NotNil(t, w.volume(1).RelationMember.GivenUp)
}

// S11: with protocol A the role of a primary that cannot be asked takes force.
func TestS11_WithProtocolATheRoleTakesForce(t *testing.T) {
	w := newTwoSites(t, 0)
	c := createAtTwoSites(1)
	c.Protocol = protocolA
	w.at("A", func(actor string) { w.readyReplicatedBy(actor, 1, c) })
	w.okAt("A", enable(sourceOf(1), "B"))
	w.used(1, "A")
	w.siteUnreachable("A", true)
	w.rejectedAt("B", NeedsForce, promote(sourceOf(1)))
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.isPrimary(1, "B")
	require.True(t, w.volume(1).isApart("A"))
}

// S39: what was decided before the role moved is not applied after it.
func TestS39_ALateCommandIsRefused(t *testing.T) {
	w := newRelated(t)
	old := w.s.ReplicationRole(sourceOf(1))
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("B", promote(sourceOf(1)))
	w.siteUnreachable("B", true)
	w.rejectedAt("A", Moved, &fsmpb.PromoteReplication{Source: sourceOf(1), Role: old})
	w.rejectedAt("A", Moved, &fsmpb.PromoteReplication{Source: sourceOf(1), Role: old, Force: true})
	w.rejectedAt("B", Moved, &fsmpb.DemoteReplication{Source: sourceOf(1), Role: old})
	w.rejectedAt("A", Moved, &fsmpb.DemoteReplication{Source: sourceOf(1), Role: old})
	w.rejectedAt("A", Moved, &fsmpb.ResyncReplication{Source: sourceOf(1), Role: old, Force: true})
	w.rejectedAt("A", Moved, &fsmpb.DisableReplication{Source: sourceOf(1), Role: old})
	w.rejectedAt("B", Moved, &fsmpb.DisableReplication{Source: sourceOf(1), Role: old})
	w.okAt("B", &fsmpb.PromoteReplication{Source: sourceOf(1), Role: old})
}

// S39, S41: a demotion that was held up does not end that its site is ousted.
func TestS39_ALateDemotionDoesNotEndThatItsSiteIsOusted(t *testing.T) {
	w := newRelated(t)
	old := w.s.ReplicationRole(sourceOf(1))
	w.used(1, "A")
	w.siteUnreachable("A", true)
	w.okAt("B", promote(sourceOf(1)))
	w.severed(1, "B")
	w.isPrimary(1, "B")
	w.rejectedAt("A", Moved, &fsmpb.DemoteReplication{Source: sourceOf(1), Role: old})
	require.NotNil(t, w.relation(1).ousted("A"))
}

// S41: a site that lost the role says so before it may have it again.
func TestS41_AnOustedSiteIsNotPromoted(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	epoch := w.volume(1).Publications()[0].Epoch
	w.siteUnreachable("A", true)
	w.okAt("B", promote(sourceOf(1)))
	w.severed(1, "B")
	w.siteUnreachable("A", false)
	w.siteUnreachable("B", true)
	for range 2 {
		w.rejectedAt("A", Busy, promote(sourceOf(1)))
		w.rejectedAt("A", Busy, promoteByForce(sourceOf(1)))
	}
	w.okAt("A", demote(sourceOf(1)))
	done, _, _ := w.s.DemoteHolds(sourceOf(1), "A")
	require.False(t, done, "its host owes a teardown")
	w.unstaged(1, w.node(1, "A"), epoch)
	w.siteUnreachable("B", false)
	w.rejectedAt("A", Busy, promote(sourceOf(1)))
	require.Nil(t, w.relation(1).ousted("A"))
}

// S40: no refusal of Promote is answered with FAILED_PRECONDITION but for two reasons.
func TestS40_PromoteIsRefusedForTwoPreconditionsOnly(t *testing.T) {
	w := newRelated(t)
	w.readyAt("A", 2, create(2))
	w.rejectedAt("A", NotReplicated, promote(sourceOf(2)))
	w.rejectedAt("A", NotFound, promote(sourceOf(9)))
	w.rejectedAt("A", Invalid, promote(&fsmpb.ReplicationSource{}))
	w.rejected(Invalid, admin, promote(sourceOf(1)))
	// Every host that had the content is lost: the volume failed.
	w.lose(1, "B")
	w.lose(1, "A")
	require.True(t, w.volume(1).isFailed())
	w.rejectedAt("A", NotReplicated, promote(sourceOf(1)))
	w.rejectedAt("B", NotReplicated, promoteByForce(sourceOf(1)))
}

// S42: a host that cannot be asked, and a device that is missing, are no matter of force.
func TestS42_APromotionNeedsItsOwnHost(t *testing.T) {
	w := newRelated(t)
	w.siteUnreachable("A", true)
	w.siteUnreachable("B", true)
	w.rejectedAt("B", Unreachable, promote(sourceOf(1)))
	w.rejectedAt("B", Unreachable, promoteByForce(sourceOf(1)))
	w.siteUnreachable("B", false)
	w.fact(1, w.node(1, "B"), &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
	w.rejectedAt("B", Busy, promote(sourceOf(1)))
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
}

// S38, S42: the members of a group move in one entry, or none of them.
func TestS38_AGroupMovesAsOne(t *testing.T) {
	w := newRelatedGroup(t)
	w.rejectedAt("B", NotReplicated, promote(sourceOf(1)))
	w.used(1, "A")
	w.used(2, "A")
	w.siteUnreachable("A", true)
	w.siteUnreachable("B", false)
	w.okAt("B", promote(groupSource(1)))
	for _, n := range []int{1, 2} {
		require.Empty(t, w.volume(n).Publications())
		_, moving := w.roles(n)
		require.Equal(t, "B", moving)
	}
	w.severed(1, "B")
	_, moving := w.roles(1)
	require.Equal(t, "B", moving, "the other member is not cut off")
	w.severed(2, "B")
	w.isPrimary(1, "B")
	w.isPrimary(2, "B")
	require.Equal(t, Site("B"), w.volume(2).Home)
}

// S38: of a group with a member that is not ready nothing moves.
func TestS38_AGroupWithAMemberThatIsNotReadyStays(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(w *related)
		want  Reason
	}{
		"its peer went on without it": {func(w *related) { w.used(2, "A"); w.alone(2, "A") }, NeedsForce},
		"its device is missing": {func(w *related) {
			w.fact(2, w.node(2, "B"), &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
		}, Busy},
		"it was never whole": {func(w *related) { w.lose(2, "B"); w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(2)}) }, Busy},
		"it is not attached": {func(w *related) { w.reboot(w.node(2, "B")) }, Busy},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRelatedGroup(t)
			tc.spoil(w)
			w.siteUnreachable("A", true)
			w.rejectedAt("B", tc.want, promote(groupSource(1)))
			w.isPrimary(1, "A")
			if tc.want == Busy {
				w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
			}
		})
	}
}
