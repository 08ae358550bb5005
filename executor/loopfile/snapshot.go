package loopfile

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.SnapshotBackend = (*Pool)(nil)

// snapshotMode protects a snapshot against accidental writes by all but root.
const snapshotMode = 0o400

// ObserveSnapshot returns whether the snapshot's file exists.
func (p *Pool) ObserveSnapshot(_ context.Context, id fsm.SnapshotID) (executor.Device, error) {
	var d executor.Device
	if err := checkSnapshotID(id); err != nil {
		return d, err
	}
	root, err := p.open()
	if err != nil {
		d.Absent = true
		return d, nil //nolint:nilerr // an absent pool is an observation (S12)
	}
	defer closeRoot(root)
	return d, fillSnapshot(root, id, &d)
}

func fillSnapshot(root *os.Root, id fsm.SnapshotID, d *executor.Device) error {
	_, err := fillFile(root, snapshotsDir, string(id), "file", d)
	d.ReadOnly = d.Exists
	return err
}

// Allocated returns how many bytes the image occupies, including blocks shared with snapshots.
func (p *Pool) Allocated(_ context.Context, id fsm.VolumeID) (int64, error) {
	f, err := p.openImage(id)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("measure the image of %s: %w", id, err)
	}
	return allocatedBytes(info), nil
}

func allocatedBytes(info fs.FileInfo) int64 {
	const sector = 512 // the unit of st_blocks on every filesystem
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return min(st.Blocks*sector, info.Size())
}

// TakeSnapshot creates the snapshot completely in tmp/ and then renames it. Data that the loop
// device still caches is written to the image first.
func (p *Pool) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress executor.Progress) error {
	current, err := p.ObserveSnapshot(ctx, id)
	if err != nil {
		return err
	}
	from, err := p.openImage(source)
	if current.Exists { // an earlier attempt may have crashed before the sync; the source may be removed
		if err == nil {
			from.Close()
		}
		return p.syncFolder(snapshotsDir)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	if err := p.loops.flush(source, from); err != nil {
		return fmt.Errorf("take snapshot %s of %s: %w", id, source, err)
	}
	made := fileSpec{folder: snapshotsDir, name: string(id) + ".img", mode: snapshotMode}
	if err := p.copyFrom(ctx, from, made, progress); err != nil {
		return fmt.Errorf("take snapshot %s of %s: %w", id, source, err)
	}
	return nil
}

// RemoveSnapshot unlinks the file and what an interrupted TakeSnapshot left.
func (p *Pool) RemoveSnapshot(_ context.Context, id fsm.SnapshotID) error {
	if err := checkSnapshotID(id); err != nil {
		return err
	}
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	var d executor.Device
	if err := fillSnapshot(root, id, &d); err != nil {
		return err
	}
	return unlink(root, snapshotsDir, string(id), "file")
}

func checkSnapshotID(id fsm.SnapshotID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a snapshot's id", string(id))
	}
	return nil
}

// snapshotFile is the path of a snapshot's file within the pool; only for valid ids.
func snapshotFile(folder string, id fsm.SnapshotID) string { return filePath(folder, string(id)) }
