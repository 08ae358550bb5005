package backendtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	diskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	failed       = fsmpb.DiskState_DISK_STATE_FAILED
	inconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	consistent   = fsmpb.DiskState_DISK_STATE_CONSISTENT
	upToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE

	syncSource = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
	syncTarget = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET

	// fakeMetadata is the size of the metadata on a backing device, in bytes.
	fakeMetadata = 1 << 20
)

// FakeReplicator is the DRBD of one of the two hosts.
type FakeReplicator struct {
	// Handler is called like the kernel's fence-peer handler; nil: the handler dies each time.
	Handler func(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error)

	link        *FakeLink
	side        int
	files       map[fsm.VolumeID]executor.ResourceConfig
	steps       map[string]int
	changed     func(fsm.VolumeID)
	heldHelpers int // running pri-on-incon-degr helpers that are held back
	detachFails bool
}

var _ executor.Replicator = (*FakeReplicator)(nil)

// PowerLoss removes the host's kernel state; its disks stay. A target of a synchronisation loses
// what was copied, which neither bitmap names.
func (r *FakeReplicator) PowerLoss() {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	for _, v := range r.link.volumes {
		v.sides[r.side].downs++
		r.link.change(v, func(p *drbdmodel.Pair) {
			if p.Observe(r.side).Connection == syncTarget {
				p.Sync(drbdmodel.MaxWrites)
			}
			p.PowerOff(r.side)
			p.PowerOn(r.side)
		})
	}
}

// FailDisk makes the kernel detach a disk with I/O errors that also lost a block it had
// acknowledged, which neither bitmap names. It does nothing for a resource that is not in the
// kernel: the host may have taken it down meanwhile.
func (r *FakeReplicator) FailDisk(id fsm.VolumeID) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	v := r.link.volume(id)
	if !v.pair.Observe(r.side).InKernel {
		return
	}
	v.pair.LoseBlock(r.side)
	r.detach(v)
}

// SaveDisk notes what the host's disk holds, metadata included, as its pool takes a snapshot of it.
func (r *FakeReplicator) SaveDisk(id fsm.VolumeID, snapshot fsm.SnapshotID) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	side := &r.link.volume(id).sides[r.side]
	if side.saved == nil {
		side.saved = map[fsm.SnapshotID]drbdmodel.Disk{}
	}
	side.saved[snapshot] = r.link.volume(id).pair.Disk(r.side)
}

// RevertDisk makes the disk hold what it held when SaveDisk was called, as its pool reverts it.
func (r *FakeReplicator) RevertDisk(id fsm.VolumeID, snapshot fsm.SnapshotID) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	v := r.link.volume(id)
	if saved, known := v.sides[r.side].saved[snapshot]; known {
		r.link.change(v, func(p *drbdmodel.Pair) { p.RevertDisk(r.side, saved) })
	}
}

// HoldHelper keeps the kernel's helper for a detached disk running until release is called: until
// then that disk is Failed, and not yet Diskless.
func (r *FakeReplicator) HoldHelper() (release func()) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.heldHelpers++
	return func() {
		r.link.mu.Lock()
		defer r.link.mu.Unlock()
		r.heldHelpers--
		for _, v := range r.link.volumes {
			r.link.change(v, func(p *drbdmodel.Pair) { p.EndDetach(r.side) })
		}
	}
}

// Steps returns how often a step was done.
func (r *FakeReplicator) Steps(step string) int {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.steps[step]
}

// Write writes to the primary. acknowledged is false while I/O is suspended; with an error the
// write has failed for good.
func (r *FakeReplicator) Write(id fsm.VolumeID, text string) (acknowledged bool, err error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	v := r.link.volume(id)
	s := v.pair.Observe(r.side)
	switch {
	case !s.Primary:
		return false, errors.New("the device is not primary")
	case s.Suspended:
		return false, nil
	case !v.pair.Accessible(r.side):
		return false, errors.New("input/output error")
	case len(v.texts) == drbdmodel.MaxWrites:
		return false, errors.New("the model of DRBD takes no more writes")
	}
	v.texts = append(v.texts, text)
	_, acknowledged = v.pair.Write(r.side)
	return acknowledged, nil
}

// DiskContent returns what the host's disk holds.
func (r *FakeReplicator) DiskContent(id fsm.VolumeID) (content []string) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	v := r.link.volume(id)
	blocks := v.pair.Content(r.side)
	for n, text := range v.texts {
		if blocks.Has(n) {
			content = append(content, text)
		}
	}
	return content
}

// Primary returns whether this side is primary, and whether its I/O is suspended.
func (r *FakeReplicator) Primary(id fsm.VolumeID) (primary, frozen bool) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	s := r.link.volume(id).pair.Observe(r.side)
	return s.Primary, s.Suspended
}

// Connected tells whether the kernel is connected to its peer, also while one is copied to the other.
func (r *FakeReplicator) Connected(id fsm.VolumeID) bool {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.link.volume(id).pair.Observe(r.side).Connection >= fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
}

func (r *FakeReplicator) handle(id fsm.VolumeID) fsmpb.Verdict {
	r.link.mu.Lock()
	handler := r.Handler
	r.link.mu.Unlock()
	if handler == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	verdict, err := handler(ctx, id)
	if err != nil {
		return 0
	}
	return verdict
}

// SetHandler replaces the handler.
func (r *FakeReplicator) SetHandler(handler func(context.Context, fsm.VolumeID) (fsmpb.Verdict, error)) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.Handler = handler
}

// notify calls the function passed to Watch. The caller holds mu.
func (r *FakeReplicator) notify(id fsm.VolumeID) {
	if r.changed != nil {
		go r.changed(id)
	}
}

// begin counts a step and returns the volume, whose resource must be in the kernel. It returns with
// mu held; the caller unlocks.
func (r *FakeReplicator) begin(step string, id fsm.VolumeID) (*fakeVolume, drbdmodel.State, error) {
	r.link.mu.Lock()
	r.steps[step]++
	v := r.link.volume(id)
	s := v.pair.Observe(r.side)
	if !s.InKernel {
		return v, s, fmt.Errorf("%s %s: the resource is not in the kernel", step, id)
	}
	r.notify(id)
	return v, s, nil
}
