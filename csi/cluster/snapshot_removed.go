package cluster

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// SnapshotRemoved tells whether no reachable host has the snapshot any more (S18).
func SnapshotRemoved(state *fsm.State, id fsm.SnapshotID) (bool, error) {
	snap, ok := state.Snapshot(id)
	if !ok {
		return true, nil
	}
	if snap.Phase != fsm.SnapshotDeleting {
		return false, nil
	}
	node, known := state.Node(snap.Node)
	removalPending := !snap.Gone && known && node.Host == snap.Host && node.State == fsm.NodeReachable
	if removalPending && snap.Operation != nil && snap.Operation.State == fsm.OpFailed {
		return false, fmt.Errorf("delete snapshot %s: node %s failed to remove it: %s; retry %s once this is mended",
			id, snap.Node, snap.Operation.LastError, snap.Operation.ID)
	}
	return !removalPending, nil
}
