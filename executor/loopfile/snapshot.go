package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.SnapshotBackend = (*Pool)(nil)

// snapshotMode protects a snapshot against accidental writes by all but root.
const snapshotMode = 0o400

func checkSnapshotID(id fsm.SnapshotID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a snapshot's id", string(id))
	}
	return nil
}

// snapshotFile is the path of a snapshot's file within the pool; only for valid ids.
func snapshotFile(folder string, id fsm.SnapshotID) string { return folder + "/" + string(id) + ".img" }

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
	if _, err := root.Lstat(snapshotFile(tmpDir, id)); err == nil {
		d.Unfinished = true
	}
	info, err := root.Lstat(snapshotFile(snapshotsDir, id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the file of %s: %w", id, err)
	case !info.Mode().IsRegular():
		return fsm.Reject(fsm.Precondition, "the file of %s is not a regular file", id)
	}
	d.Exists, d.ReadOnly, d.Size = true, true, info.Size()
	return nil
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

// openImage opens a volume's image for reading; Precondition when there is none.
func (p *Pool) openImage(id fsm.VolumeID) (*os.File, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return p.openFile(image(volumesDir, id), "image of "+string(id))
}

func (p *Pool) openSnapshot(id fsm.SnapshotID) (*os.File, error) {
	if err := checkSnapshotID(id); err != nil {
		return nil, err
	}
	return p.openFile(snapshotFile(snapshotsDir, id), "file of "+string(id))
}

func (p *Pool) openFile(name, what string) (*os.File, error) {
	root, err := p.open()
	if err != nil {
		return nil, err
	}
	defer closeRoot(root)
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fsm.Reject(fsm.Precondition, "there is no %s", what)
	case err != nil:
		return nil, fmt.Errorf("open the %s: %w", what, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fsm.Reject(fsm.Precondition, "the %s is not a regular file", what)
	}
	return f, nil
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
	if err := p.flushImage(source, from); err != nil {
		return fmt.Errorf("cut %s of %s: %w", id, source, err)
	}
	made := fileSpec{folder: snapshotsDir, name: string(id) + ".img", mode: snapshotMode}
	if err := p.copyFrom(ctx, from, made, progress); err != nil {
		return fmt.Errorf("cut %s of %s: %w", id, source, err)
	}
	return nil
}

// flushImage writes all data of the loop device to the image's file. The device has a page cache
// of its own above the file's.
func (p *Pool) flushImage(id fsm.VolumeID, file *os.File) error {
	found, err := p.loops.devicesOf(id, nil, p.dir)
	if err != nil {
		return fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	for _, dev := range found {
		if err := syncDevice(dev); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync the image of %s: %w", id, err)
	}
	return nil
}

func syncDevice(l loop) error {
	fd, err := openLoop(l.number, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open %s: %w", l.path(), err)
	}
	defer closeFD(fd)
	if err := unix.Fsync(fd); err != nil {
		return fmt.Errorf("sync %s: %w", l.path(), err)
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
	for _, dir := range []string{tmpDir, snapshotsDir} {
		if err := root.Remove(snapshotFile(dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the file of %s: %w", id, err)
		}
	}
	if err := syncDir(root, snapshotsDir); err != nil {
		return fmt.Errorf("remove the file of %s: %w", id, err)
	}
	return nil
}

func (p *Pool) syncFolder(folder string) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	return syncDir(root, folder)
}
