package backendtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Configure stores the resource's file.
func (r *FakeReplicator) Configure(_ context.Context, f executor.ResourceConfig) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.files[f.Volume] = f
	r.link.volume(f.Volume).pair.SetAsynchronous(f.Protocol == fsmpb.Protocol_PROTOCOL_A)
	r.steps["configure"]++
	return nil
}

// Adjust does nothing.
func (r *FakeReplicator) Adjust(_ context.Context, id fsm.VolumeID) error {
	_, _, err := r.begin("adjust", id)
	r.link.mu.Unlock()
	return err
}

// RemoveConfig removes the file. The metadata stay as long as the backing device: the next one
// under the same id gets its own.
func (r *FakeReplicator) RemoveConfig(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	v := r.link.volume(id)
	if v.pair.Observe(r.side).InKernel {
		return fsm.Reject(fsm.Busy, "the kernel has %s", id)
	}
	delete(r.files, id)
	v.sides[r.side].fileRemoved = true
	return nil
}

// Connect starts waiting for the peer.
func (r *FakeReplicator) Connect(_ context.Context, id fsm.VolumeID, discard bool) error {
	v, s, err := r.begin("connect", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !s.StandAlone:
		return nil
	case discard && s.Primary:
		return fsm.Reject(fsm.Precondition, "a primary discards nothing")
	}
	r.link.change(v, func(p *drbdmodel.Pair) { p.Connect(r.side, discard) })
	return nil
}

// Disconnect ends the connection, always with force.
func (r *FakeReplicator) Disconnect(_ context.Context, id fsm.VolumeID) error {
	v, _, err := r.begin("disconnect", id)
	defer r.link.mu.Unlock()
	if err == nil {
		r.link.change(v, func(p *drbdmodel.Pair) { p.Disconnect(r.side) })
	}
	return err
}

// NewUUID creates the first current UUID on both sides.
func (r *FakeReplicator) NewUUID(_ context.Context, id fsm.VolumeID) error {
	v, _, err := r.begin("new-uuid", id)
	defer r.link.mu.Unlock()
	if err != nil {
		return err
	}
	made := false
	r.link.change(v, func(p *drbdmodel.Pair) { made = p.NewGeneration() })
	if !made {
		return errors.New("new-current-uuid: the replicas are not connected and new")
	}
	return nil
}

// SetPrimary makes this side primary; it calls the handler when it has no peer.
func (r *FakeReplicator) SetPrimary(_ context.Context, id fsm.VolumeID, force bool) error {
	v, s, err := r.begin("set-primary", id)
	if err != nil || s.Primary {
		r.link.mu.Unlock()
		return err
	}
	result := drbdmodel.AsksHandler
	if !force || s.Connected() {
		r.link.change(v, func(p *drbdmodel.Pair) { result = p.Promote(r.side, false) })
	}
	downs := v.sides[r.side].downs
	r.link.mu.Unlock()
	switch result {
	case drbdmodel.Promoted:
		return nil
	case drbdmodel.Refused:
		return errors.New("state change failed: its peer is primary, or its disk is not up to date")
	default:
		return r.promoteAlone(v, downs, force)
	}
}

// promoteAlone promotes without the peer if the handler says so, or by force.
func (r *FakeReplicator) promoteAlone(v *fakeVolume, downs int, force bool) error {
	verdict := r.handle(v.id)
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if v.sides[r.side].downs != downs || verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED && !force {
		return fmt.Errorf("state change failed: the handler said %v", verdict)
	}
	if v.pair.Observe(r.side).Connected() {
		return errors.New("state change failed: its peer connected meanwhile")
	}
	result := drbdmodel.Refused
	r.link.change(v, func(p *drbdmodel.Pair) {
		if force {
			result = p.ForcePrimary(r.side)
		} else {
			result = p.Promote(r.side, true)
		}
	})
	if result != drbdmodel.Promoted {
		return errors.New("need access to up-to-date data")
	}
	return nil
}

// SetSecondary makes this side secondary.
func (r *FakeReplicator) SetSecondary(_ context.Context, id fsm.VolumeID) error {
	v, s, err := r.begin("set-secondary", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return nil
	case s.Suspended:
		return fsm.Reject(fsm.Busy, "the I/O of %s is frozen", id)
	}
	r.link.change(v, func(p *drbdmodel.Pair) { p.Demote(r.side) })
	return nil
}

// SuspendIO suspends the I/O of a primary.
func (r *FakeReplicator) SuspendIO(_ context.Context, id fsm.VolumeID) error {
	v, s, err := r.begin("suspend-io", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !s.Primary:
		return fsm.Reject(fsm.Precondition, "%s is not primary", id)
	}
	r.link.change(v, func(p *drbdmodel.Pair) { p.Freeze(r.side) })
	return nil
}

// ResumeIO resumes suspended I/O.
func (r *FakeReplicator) ResumeIO(_ context.Context, id fsm.VolumeID) error {
	v, s, err := r.begin("resume-io", id)
	defer r.link.mu.Unlock()
	if err == nil && s.Suspended {
		if s.Disk == failed {
			r.steps["resume-failed"]++
		}
		r.link.change(v, func(p *drbdmodel.Pair) { p.Resume(r.side, false) })
	}
	return err
}

// Down removes the resource from the kernel.
func (r *FakeReplicator) Down(_ context.Context, id fsm.VolumeID) error {
	v, s, err := r.begin("down", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return nil
	case s.Primary || s.Suspended:
		return fsm.Reject(fsm.Busy, "%s is primary", id)
	}
	v.sides[r.side].downs++
	r.link.change(v, func(p *drbdmodel.Pair) { p.Down(r.side) })
	return nil
}
