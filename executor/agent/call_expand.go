package agent

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Expand grows the filesystem of a staged volume to the size of its device, and returns the
// device's size in bytes. Repeating it is harmless. NotFound: the volume is not at the path.
// Busy: this host has not expanded the device to the decided size yet. OutOfRange: more is
// requested than was decided, or the device is above the limit. Precondition: the filesystem
// cannot be grown while it is mounted here; staging the volume again grows it.
func (a *Agent) Expand(ctx context.Context, req executor.ExpandRequest) (int64, error) {
	if !req.Volume.Valid() || !a.isKnown(req.Volume) {
		return 0, fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	}
	key := fmt.Sprintf("expand %d %v %s", req.Size, req.Capability, req.Path)
	err := a.calls.serveCall(ctx, req.Volume, key, func(ctx context.Context, v *volume, _ *call) error {
		return a.expander.expandVolume(ctx, v, &req)
	})
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v, known := a.volumes[req.Volume]
	if !known || v.expandedSize == 0 { // it was taken down and forgotten meanwhile
		return 0, fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	}
	return withinLimit(v.id, v.expandedSize, req.Limit)
}

func withinLimit(id fsm.VolumeID, size, limit int64) (int64, error) {
	if limit > 0 && size > limit {
		return 0, fsm.Reject(fsm.OutOfRange, "volume %s has %d bytes, above limit_bytes %d: volumes never shrink", id, size, limit)
	}
	return size, nil
}

func (x *expander) expandVolume(ctx context.Context, v *volume, req *executor.ExpandRequest) error {
	j := &job{volumeWorker: x.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: v.id}, keys: req.Keys}
	have, err := x.observer.observeVolume(ctx, v, j.want)
	if err != nil {
		return err
	}
	staged := v.record.Staging
	switch {
	case !have.Active() || staged == nil || !x.observer.isAt(&have, staged, req.Path):
		return fsm.Reject(fsm.NotFound, "volume %s is not at %s", v.id, req.Path)
	case staged.Block != req.Capability.Block && req.Capability != (fsm.Capability{}):
		return fsm.Reject(fsm.Invalid, "volume %s is not staged for %s", v.id, req.Capability)
	}
	d, err := x.desiredOf(ctx, v)
	if err != nil {
		return err
	}
	if have.Crypt != nil && have.SizeBelow() >= d.Size && have.DeviceSize() < d.Size {
		if have, err = j.expandMapping(ctx); err != nil {
			return err
		}
	}
	switch {
	case req.Size > d.Size:
		return fsm.Reject(fsm.OutOfRange, "volume %s has %d bytes, and no controller has decided to make them %d", v.id, d.Size, req.Size)
	case have.DeviceSize() < d.Size:
		return fsm.Reject(fsm.Busy, "volume %s has %d bytes, and is just being grown to %d", v.id, have.DeviceSize(), d.Size)
	case !staged.Block:
		err = j.expandMountedFilesystem(ctx, &have, d.Format.FSType, staged.Path)
	}
	if err == nil {
		x.mu.Lock()
		v.expandedSize = have.DeviceSize()
		x.mu.Unlock()
	}
	return err
}

// expandMapping grows the mapping to its device between the step's two fault points, and observes again.
func (j *job) expandMapping(ctx context.Context) (plan.ObservedVolume, error) {
	j.hitFaultPoint("luks-resize.before")
	err := j.resizeMapping(ctx)
	j.hitFaultPoint("luks-resize.after")
	if err != nil {
		return plan.ObservedVolume{}, wrapStep(j.v, plan.StepResizeMapping, err)
	}
	return j.observer.observeVolume(ctx, j.v, j.want)
}

// isAt reports whether the volume is staged or bound at the path.
func (o *observer) isAt(have *plan.ObservedVolume, staged *records.StagingRecord, path string) bool {
	realPath := o.realPath(path)
	if o.realPath(staged.Path) == realPath {
		return staged.Block || have.Staged
	}
	for _, bound := range have.BoundTargets {
		if o.realPath(bound) == realPath {
			return true
		}
	}
	return false
}

// expandMountedFilesystem grows a mounted filesystem between the step's two fault points.
func (j *job) expandMountedFilesystem(ctx context.Context, have *plan.ObservedVolume, fsType, path string) error {
	if j.FilesystemTools == nil {
		return fsm.Reject(fsm.Precondition, "volume %s: this host cannot grow filesystems", j.v.id)
	}
	if have.FilesystemFor == have.DeviceSize() {
		return nil
	}
	j.hitFaultPoint("grow-filesystem.before")
	err := j.expandFilesystem(ctx, have, fsType, path)
	j.hitFaultPoint("grow-filesystem.after")
	return wrapStep(j.v, plan.StepExpandFilesystem, err)
}
