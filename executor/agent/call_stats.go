package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// VolumeStats measures a volume at a path where it is staged or bound. NotFound: the volume
// is not there.
func (a *Agent) VolumeStats(ctx context.Context, id fsm.VolumeID, path string) (executor.VolumeStats, error) {
	none := fsm.Reject(fsm.NotFound, "volume %s is not at %s", id, path)
	if !id.Valid() || !a.isKnown(id) {
		return executor.VolumeStats{}, none
	}
	type answer struct {
		stats executor.VolumeStats
		err   error
	}
	answered := make(chan answer, 1)
	go func() { // a filesystem that hangs must not hang the caller
		stats, err := a.health.measure(ctx, id, path, none)
		answered <- answer{stats, err}
	}()
	nearDeadline, stop := beforeDeadline(ctx)
	defer stop()
	select {
	case a := <-answered:
		return a.stats, a.err
	case <-nearDeadline:
	case <-ctx.Done():
	}
	return executor.VolumeStats{}, fsm.Reject(fsm.Busy, "volume %s does not answer", id)
}

func (h *healthChecker) measure(ctx context.Context, id fsm.VolumeID, path string, none error) (executor.VolumeStats, error) {
	h.mu.Lock()
	v, ok := h.volumes[id]
	if !ok {
		h.mu.Unlock()
		return executor.VolumeStats{}, none
	}
	staged := v.recordCopy.Staging
	h.mu.Unlock()
	backend, err := h.poolSet.backend(v)
	if err != nil {
		return executor.VolumeStats{}, err
	}
	size := h.minImageSize(v)
	device, err := backend.Observe(ctx, id)
	if err == nil {
		device, _, err = h.aboveEncryption(ctx, v, device)
	}
	if err != nil || !device.Active() {
		return executor.VolumeStats{}, none
	}
	block, found, err := h.whereIs(ctx, device, path, staged)
	if err != nil || !found {
		return executor.VolumeStats{}, none
	}
	stats, err := h.Mounter.Stats(ctx, device, path, block)
	if err == nil {
		stats.Condition = h.recordHealth(ctx, v, &plan.HealthInputs{Device: device, Size: size, Mounted: true, MeasuredCondition: stats.Condition})
	}
	return stats, err
}

// whereIs reports whether the volume is at the path, and whether as a raw device.
func (h *healthChecker) whereIs(ctx context.Context, device executor.Device, path string, staged *records.StagingRecord) (block, found bool, err error) {
	realPath := h.realPath(path)
	if staged != nil && staged.Block && h.realPath(staged.Path) == realPath {
		return true, true, nil
	}
	mounts, err := h.Mounter.Mounts(ctx, device)
	for _, m := range mounts {
		if m.Path == realPath {
			return m.DeviceNode, true, nil
		}
	}
	return false, false, err
}
