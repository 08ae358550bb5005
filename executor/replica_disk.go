package executor

import (
	"context"
	"time"
)

// noteDisk keeps what the kernel made of the disk of the last attachment, on disk before
// anything follows from it: that it has it, or that it gave it up by itself (S67). A disk
// that this process took away did not fail. The caller holds the lock.
func (e *Executor) noteDisk(v *volume, h *replicaHave) error {
	r := v.journal.Replica
	if r == nil || r.Attach == 0 || r.Boot != e.Host.Boot || !h.InKernel {
		return nil
	}
	e.mu.Lock()
	taken := v.replica.detached == r.Attach
	e.mu.Unlock()
	given := h.Disk == diskDiskless || h.Disk == diskFailed
	switch {
	case h.Disk > diskFailed && r.Held != r.Attach:
		return e.saveReplica(v, func(r *replicaRecord) { r.Held = r.Attach })
	case !given || taken || r.Held != r.Attach || r.DiskFailed == r.Attach:
		return nil
	}
	e.logger(v).Error("the kernel gave up the disk of this replica: all of it is to be copied again", "attachment", r.Attach)
	return e.saveReplica(v, func(r *replicaRecord) {
		r.DiskFailed, r.PeerWhole = r.Attach, h.Connection >= linkConnected && h.PeerDisk == diskUpToDate
	})
}

// acceptDisk takes the disk for what it is.
func (r *replicaRecord) acceptDisk() {
	r.DiskFailed, r.PeerWhole, r.Remade = 0, false, r.Attach
}

// remakeMetadata has nothing that the disk holds count any more. That it failed is
// forgotten only then: its metadata say from here on that it has nothing.
func (e *Executor) remakeMetadata(ctx context.Context, v *volume, h *replicaHave) error {
	v.replica.attaching.tried(time.Now())
	if err := e.probeBelow(ctx, h); err != nil {
		return err
	}
	if still, err := e.stillRemakes(ctx, v); !still || err != nil {
		return err
	}
	if err := e.Replicator.RemakeMetadata(ctx, v.id); err != nil {
		return err
	}
	e.hit("remake-metadata.made")
	v.replica.attaching.after = time.Time{} // it is attached at once, and what fails again more seldom
	return e.saveReplica(v, func(r *replicaRecord) {
		r.acceptDisk()
		r.Held = 0 // the kernel has it only after the next attachment
	})
}

// stillRemakes looks again: to read a failing disk may take long, and the peer that it was to
// be copied from may have failed meanwhile.
func (e *Executor) stillRemakes(ctx context.Context, v *volume) (bool, error) {
	s, _, err := e.situation(ctx, v)
	if err != nil || s.have.replica == nil || s.wish == nil || s.wish.Replication == nil || !s.fresh {
		return false, err
	}
	want, have := e.replicaSituation(v, s)
	have.mayTry = true // this is the try
	return nextReplica(want, have).kind == stepRemakeMetadata, nil
}

// tookDisk notes that this process takes the disk away, where the kernel still has it whole.
func (e *Executor) tookDisk(v *volume, m *Mirror) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := v.shown.Replica; r != nil && r.Boot == e.Host.Boot && m.Disk > diskFailed {
		v.replica.detached = r.Attach
	}
}
