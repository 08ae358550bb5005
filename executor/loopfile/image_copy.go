package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// CreateFrom creates the image from a source's content. A source that is a volume is copied as it
// is now: the caller has frozen what must be frozen (S19).
func (p *Pool) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress executor.Progress) error {
	current, err := p.Observe(ctx, id)
	switch {
	case err != nil:
		return err
	case current.Exists && current.Size == size:
		return p.syncFolder(volumesDir)
	case current.Exists:
		return fsm.Reject(fsm.Incompatible, "the image of %s has %d bytes, not %d", id, current.Size, size)
	}
	from, err := p.openSource(source)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := checkFits(from, content, size); err != nil {
		return err
	}
	m := fileSpec{folder: volumesDir, name: string(id) + ".img", mode: 0o600, sourceBytes: content, size: size}
	if err := p.copyFrom(ctx, from, m, progress); err != nil {
		return fmt.Errorf("make the image of %s: %w", id, err)
	}
	return nil
}

func (p *Pool) openSource(source fsm.Source) (*os.File, error) {
	if source.Volume == "" {
		return p.openSnapshot(source.Snapshot)
	}
	f, err := p.openImage(source.Volume)
	if err != nil {
		return nil, err
	}
	if err := p.loops.flush(source.Volume, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkFits refuses a source of which more is to be copied than the volume has room for.
func checkFits(from *os.File, content, size int64) error {
	toCopy, err := bytesToCopy(from, content)
	if err != nil {
		return fmt.Errorf("measure the source: %w", err)
	}
	if toCopy > size {
		return fsm.Reject(fsm.OutOfRange, "the source has %d bytes, more than the %d of the volume", toCopy, size)
	}
	return nil
}

// fileSpec describes a file that is created in tmp/ and then renamed.
type fileSpec struct {
	folder, name string
	mode         fs.FileMode
	sourceBytes  int64 // how many bytes of the source are copied; zero: all
	size         int64 // bytes; zero: as the source
	replaces     bool  // it takes the place of a file that has the name
}

// renameFlags are those of the rename into place.
func (m *fileSpec) renameFlags() uint {
	if m.replaces {
		return 0
	}
	return unix.RENAME_NOREPLACE
}

// copyFrom creates a file with the content of another: completely written and synced in tmp/, then
// renamed. A failure leaves nothing, a crash may leave a file in tmp/.
func (p *poolDir) copyFrom(ctx context.Context, from *os.File, m fileSpec, progress executor.Progress) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	name := tmpDir + "/" + m.name
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an interrupted copy left: %w", err)
	}
	to, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = writeCopy(ctx, from, to, m, progress)
	if err = errors.Join(err, to.Close()); err == nil {
		err = ctx.Err() // a snapshot that was cancelled must not appear afterwards
	}
	if err != nil {
		return errors.Join(err, root.Remove(name))
	}
	if err := moveIntoPlace(root, m.folder, m.name, m.renameFlags()); err != nil {
		return fmt.Errorf("move %s into %s: %w", m.name, m.folder, err)
	}
	return nil
}

func writeCopy(ctx context.Context, from, to *os.File, m fileSpec, progress executor.Progress) error {
	if err := cloneOrCopy(ctx, from, to, m.sourceBytes, progress); err != nil {
		return err
	}
	if m.size != 0 {
		if err := to.Truncate(m.size); err != nil {
			return err
		}
	}
	return errors.Join(to.Chmod(m.mode), to.Sync())
}

// cloneOrCopy makes the new file share the blocks of the other's first content bytes (0: all), or
// copies them where the filesystem cannot share. The new file ends there: what it is extended by
// reads as zero.
func cloneOrCopy(ctx context.Context, from, to *os.File, content int64, progress executor.Progress) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	toCopy, err := bytesToCopy(from, content)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
	if cannotClone(err) {
		return copySparse(ctx, from, to, toCopy, progress)
	}
	if err != nil {
		return fmt.Errorf("share the blocks of %s: %w", from.Name(), err)
	}
	return to.Truncate(toCopy)
}

// bytesToCopy is how many bytes of a file are copied: content, or its whole size.
func bytesToCopy(from *os.File, content int64) (int64, error) {
	info, err := from.Stat()
	if err != nil {
		return 0, err
	}
	if content > 0 {
		return min(content, info.Size()), nil
	}
	return info.Size(), nil
}

func cannotClone(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS)
}
