package session

import (
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// impairedVolumes are the replicated volumes that lack a replica, and how many are
// being synchronised onto a new one. A volume without a replica that is up to date
// and can be asked is not among them: only an operator helps there.
func impairedVolumes(state *fsm.State) (all []impaired, busy int) {
	for v := range mayLack(state) {
		if v.Replication == nil {
			continue
		}
		if _, ready := v.Phase.(fsm.Ready); !ready {
			continue
		}
		if mendingNow(v) {
			busy++
		}
		if lacking, ok := impairedBy(state, v); ok {
			all = append(all, lacking)
		}
	}
	return all, busy
}

// mayLack yields each volume once that may lack a replica: those that are not settled,
// and those of hosts that cannot be asked. The others are not looked at.
func mayLack(state *fsm.State) iter.Seq[*fsm.Volume] {
	return func(yield func(*fsm.Volume) bool) {
		seen := map[fsm.VolumeID]bool{}
		once := func(v *fsm.Volume) bool {
			if seen[v.ID] {
				return true
			}
			seen[v.ID] = true
			return yield(v)
		}
		for v := range state.VolumesInRepair() {
			if !once(v) {
				return
			}
		}
		for n := range state.Nodes() {
			if n.State == fsm.NodeReachable {
				continue
			}
			for v := range state.VolumesOn(n.ID) {
				if !once(v) {
					return
				}
			}
		}
	}
}

// mendingNow: a replica of it is being made or synchronised.
func mendingNow(v *fsm.Volume) bool {
	return slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool { return r.State == fsm.ReplicaPlanned }) ||
		slices.ContainsFunc(v.Replication.Syncs, func(l fsm.ReplicaSync) bool {
			return l.Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
		})
}

// impairedBy looks at one volume.
func impairedBy(state *fsm.State, v *fsm.Volume) (impaired, bool) {
	var away, good *fsm.ReplicaSync
	kept := 0
	for i := range v.Replication.Syncs {
		leg := &v.Replication.Syncs[i]
		r := v.Replica(leg.Host)
		if r == nil || r.State == fsm.ReplicaLeaving {
			continue
		}
		kept++
		switch {
		case !canBeAsked(state, r.Node, leg.Host):
			away = leg
		case leg.UpToDate && r.State == fsm.ReplicaPresent:
			good = leg
		}
	}
	switch short := kept < int(v.Replication.ReplicaCount); {
	case good == nil || away == nil && !short:
		return impaired{}, false
	case away == nil:
		return impaired{volume: v.ID}, !mendingNow(v)
	}
	node := v.Replica(away.Host).Node
	return impaired{volume: v.ID, node: node, host: away.Host, doubt: doubt(v, node, away, good)}, true
}

// canBeAsked tells whether the node is that host, and has a session.
func canBeAsked(state *fsm.State, node fsm.NodeID, host fsm.HostID) bool {
	n, ok := state.Node(node)
	return ok && n.Host == host && n.State == fsm.NodeReachable
}

// doubt says why the host that is away may still write, empty when nothing suggests
// it: the replication network may work where the controllers' does not (S8), and
// what was granted is ended by its own word, or by the mark that it lost.
func doubt(v *fsm.Volume, node fsm.NodeID, away, good *fsm.ReplicaSync) string {
	grant := v.Replication.Primary
	switch {
	case good.Observed.Connected():
		return fmt.Sprintf("the replica on %s is connected to it", good.Host)
	case v.Publication(node) != nil:
		return "the volume is published there"
	case grant != nil && grant.Host == away.Host:
		return "it holds the grant to be primary"
	case !away.Outdated && v.Teardown(away.Host) != nil:
		return "it did not say that it stopped, and is not recorded as outdated"
	case !away.Outdated && away.Observed.Primary:
		return "it was primary when it was last heard, and is not recorded as outdated"
	}
	return ""
}
