package executor

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicaRecord is what the host keeps of its replica of a replicated volume.
type replicaRecord struct {
	Minor uint32 `json:"minor"`
	// Made: the metadata were made. Only then is the disk attached.
	Made bool `json:"made,omitempty"`
	// Attach is the number of the last attachment that was proposed, and Boot when: an
	// attached disk has this number, since none is proposed while one is attached (S5).
	Attach uint64 `json:"attach,omitempty"`
	Boot   string `json:"boot,omitempty"`
	// Linked is the attachment under which it connected last: what it misses since then is
	// in the bitmaps.
	Linked uint64 `json:"linked,omitempty"`
	// Held is the attachment that the kernel was given the disk in. DiskFailed: it gave that
	// up by itself, so the disk may miss what no bitmap names; nothing of it counts until it
	// was copied wholly (S67). PeerWhole: the peer was whole then. Remade is the attachment
	// after which the metadata were made anew for that.
	Held       uint64 `json:"held,omitempty"`
	DiskFailed uint64 `json:"disk_failed,omitempty"`
	PeerWhole  bool   `json:"peer_whole,omitempty"`
	Remade     uint64 `json:"remade,omitempty"`
	// Wrote: it may have been primary since it was last seen together with its peer.
	// Then what it has is kept in a snapshot before it is discarded: Kept (S9).
	Wrote bool `json:"wrote,omitempty"`
	Kept  bool `json:"kept,omitempty"`
	// Verified is when the last comparison with the peer began.
	Verified time.Time `json:"verified,omitzero"`
}

// replica is what the executor knows of a replica between two looks at the host.
type replica struct {
	// Guarded by Executor.mu.
	generation   uint64 // the highest that this process heard of (S7)
	sawConnected uint64 // under which it saw its peer last
	promoting    *fsm.ReplicaObservation
	question     *question
	resuming     bool      // this process ends a freeze by itself now
	resumed      uint64    // how often it did
	lostSince    time.Time // it lost, and is still primary
	frozenSince  time.Time // zero: it is not frozen
	detached     uint64    // the attachment that this process ended by taking the disk away

	// Guarded by the volume's lock.
	configured *Resource
	peerKey    string // from which the secret in it was derived
	adjusted   bool
	committed  attachment // that may be made now
	attaching  pace
	linking    pace
	keeping    pace // of what it lost, while that waits
	discarding bool // it was told to connect by giving up its own data
}

// attachment is one that the log heard of, in this session (S2).
type attachment struct{ number, session uint64 }

// pace keeps what fails from being tried all the time.
type pace struct {
	tries int
	after time.Time
}

const (
	firstPace = 500 * time.Millisecond
	lastPace  = 30 * time.Second
)

func (p *pace) ready(now time.Time) bool { return !now.Before(p.after) }

func (p *pace) tried(now time.Time) {
	p.after = now.Add(min(lastPace, firstPace<<min(p.tries, 10)))
	p.tries++
}

// replicaForCommand is the volume's record as a replica, nil when it is local. The caller
// holds mu.
func (v *volume) replicated() (minor uint32, ok bool) {
	switch {
	case v.wish != nil && v.wish.Replication != nil:
		return v.wish.Replication.Minor, true
	case v.shown.Replica != nil:
		return v.shown.Replica.Minor, true
	}
	return 0, false
}

// noteReplica takes in what a wish says of a replica. The caller holds mu.
func (v *volume) noteReplica(w *fsm.DesiredVolume) {
	if w != nil && w.Replication != nil {
		v.replica.generation = max(v.replica.generation, w.Replication.Generation)
	}
}

// saveReplica changes the replica's part of the record, synced. The caller holds the lock.
func (e *Executor) saveReplica(v *volume, change func(*replicaRecord)) error {
	now := replicaRecord{}
	if v.journal.Replica != nil {
		now = *v.journal.Replica
	}
	e.mu.Lock()
	if minor, ok := v.replicated(); ok {
		now.Minor = minor
	}
	if v.wish != nil && v.wish.Pool != "" {
		v.journal.Pool = v.wish.Pool
	}
	e.mu.Unlock()
	change(&now)
	v.journal.Replica = &now
	return e.save(v, true)
}

// seenNow observes the replica as the log is to hear it. The generation that is known
// is read before the kernel is: what is seen is never older than what it names (S7).
func (e *Executor) seenNow(ctx context.Context, v *volume) (fsm.ReplicaObservation, *replicaHave, error) {
	view, err := e.view(v)
	if err != nil {
		return fsm.ReplicaObservation{}, nil, err
	}
	e.mu.Lock()
	generation, resumed := v.replica.generation, v.replica.resumed
	e.mu.Unlock()
	have, err := view.look(ctx)
	if err != nil {
		return fsm.ReplicaObservation{}, nil, err
	}
	return e.seenAs(v, have, generation, resumed), have, nil
}

func (e *Executor) generationOf(v *volume) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return v.replica.generation
}

// seenAs is the observation under a generation. That the peer was met is noted before
// anybody is told: a verdict of before that is of no use (S7). While such a verdict is used,
// nothing is told under its generation: the peer may be lost again, and this host go on.
func (e *Executor) seenAs(v *volume, h *replicaHave, generation, resumed uint64) fsm.ReplicaObservation {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := fsm.ReplicaObservation{
		Boot: e.Host.Boot, Primary: h.Primary, Disk: h.Disk, Connection: h.Connection, PeerDisk: h.PeerDisk,
		UUID: h.UUID, Suspended: h.Suspended, Generation: generation, BackingCapacity: h.room, Unconfigured: !h.InKernel,
	}
	if r := v.shown.Replica; r != nil && r.Boot == e.Host.Boot {
		seen.Attachment = r.Attach
	}
	if h.Done >= 0 {
		seen.SyncPercent = uint32(h.Done) / 10 * 10
	} else if h.Connection == fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED {
		seen.OutOfSync = h.OutOfSync
	}
	if seen.Connected() {
		v.replica.sawConnected = max(v.replica.sawConnected, generation)
	}
	if v.replica.resuming || v.replica.resumed != resumed {
		seen.Generation = 0 // no log counts it
	}
	return seen
}

// ErrReplicatorBusy says that an earlier command on the resource hangs in the kernel.
var ErrReplicatorBusy = errors.New("an earlier command on the resource has not ended yet")

// MetadataWiper is a Replicator that can remove the metadata from a device below: a
// copy of a replicated volume's device has its source's.
type MetadataWiper interface {
	WipeMetadata(ctx context.Context, id fsm.VolumeID) error
}
