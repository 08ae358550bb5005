package controller

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/fsm"
)

// volumeOf is a volume as CSI describes it. It has no volume_context: the id alone
// names it.
func volumeOf(state *fsm.State, v *fsm.Volume) *csi.Volume {
	volume := &csi.Volume{VolumeId: string(v.ID), CapacityBytes: v.Size}
	for i := range v.Replicas {
		volume.AccessibleTopology = append(volume.AccessibleTopology, server.Topology(placeOf(state, &v.Replicas[i])))
	}
	return volume
}

// placeOf is the topology of a replica's host.
func placeOf(state *fsm.State, r *fsm.Replica) fsm.Topology {
	if n, ok := state.Node(r.Node); ok {
		return n.Topology()
	}
	return fsm.Topology{{Key: fsm.TopologyKey, Value: string(r.Node)}}
}

func publishedNodes(v *fsm.Volume) []string {
	var nodes []string
	for _, p := range v.Publications() {
		nodes = append(nodes, string(p.Node))
	}
	return nodes
}

// conditionOf is the volume's condition as the controllers see it: what its host
// said of it, and whether that host can be asked.
func conditionOf(state *fsm.State, v *fsm.Volume) *csi.VolumeCondition {
	worst := v.Condition
	for i := range v.Replicas {
		if trouble := troubleWith(state, &v.Replicas[i]); trouble != "" && !worst.Abnormal {
			worst = fsm.Condition{Abnormal: true, Message: trouble}
		}
	}
	return server.Condition(worst)
}

// troubleWith says why a replica is not at hand, and nothing when it is.
func troubleWith(state *fsm.State, r *fsm.Replica) string {
	n, ok := state.Node(r.Node)
	switch {
	case !ok || n.Host != r.Host:
		return fmt.Sprintf("node %s is no longer the host that holds the data", r.Node)
	case n.State == fsm.NodeLost:
		return fmt.Sprintf("node %s was recorded as lost", r.Node)
	case n.State == fsm.NodeUnreachable:
		return fmt.Sprintf("node %s cannot be reached", r.Node)
	case n.Incarnation != state.Cluster().Incarnation:
		return fmt.Sprintf("node %s is in adoption mode", r.Node)
	case r.State == fsm.ReplicaMissing:
		return fmt.Sprintf("the device is missing on node %s", r.Node)
	}
	return ""
}
