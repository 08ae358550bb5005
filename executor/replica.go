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
	// MetadataMade: the metadata were made. Only then is the disk attached.
	MetadataMade bool `json:"made,omitempty"`
	// Attach is the number of the last attachment that was proposed, and Boot when: an
	// attached disk has this number, since none is proposed while one is attached (S5).
	Attachment uint64 `json:"attach,omitempty"`
	Boot       string `json:"boot,omitempty"`
	// ConnectedAttachment is the attachment under which it connected last: what it misses since then is
	// in the bitmaps.
	ConnectedAttachment uint64 `json:"linked,omitempty"`
	// Held is the attachment that the kernel was given the disk in. FailedAttachment: it gave that
	// up by itself, so the disk may miss what no bitmap names; nothing of it counts until it
	// was copied wholly (S67). PeerWasUpToDate: the peer was whole then. Remade is the attachment
	// after which the metadata were made anew for that.
	GivenAttachment  uint64 `json:"held,omitempty"`
	FailedAttachment uint64 `json:"disk_failed,omitempty"`
	PeerWasUpToDate  bool   `json:"peer_whole,omitempty"`
	RemadeAttachment uint64 `json:"remade,omitempty"`
	// MayHaveWrites: it may have been primary since it was last seen together with its peer.
	// Then what it has is kept in a snapshot before it is discarded: Kept (S9).
	MayHaveWrites bool `json:"wrote,omitempty"`
	CopyKept      bool `json:"kept,omitempty"`
	// Verified is when the last comparison with the peer began.
	Verified time.Time `json:"verified,omitzero"`
}

// replica is what the executor knows of a replica between two looks at the host.
type replicaState struct {
	// Guarded by Executor.mu.
	generation          uint64 // the highest that this process heard of (S7)
	connectedGeneration uint64 // under which it saw its peer last
	promotion           *fsm.ReplicaObservation
	fencePeerRequest    *fencePeerRequest
	resuming            bool      // this process ends a freeze by itself now
	resumeCount         uint64    // how often it did
	victimSince         time.Time // it lost, and is still primary
	suspendedSince      time.Time // zero: it is not frozen
	detachedAttachment  uint64    // the attachment that this process ended by taking the disk away

	// Guarded by the volume's lock.
	config              *ResourceConfig
	peerKey             string // from which the secret in it was derived
	adjusted            bool
	committedAttachment attachment // that may be made now
	attachBackoff       retryBackoff
	connectBackoff      retryBackoff
	keepBackoff         retryBackoff // of what it lost, while that waits
	discarding          bool         // it was told to connect by giving up its own data
}

// attachment is one that the log heard of, in this session (S2).
type attachment struct{ number, session uint64 }

// retryBackoff keeps what fails from being tried all the time.
type retryBackoff struct {
	tries     int
	notBefore time.Time
}

const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
)

func (p *retryBackoff) ready(now time.Time) bool { return !now.Before(p.notBefore) }

func (p *retryBackoff) noteTry(now time.Time) {
	p.notBefore = now.Add(min(maxBackoff, minBackoff<<min(p.tries, 10)))
	p.tries++
}

// replicaForCommand is the volume's record as a replica, nil when it is local. The caller
// holds mu.
func (v *volume) replicaMinor() (minor uint32, ok bool) {
	switch {
	case v.desired != nil && v.desired.Replication != nil:
		return v.desired.Replication.Minor, true
	case v.recordCopy.Replica != nil:
		return v.recordCopy.Replica.Minor, true
	}
	return 0, false
}

// noteGeneration takes in what a wish says of a replica. The caller holds mu.
func (v *volume) noteGeneration(w *fsm.DesiredVolume) {
	if w != nil && w.Replication != nil {
		v.replica.generation = max(v.replica.generation, w.Replication.Generation)
	}
}

// saveReplicaRecord changes the replica's part of the record, synced. The caller holds the lock.
func (rc *recorder) saveReplicaRecord(v *volume, change func(*replicaRecord)) error {
	now := replicaRecord{}
	if v.record.Replica != nil {
		now = *v.record.Replica
	}
	rc.mu.Lock()
	if minor, ok := v.replicaMinor(); ok {
		now.Minor = minor
	}
	if v.desired != nil && v.desired.Pool != "" {
		v.record.Pool = v.desired.Pool
	}
	rc.mu.Unlock()
	change(&now)
	v.record.Replica = &now
	return rc.saveRecord(v, true)
}

// observeReplica observes the replica as the log is to hear it. The generation that is known
// is read before the kernel is: what is seen is never older than what it names (S7).
func (o *observer) observeReplica(ctx context.Context, v *volume) (fsm.ReplicaObservation, *observedReplica, error) {
	rb, err := o.poolSet.replicaBackend(v)
	if err != nil {
		return fsm.ReplicaObservation{}, nil, err
	}
	o.mu.Lock()
	generation, resumed := v.replica.generation, v.replica.resumeCount
	o.mu.Unlock()
	have, err := rb.observe(ctx)
	if err != nil {
		return fsm.ReplicaObservation{}, nil, err
	}
	return o.replicaObservation(v, have, generation, resumed), have, nil
}

func (t *table) generationOf(v *volume) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.replica.generation
}

// replicaObservation is the observation under a generation. That the peer was met is noted before
// anybody is told: a verdict of before that is of no use (S7). While such a verdict is used,
// nothing is told under its generation: the peer may be lost again, and this host go on.
func (o *observer) replicaObservation(v *volume, h *observedReplica, generation, resumed uint64) fsm.ReplicaObservation {
	o.mu.Lock()
	defer o.mu.Unlock()
	obs := fsm.ReplicaObservation{
		Boot: o.Host.BootID, Primary: h.Primary, Disk: h.Disk, Connection: h.Connection, PeerDisk: h.PeerDisk,
		UUID: h.UUID, Suspended: h.Suspended, Generation: generation, BackingCapacity: h.backingCapacity, Unconfigured: !h.InKernel,
	}
	if r := v.recordCopy.Replica; r != nil && r.Boot == o.Host.BootID {
		obs.Attachment = r.Attachment
	}
	if h.SyncPercent >= 0 {
		obs.SyncPercent = uint32(h.SyncPercent) / 10 * 10
	} else if h.Connection == fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED {
		obs.OutOfSync = h.OutOfSync
	}
	if obs.Connected() {
		v.replica.connectedGeneration = max(v.replica.connectedGeneration, generation)
	}
	if v.replica.resuming || v.replica.resumeCount != resumed {
		obs.Generation = 0 // no log counts it
	}
	return obs
}

// ErrReplicatorBusy says that an earlier command on the resource hangs in the kernel.
var ErrReplicatorBusy = errors.New("an earlier command on the resource has not ended yet")

// MetadataWiper is a Replicator that can remove the metadata from a device below: a
// copy of a replicated volume's device has its source's.
type MetadataWiper interface {
	WipeMetadata(ctx context.Context, id fsm.VolumeID) error
}
