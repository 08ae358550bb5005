package controller

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// nodeView is a consistent view of the nodes that hold some volumes. Nodes and volumes
// that come out of a state never change, so they can be looked at without its lock.
type nodeView struct {
	nodes       map[fsm.NodeID]*fsm.Node
	incarnation uint64
	// replicated are the conditions of replicated volumes, as the log has them.
	replicationConditions map[fsm.VolumeID]fsm.Condition
}

// nodeViewOf are the volumes' nodes.
func nodeViewOf(state *fsm.State, volumes ...*fsm.Volume) *nodeView {
	view := &nodeView{nodes: map[fsm.NodeID]*fsm.Node{}, incarnation: state.Cluster().Incarnation, replicationConditions: map[fsm.VolumeID]fsm.Condition{}}
	for _, v := range volumes {
		if v.Replication != nil {
			view.replicationConditions[v.ID] = state.ReplicationCondition(v)
		}
		for i := range v.Replicas {
			id := v.Replicas[i].Node
			if _, known := view.nodes[id]; known {
				continue
			}
			if n, ok := state.Node(id); ok {
				view.nodes[id] = n
			}
		}
	}
	return view
}

// volume is a volume as CSI describes it. It has no volume_context: the id alone names
// it.
func (h *nodeView) volume(v *fsm.Volume) *csi.Volume {
	volume := &csi.Volume{VolumeId: string(v.ID), CapacityBytes: v.Size, ContentSource: csiconv.ContentSource(v.Source)}
	for i := range v.Replicas {
		if r := &v.Replicas[i]; isAccessible(r) {
			volume.AccessibleTopology = append(volume.AccessibleTopology, csiconv.Topology(h.topology(r)))
		}
	}
	return volume
}

// isAccessible: the volume can be published there, or could be once the cause of its
// unavailability is removed.
func isAccessible(r *fsm.Replica) bool {
	return r.State == fsm.ReplicaPresent || r.State == fsm.ReplicaMissing
}

// topology is the topology of a replica's host.
func (h *nodeView) topology(r *fsm.Replica) fsm.Topology {
	if n, ok := h.nodes[r.Node]; ok {
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

// condition is the volume's condition as the controllers see it: what its host reported
// of it, and whether that host is reachable.
func (h *nodeView) condition(v *fsm.Volume) *csi.VolumeCondition {
	worst := v.Condition
	if replication := h.replicationConditions[v.ID]; replication.Abnormal && !worst.Abnormal {
		worst = replication
	}
	for i := range v.Replicas {
		if !isAccessible(&v.Replicas[i]) {
			continue
		}
		if problem := h.unavailability(&v.Replicas[i]); problem != "" && !worst.Abnormal {
			worst = fsm.Condition{Abnormal: true, Message: problem}
		}
	}
	return csiconv.Condition(worst)
}

// unavailability says why a replica is not available; empty when it is.
func (h *nodeView) unavailability(r *fsm.Replica) string {
	n, ok := h.nodes[r.Node]
	switch {
	case !ok || n.Host != r.Host:
		return fmt.Sprintf("node %s is no longer the host that holds the data", r.Node)
	case n.State == fsm.NodeLost:
		return fmt.Sprintf("node %s was recorded as lost", r.Node)
	case n.State == fsm.NodeUnreachable:
		return fmt.Sprintf("node %s cannot be reached", r.Node)
	case n.Incarnation != h.incarnation:
		return fmt.Sprintf("node %s is in adoption mode", r.Node)
	case r.State == fsm.ReplicaMissing:
		return fmt.Sprintf("the device is missing on node %s", r.Node)
	}
	return ""
}
