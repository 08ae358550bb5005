package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// replica is what the executor knows of a replica between two looks at the host.
type replicaState struct {
	// Guarded by table.mu.
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
	config              *executor.ResourceConfig
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
