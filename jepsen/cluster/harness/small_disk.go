package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Disk is a small filesystem of its own under the data directory of one child.
type Disk struct {
	image, root, data string
}

// PutOnDisk moves the data directory of a child that does not run onto a new ext4
// filesystem of the size in bytes.
func (c *Cluster) PutOnDisk(ctx context.Context, id string, size int64) (*Disk, error) {
	l, err := c.Layout()
	if err != nil {
		return nil, err
	}
	return c.putOnDisk(ctx, id, l.DataDir(id), size)
}

// PutPoolOnDisk does the same with the pool of a node, which must have no filesystem of its own.
func (c *Cluster) PutPoolOnDisk(ctx context.Context, node string, size int64) (*Disk, error) {
	l, err := c.Layout()
	if err != nil {
		return nil, err
	}
	return c.putOnDisk(ctx, node+".pool", l.PoolDir(node), size)
}

// PutSnapshotsOnDisk does the same with the Raft snapshots of a controller alone.
func (c *Cluster) PutSnapshotsOnDisk(ctx context.Context, controller string, size int64) (*Disk, error) {
	l, err := c.Layout()
	if err != nil {
		return nil, err
	}
	return c.putOnDisk(ctx, controller+".snapshots", filepath.Join(l.DataDir(controller), "snapshots"), size)
}

func (c *Cluster) putOnDisk(ctx context.Context, name, folder string, size int64) (*Disk, error) {
	d, err := MakeDisk(ctx, filepath.Join(c.Base, name+".disk"), filepath.Join(c.Base, name+".root"), size)
	if err != nil {
		return nil, err
	}
	d.data = folder
	inside := filepath.Join(d.root, "data")
	return d, d.prepare(ctx, []string{"cp", "-a", d.data, inside}, []string{"mount", "--bind", inside, d.data})
}

// MakeDisk makes an ext4 filesystem of the size in bytes in a file, and mounts it at a new directory.
func MakeDisk(ctx context.Context, image, root string, size int64) (*Disk, error) {
	d := &Disk{image: image, root: root}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Truncate(d.image, size), os.Mkdir(d.root, 0o700)); err != nil {
		return nil, err
	}
	return d, d.prepare(ctx, []string{"mkfs.ext4", "-q", "-m", "0", d.image}, []string{"mount", "-o", "loop", d.image, d.root})
}

// prepare runs commands; after an error of one nothing stays mounted.
func (d *Disk) prepare(ctx context.Context, commands ...[]string) error {
	for _, argv := range commands {
		if err := runCommand(ctx, argv...); err != nil {
			return errors.Join(err, d.Remove(ctx))
		}
	}
	return nil
}

// runCommand runs one host command.
func runCommand(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Fill leaves so many bytes free.
func (d *Disk) Fill(leave int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(d.root, &fs); err != nil {
		return err
	}
	f, err := os.OpenFile(d.fillerPath(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	more := int64(fs.Bavail)*fs.Bsize - leave
	if more <= 0 {
		return nil
	}
	// In pieces: the filesystem may need a little of the space for itself.
	for end, piece := info.Size(), min(more, int64(Mi)); more > 0 && piece >= 4096; {
		switch err := unix.Fallocate(int(f.Fd()), 0, end, min(piece, more)); {
		case err == nil:
			end, more = end+min(piece, more), more-min(piece, more)
		case errors.Is(err, unix.ENOSPC):
			piece /= 2
		default:
			return fmt.Errorf("fill %s: %w", d.root, err)
		}
	}
	return nil
}

// Free gives the space back.
func (d *Disk) Free() error { return os.Remove(d.fillerPath()) }

func (d *Disk) fillerPath() string { return filepath.Join(d.root, "filler") }

// Root is the directory at which the filesystem is mounted.
func (d *Disk) Root() string { return d.root }

// Remove unmounts the filesystem. The child must not run; its data directory is
// what it was before PutOnDisk.
func (d *Disk) Remove(ctx context.Context) error {
	var errs []error
	for _, path := range []string{d.data, d.root} {
		if path == "" {
			continue
		}
		if n, err := MountsAt(path); err != nil || n > 0 {
			errs = append(errs, err, runCommand(ctx, "umount", path))
		}
	}
	return errors.Join(errs...)
}
