package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// trimStep is how many bytes of a filesystem are trimmed at a time: in between, other work on the
// volume has its turn.
const trimStep = 1 << 30

// trimProgress is how far a trim came that had to end before it was done. The next one goes on there.
type trimProgress struct {
	staging records.StagingRecord // under which it ran
	next    int64                 // byte
	usage   executor.SpaceUsage   // Before is from its beginning
}

// ReclaimSpace has the mounted filesystem of a staged volume discard what it does not use (S61), and
// returns how much the volume occupies of its pool. Of a raw volume, and of one that is mounted
// read-only, it discards nothing. NotFound: the volume is not at the path. Busy: it is being cut, grown
// or ended, or another call came first. Precondition: its device is missing. Unsupported: its device cannot
// discard.
func (a *Agent) ReclaimSpace(ctx context.Context, req executor.ReclaimRequest) (executor.SpaceUsage, error) {
	none := fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	if !req.Volume.Valid() || !a.isKnown(req.Volume) {
		return executor.SpaceUsage{}, none
	}
	err := a.calls.serveCall(ctx, req.Volume, "reclaim "+req.Path, func(ctx context.Context, v *volume, c *call) error {
		err := a.reclaimer.reclaim(ctx, v, c, &req)
		a.mu.Lock()
		usage := v.spaceUsage
		a.mu.Unlock()
		a.metrics.observeReclaim(usage, err)
		return err
	})
	if err != nil {
		return executor.SpaceUsage{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if v, known := a.volumes[req.Volume]; known {
		return v.spaceUsage, nil
	}
	return executor.SpaceUsage{}, none // it was taken down and forgotten meanwhile
}

func (r *reclaimer) reclaim(ctx context.Context, v *volume, c *call, req *executor.ReclaimRequest) error {
	have, err := r.observer.observeVolume(ctx, v, nil)
	if err != nil {
		return err
	}
	staged := v.record.Staging
	switch {
	case !have.Active() || staged == nil || !r.observer.isAt(&have, staged, req.Path):
		return fsm.Reject(fsm.NotFound, "volume %s is not at %s", v.id, req.Path)
	case staged.Block != req.Capability.Block && req.Capability != (fsm.Capability{}):
		return fsm.Reject(fsm.Invalid, "volume %s is not staged for %s", v.id, req.Capability)
	}
	if staged.Block {
		return r.measureOnly(ctx, v)
	}
	if readOnly, err := r.isReadOnly(ctx, &have); err != nil {
		return err
	} else if readOnly {
		return r.measureOnly(ctx, v)
	}
	d, err := r.desiredOf(ctx, v)
	if err != nil {
		return err
	}
	if d.Encrypted && !d.EncryptionDiscards {
		return fsm.Reject(fsm.Unsupported, "volume %s is encrypted without encryptionDiscards: the pool is not told which of its blocks are unused", v.id)
	}
	return r.trimStaged(ctx, v, c, &have)
}

// isReadOnly reports whether the volume is mounted read-only where it is staged.
func (r *reclaimer) isReadOnly(ctx context.Context, have *plan.ObservedVolume) (bool, error) {
	mounts, err := r.Mounter.Mounts(ctx, have.Device)
	for _, m := range mounts {
		if m.Path == have.StagingPath && !m.DeviceNode {
			return m.ReadOnly, err
		}
	}
	return false, err
}

// measureOnly is for what has nothing to discard.
func (r *reclaimer) measureOnly(ctx context.Context, v *volume) error {
	usage, err := r.measure(ctx, v)
	if err == nil {
		r.keepUsage(v, usage)
	}
	return err
}

// trimStaged trims the filesystem where it is staged. One that had to end is gone on with.
func (r *reclaimer) trimStaged(ctx context.Context, v *volume, c *call, have *plan.ObservedVolume) error {
	if r.FilesystemTools == nil {
		return fsm.Reject(fsm.Unsupported, "volume %s: this host cannot trim filesystems", v.id)
	}
	t := r.newTrim(v, c, have)
	if v.trim.staging == t.progress.staging {
		t.progress = v.trim
	}
	err := t.run(ctx, have.Device, executor.TrimOptions{Path: v.record.Staging.Path, From: t.progress.next, Step: trimStep, Before: t.beforeStep})
	if v.trim = t.progress; err != nil {
		return err
	}
	v.trim = trimProgress{}
	usage, err := t.ended(ctx)
	if err == nil {
		r.keepUsage(v, usage)
	}
	return err
}

func (r *reclaimer) newTrim(v *volume, c *call, have *plan.ObservedVolume) *trimJob {
	return &trimJob{reclaimer: r, v: v, call: c, size: have.DeviceSize(), progress: trimProgress{staging: *v.record.Staging}}
}

// trimJob is one trim of a mounted filesystem.
type trimJob struct {
	*reclaimer
	v        *volume
	call     *call
	size     int64 // of the device, in bytes
	progress trimProgress
}

// run does the step between its two fault points.
func (t *trimJob) run(ctx context.Context, device executor.Device, options executor.TrimOptions) error {
	began := time.Now()
	t.hitFaultPoint("trim.before")
	err := t.FilesystemTools.Trim(ctx, device, options)
	t.hitFaultPoint("trim.after")
	t.metrics.observeStep(plan.StepTrim, began, err)
	return wrapStep(t.v, plan.StepTrim, err)
}

// beforeStep notes how far the trim came, and whether it may go on. At its beginning, when what was
// cached is written, it measures.
func (t *trimJob) beforeStep(ctx context.Context, offset int64) error {
	t.progress.next = offset
	view, err := t.view(ctx)
	if err != nil {
		return err
	}
	if rej := plan.CheckTrim(view); rej != nil {
		return rej
	}
	if offset == 0 {
		t.progress.usage, err = t.measure(ctx, t.v)
	}
	return err
}

// ended is the usage from before and after a trim that was done.
func (t *trimJob) ended(ctx context.Context) (executor.SpaceUsage, error) {
	usage := t.progress.usage
	after, err := t.measure(ctx, t.v)
	usage.After = after.After
	return usage, err
}

func (t *trimJob) view(ctx context.Context) (*plan.TrimView, error) {
	have, err := t.observer.observeVolume(ctx, t.v, nil)
	if err != nil {
		return nil, err
	}
	frozen := t.Freezer != nil && t.Freezer.Frozen(t.v.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	return &plan.TrimView{
		Volume: t.v.id, Have: &have, Size: t.size, Staging: t.v.record.Staging, Desired: t.v.desired, Frozen: frozen,
		SnapshotWaits: len(t.v.waiters) > 0, CallWaits: t.call.otherRefused,
	}, nil
}

// measure asks the pool, which is the only one that knows; nothing is estimated.
func (r *reclaimer) measure(ctx context.Context, v *volume) (executor.SpaceUsage, error) {
	backend, err := r.poolSet.snapshotBackend(v)
	if err != nil {
		return executor.SpaceUsage{}, nil //nolint:nilerr // a pool that cannot tell
	}
	bytes, err := backend.Allocated(ctx, v.id)
	return executor.SpaceUsage{Known: err == nil, Before: bytes, After: bytes}, err
}

func (r *reclaimer) keepUsage(v *volume, usage executor.SpaceUsage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.spaceUsage = usage
}
