package admin

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// enable makes the site primary of a relation with the peer site, or records its claim of the one that there is.
func (x *replicationPlan) enable() error {
	req, cmd := x.req, x.command()
	cmd.Body = &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{
		Source: x.source, PeerSite: req.GetPeerSite(), PeerNode: req.GetPeerNode(), Protocol: protocols[req.GetProtocol()],
		DiscardUnkept: req.GetDiscardUnkept(), Separately: req.GetSeparately(), FreezeIsolated: req.GetFreezeIsolated()}}
	claimed := x.relation != nil && slices.Contains(x.relation.Claims, x.site)
	t := step{action: enableReplication, detail: fmt.Sprintf("%s replicated between the sites %s and %s, %s is primary", CountOf(len(x.members), "volume"), x.site, x.other(), x.site)}
	if x.relation != nil {
		t.detail = fmt.Sprintf("it is replicated between these sites; site %s claims that", x.site)
	}
	if _, rej := x.try(t, cmd, !claimed); rej != nil {
		return nil
	}
	for _, v := range x.members {
		if x.relation == nil {
			x.addEnabled(v)
		}
	}
	x.await("replicate", func(source *fsmpb.ReplicationSource, _ fsm.Site) (bool, string, *fsm.Rejection) {
		return x.state.EnableHolds(source)
	})
	return nil
}

// addEnabled says how a volume gets its replica at the peer site.
func (x *replicationPlan) addEnabled(before *fsm.Volume) {
	t := step{action: "record", state: stepFollows, volume: before, node: x.nodeAt(before, x.other()), detail: "its replica here is the peer site's: nothing is made"}
	added := x.replicaAt(x.now(before), x.other())
	switch {
	case added == nil || t.node != "":
	case before.Replication == nil:
		t.action, t.node = "convert", added.Node
		t.detail = fmt.Sprintf("it is converted while nobody uses it: its content stays on node %s, and is copied to this node", x.nodeAt(before, x.site))
	default:
		t.action, t.node, t.detail = "add-replica", added.Node, "it gets a replica here"
	}
	x.add(t)
}

// disable ends the relation at its primary, and elsewhere the site's claim.
func (x *replicationPlan) disable() error {
	cmd := x.command()
	cmd.Body = &fsmpb.Command_DisableReplication{DisableReplication: &fsmpb.DisableReplication{Source: x.source, Role: x.role}}
	ends := x.relation != nil && (x.isPrimary() || !x.relation.Promoted && !slices.Contains(x.relation.Claims, x.other()))
	t := step{action: disableReplication, detail: "it is not replicated between sites"}
	switch {
	case ends:
		t.detail = fmt.Sprintf("its replication ends; site %s is its home", x.site)
	case x.relation != nil:
		t.detail = fmt.Sprintf("the claim of site %s ends; the replication, the data and all replicas stay", x.site)
	}
	claims := x.relation != nil && slices.Contains(x.relation.Claims, x.site)
	if _, rej := x.try(t, cmd, ends || claims); rej != nil {
		return nil
	}
	for _, v := range x.members {
		x.addDisabled(v, ends)
	}
	x.await("end", x.state.ClaimEndHolds)
	return nil
}

// addDisabled says what becomes of a volume's replicas.
func (x *replicationPlan) addDisabled(before *fsm.Volume, ends bool) {
	after, state := x.now(before), stepFollows
	if !ends {
		state = stepWaiting
	}
	undoing := after.Unconverted != nil || after.Replication != nil && after.Replication.Conversion != nil
	for i := range after.Replicas {
		r := &after.Replicas[i]
		if r.State == fsm.ReplicaLeaving {
			x.add(step{action: "remove-replica", state: state, volume: before, node: r.Node, detail: "the replica that was made for it is removed"})
			undoing = false
		}
	}
	switch peer := x.replicaAt(after, x.other()); {
	case undoing && (ends || x.relation == nil):
		x.add(step{action: "undo", state: state, volume: before, node: x.nodeAt(after, x.site), detail: "its conversion is undone: the content stays as it is"})
	case ends && peer != nil:
		x.add(step{action: "keep-replica", state: state, volume: before, node: peer.Node, detail: "its replica here was asked for when it was created, and stays"})
	}
}
