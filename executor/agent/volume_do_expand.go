package agent

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/plan"
)

// expandDevice expands the image and its device. The size is recorded once it is observed: an image
// that is smaller than its record counts as truncated.
func (j *job) expandDevice(ctx context.Context) error {
	backend, err := j.poolSet.snapshotBackend(j.v)
	if err != nil {
		return err
	}
	if err := backend.Expand(ctx, j.v.id, j.want.Size); err != nil {
		return err
	}
	if err := j.checkGrown(ctx); err != nil || j.v.record.Size == 0 {
		return err
	}
	j.v.record.Size = j.want.Size
	return j.records.saveRecord(j.v, false)
}

// checkGrown looks whether the image has grown, whatever the tool said.
func (j *job) checkGrown(ctx context.Context) error {
	pool, err := j.poolSet.backend(j.v)
	if err != nil {
		return err
	}
	have, err := pool.Observe(ctx, j.v.id)
	if err == nil && have.Size < j.want.Size {
		err = fmt.Errorf("expand volume %s: its image has %d bytes after it was grown to %d", j.v.id, have.Size, j.want.Size)
	}
	return err
}

// expandFilesystem may be repeated: a partial expansion is completed.
func (j *job) expandFilesystem(ctx context.Context, have *plan.ObservedVolume, fsType, path string) error {
	if err := j.FilesystemTools.ExpandFilesystem(ctx, have.Device, fsType, path); err != nil {
		return err
	}
	j.v.record.FilesystemFor = have.DeviceSize()
	return j.records.saveRecord(j.v, false)
}
