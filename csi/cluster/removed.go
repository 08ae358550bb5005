package cluster

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// SnapshotRemoved tells whether no host that can be asked has the snapshot any more (S18).
func SnapshotRemoved(state *fsm.State, id fsm.SnapshotID) (bool, error) {
	n, ok := state.Snapshot(id)
	if !ok {
		return true, nil
	}
	if n.Phase != fsm.SnapshotDeleting {
		return false, nil
	}
	at, known := state.Node(n.Node)
	owing := !n.Gone && known && at.Host == n.Host && at.State == fsm.NodeReachable
	if owing && n.Operation != nil && n.Operation.State == fsm.OpFailed {
		return false, fmt.Errorf("delete snapshot %s: node %s failed to remove it: %s; retry %s once this is mended",
			id, n.Node, n.Operation.LastError, n.Operation.ID)
	}
	return !owing, nil
}
