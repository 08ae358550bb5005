package policy

import (
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// degradedVolumes are the replicated volumes with a missing replica, and how many volumes are
// resynchronising a new one. A volume without an up-to-date replica
// on a reachable host is not among them: only an operator can help there.
func degradedVolumes(state *fsm.State) (all []degradedVolume, resyncing int) {
	for v := range possiblyDegraded(state) {
		if v.Replication == nil {
			continue
		}
		if _, ready := v.Phase.(fsm.Ready); !ready {
			continue
		}
		if isResyncing(v) {
			resyncing++
		}
		if degraded, ok := assessVolume(state, v); ok {
			all = append(all, degraded)
		}
	}
	return all, resyncing
}

// possiblyDegraded yields each volume once that may have a missing replica: those in repair,
// and those of hosts that are not reachable. A scan of all volumes would be too slow.
func possiblyDegraded(state *fsm.State) iter.Seq[*fsm.Volume] {
	return func(yield func(*fsm.Volume) bool) {
		visited := map[fsm.VolumeID]bool{}
		yieldOnce := func(v *fsm.Volume) bool {
			if visited[v.ID] {
				return true
			}
			visited[v.ID] = true
			return yield(v)
		}
		for v := range state.VolumesInRepair() {
			if !yieldOnce(v) {
				return
			}
		}
		for n := range state.Nodes() {
			if n.State == fsm.NodeReachable {
				continue
			}
			for v := range state.VolumesOn(n.ID) {
				if !yieldOnce(v) {
					return
				}
			}
		}
	}
}

// isGone tells whether nobody has the host's session. One that is fenced is there: its replica is not
// replaced.
func isGone(state *fsm.State, node fsm.NodeID, host fsm.HostID) bool {
	n, ok := state.Node(node)
	return !ok || n.Host != host || n.State != fsm.NodeReachable
}

// isResyncing tells whether a replica of it is being created or resynchronised.
func isResyncing(v *fsm.Volume) bool {
	return slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool { return r.State == fsm.ReplicaPlanned }) ||
		slices.ContainsFunc(v.ActiveReplicas(), func(l *fsm.Replica) bool {
			return l.Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
		})
}

// assessVolume tells whether one volume is degraded, and needs a replacement.
func assessVolume(state *fsm.State, v *fsm.Volume) (degradedVolume, bool) {
	var absent, healthy *fsm.Replica
	remaining := 0
	for _, replica := range v.ActiveReplicas() {
		r := v.Replica(replica.Host)
		if r == nil || r.State == fsm.ReplicaLeaving {
			continue
		}
		remaining++
		switch {
		case isGone(state, r.Node, replica.Host):
			absent = replica
		case replica.UpToDate && r.State == fsm.ReplicaPresent:
			healthy = replica
		}
	}
	switch tooFew := remaining < int(v.Replication.ReplicaCount); {
	case healthy == nil || absent == nil && !tooFew:
		return degradedVolume{}, false
	case absent == nil:
		return degradedVolume{volume: v.ID}, !isResyncing(v)
	}
	node := v.Replica(absent.Host).Node
	return degradedVolume{volume: v.ID, node: node, host: absent.Host, writeRisk: writeRisk(v, node, absent, healthy)}, true
}

// writeRisk is why the unreachable host may still write, empty when nothing suggests
// it: the replication network may work where the controllers' does not (S8), and
// a grant ends only when the host reports so, or its replica is recorded as outdated.
func writeRisk(v *fsm.Volume, node fsm.NodeID, absent, healthy *fsm.Replica) string {
	grant := v.Replication.Primary
	switch {
	case healthy.Observed.Connected():
		return fmt.Sprintf("the replica on %s is connected to it", healthy.Host)
	case v.Publication(node) != nil:
		return "the volume is published there"
	case grant != nil && grant.Host == absent.Host:
		return "it holds the grant to be primary"
	case !absent.Outdated && v.Teardown(absent.Host) != nil:
		return "it did not report that it stopped, and is not recorded as outdated"
	case !absent.Outdated && absent.Observed.Primary:
		return "it was primary at its last report, and is not recorded as outdated"
	}
	return ""
}
