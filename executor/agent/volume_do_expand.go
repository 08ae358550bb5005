package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor/plan"
)

// expandDevice expands the image and its device.
func (j *job) expandDevice(ctx context.Context) error {
	backend, err := j.poolSet.snapshotBackend(j.v)
	if err != nil {
		return err
	}
	if err := backend.Expand(ctx, j.v.id, j.want.Size); err != nil {
		return err
	}
	if j.v.record.Size == 0 {
		return nil
	}
	j.v.record.Size = j.want.Size
	return j.records.saveRecord(j.v, false)
}

// expandFilesystem may be repeated: a partial expansion is completed.
func (j *job) expandFilesystem(ctx context.Context, have *plan.ObservedVolume, fsType, path string) error {
	if err := j.FilesystemTools.ExpandFilesystem(ctx, have.Device, fsType, path); err != nil {
		return err
	}
	j.v.record.FilesystemFor = have.DeviceSize()
	return j.records.saveRecord(j.v, false)
}
