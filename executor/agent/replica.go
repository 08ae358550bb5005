package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// replicaState is what the process knows of a replica between two observations.
type replicaState struct {
	// Guarded by table.mu.
	generation          uint64 // the highest that this process was told of (S7)
	connectedGeneration uint64 // the highest in which it was connected to its peer
	promotion           *fsm.ReplicaObservation
	fencePeerRequest    *fencePeerRequest
	endingSuspension    bool       // this process is ending suspended I/O now
	resumeCount         uint64     // how often it did that
	victimSince         time.Time  // when it was first seen outdated but still primary
	suspendedSince      time.Time  // zero: its I/O is not suspended
	detachedAttachment  uint64     // the attachment that this host ended by detaching the disk
	loggedAttachment    attachment // the last that this process had committed
	outdatedAt          fsm.Epoch  // when the log told that this replica is outdated, as a verdict
	requestsSeen        plan.RequestsSeen
	toSync              int64 // bytes that a resynchronisation under way has to copy; 0: there is none

	// Guarded by the volume's lock.
	config              *executor.ResourceConfig
	peerKey             string // the peer's public key that the secret in config was derived from
	adjusted            bool
	committedAttachment attachment // that may be made now
	attachBackoff       retryBackoff
	connectBackoff      retryBackoff
	keepBackoff         retryBackoff       // of taking the kept copy
	keepAnswered        *fsm.DesiredVolume // the desired state whose copy before a synchronisation was answered
	keepAnsweredBackoff retryBackoff       // of asking again while no other desired state comes
	discarding          bool               // it was told to connect with its own data discarded
}

// noteKeepAnswered: the update that follows is on its way, so the log is not asked at once again. It is asked later: where
// it said that there is no room, an operator may make some, of which no desired state tells.
func (r *replicaState) noteKeepAnswered(d *fsm.DesiredVolume, now time.Time) {
	if r.keepAnswered != d {
		r.keepAnswered, r.keepAnsweredBackoff = d, retryBackoff{}
	}
	r.keepAnsweredBackoff.noteTry(now)
}

// attachment is one that was committed in this session (S2).
type attachment struct{ number, session uint64 }

// retryBackoff spaces out the retries of what fails.
type retryBackoff struct {
	tries     int
	notBefore time.Time
}

const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
)

func (b *retryBackoff) ready(now time.Time) bool { return !now.Before(b.notBefore) }

func (b *retryBackoff) noteTry(now time.Time) {
	b.notBefore = now.Add(min(maxBackoff, minBackoff<<min(b.tries, 10)))
	b.tries++
}

// replicaMinor is the DRBD minor number of the volume; ok is false when it is local. The caller
// holds table.mu.
func (v *volume) replicaMinor() (minor uint32, ok bool) {
	switch {
	case v.desired != nil && v.desired.Replication != nil:
		return v.desired.Replication.Minor, true
	case v.recordCopy.Replica != nil:
		return v.recordCopy.Replica.Minor, true
	}
	return 0, false
}

// noteGeneration takes in the generation of desired state. The caller holds table.mu.
func (v *volume) noteGeneration(d *fsm.DesiredVolume) {
	if d != nil && d.Replication != nil {
		v.replica.generation = max(v.replica.generation, d.Replication.Generation)
	}
}
