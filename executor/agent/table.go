package agent

import (
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// table is all that an Agent knows between two observations: of volumes, of snapshots and of its
// session. mu guards it, and those fields of volume and snapshotState that say so. Each volume
// also has a lock of its own, which is taken before mu.
type table struct {
	*env
	volumeQueue   *workQueue[fsm.VolumeID]   // volumes to reconcile; it has its own mutex
	snapshotQueue *workQueue[fsm.SnapshotID] // snapshots to reconcile; likewise

	mu      sync.Mutex
	volumes map[fsm.VolumeID]*volume
	// targetOwners maps the target paths in the volumes' records, as the kernel names them.
	targetOwners map[string]fsm.VolumeID
	// snapshots have desired state, or a record.
	snapshots       map[fsm.SnapshotID]*snapshotState
	awaitingSession map[fsm.VolumeID]struct{} // to be reconciled when the session has caught up
	session         session
	keptScan        chan struct{} // a scan for kept copies is due
	isolatedSince   time.Time     // when this host was first seen without a session; zero: it has one
	closed          bool
}

// session is what the current session delivered last.
type session struct {
	number        uint64 // 0: there was none yet
	at            fsm.Epoch
	adopted       bool
	level         uint32 // the cluster's feature level
	incarnationID []byte
}
