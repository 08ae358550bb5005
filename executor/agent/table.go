package agent

import (
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// table is what an executor knows between two looks at the host: of volumes, of snapshots
// and of its session. One lock guards all of it, with the parts of a volume and of a
// snapshot that say so; a volume has a lock of its own beside, which is taken first.
type table struct {
	*env
	volumeQueue   *workQueue[fsm.VolumeID]   // of volumes to look at; it has a lock of its own
	snapshotQueue *workQueue[fsm.SnapshotID] // of snapshots; likewise

	mu      sync.Mutex
	volumes map[fsm.VolumeID]*volume
	// targets are the target paths, as the kernel names them, in the volumes' records.
	targetOwners map[string]fsm.VolumeID
	// snapshots are those that the log wants something of, or that have a record.
	snapshots       map[fsm.SnapshotID]*snapshotState
	awaitingSession map[fsm.VolumeID]struct{} // to be looked at when the session got on
	session         session
	keptScan        chan struct{} // copies that the log may not know are to be looked for
	closed          bool
}

// session is what the current session said last.
type session struct {
	number        uint64 // 0: there was none yet
	at            fsm.Epoch
	adopted       bool
	level         uint32 // the cluster's feature level
	incarnationID []byte
}
