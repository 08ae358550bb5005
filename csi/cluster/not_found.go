package cluster

import (
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxShownID bounds a caller's id in a message, in bytes.
const maxShownID = 64

// UnknownVolume is fsm.NotFound: no volume has that id.
func UnknownVolume(id fsm.VolumeID) *fsm.Rejection { return unknown("volume", string(id)) }

// UnknownSnapshot is fsm.NotFound: no snapshot has that id.
func UnknownSnapshot(id fsm.SnapshotID) *fsm.Rejection { return unknown("snapshot", string(id)) }

// UnknownGroup is fsm.NotFound: no group snapshot has that id.
func UnknownGroup(id fsm.GroupSnapshotID) *fsm.Rejection {
	return unknown("group snapshot", string(id))
}

func unknown(what, id string) *fsm.Rejection {
	return fsm.Reject(fsm.NotFound, "%s %q is not known", what, rpcerr.Truncate(id, maxShownID))
}
