package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// systemDisk is the size of the disk that a machine itself has, bytes; it is sparse.
const systemDisk = 32 << 30

func (c Config) makeDisks(ctx context.Context) error {
	failed := makeDisk(ctx, c.path("disk.img"), systemDisk, true)
	if c.Kernel != nil {
		failed = errors.Join(failed, makeDisk(ctx, c.path("guest.img"), systemDisk, true))
	}
	for _, d := range c.Disks {
		failed = errors.Join(failed, makeDisk(ctx, c.path(d.Name+".img"), d.Size, d.At != ""))
	}
	return failed
}

// makeDisk makes an image unless there is one, with a filesystem where that is wanted.
func makeDisk(ctx context.Context, path string, size int64, formatted bool) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	part := path + ".part"
	if err := errors.Join(os.WriteFile(part, nil, 0o600), os.Truncate(part, size)); err != nil {
		return err
	}
	if formatted {
		if out, err := exec.CommandContext(ctx, "mkfs.xfs", "-q", "-f", part).CombinedOutput(); err != nil {
			return fmt.Errorf("make a filesystem in %s: %w: %s", part, err, out)
		}
	}
	return os.Rename(part, path)
}

// loop is a loop device, the number of its block device, and where its file lies.
type loop struct {
	path   string
	number uint64
	file   string // as the kernel names it; a path of the host only where the file's filesystem is still mounted there
	inside uint64 // the device number of the filesystem that the file is on
	over   uint64 // that of the block device that is the file, or 0: kubelet keeps a raw volume's device so
}

func loops() ([]loop, error) {
	found, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var all []loop
	for _, path := range found {
		if l, ok := readLoop("/dev/"+strings.Split(path, "/")[3], path); ok {
			all = append(all, l)
		}
	}
	return all, nil
}

// readLoop is false for a device that was detached meanwhile.
func readLoop(device, backing string) (loop, bool) {
	file, err := os.ReadFile(backing)
	if err != nil {
		return loop{}, false
	}
	f, err := os.Open(device)
	if err != nil {
		return loop{}, false
	}
	defer f.Close()
	var stat unix.Stat_t
	status, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil || unix.Fstat(int(f.Fd()), &stat) != nil {
		return loop{}, false
	}
	return loop{device, stat.Rdev, strings.TrimSpace(string(file)), status.Device, status.Rdevice}, true
}

// detachLoops detaches the devices whose files are on the machine's disks, and waits until the disks are detached too: the kernel does so
// by itself once nothing is mounted from them.
func (c Config) detachLoops() error {
	for range 200 {
		mine, err := c.detachOnce()
		if err != nil || mine == 0 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the disks of the machine %s stay in use: see losetup -a", c.Name)
}

// detachOnce returns how many of the machine's disks are attached still.
func (c Config) detachOnce() (int, error) {
	all, err := loops()
	if err != nil {
		return 0, err
	}
	disks := map[uint64]bool{}
	for _, l := range all {
		if strings.HasPrefix(l.file, c.Folder()+"/") {
			disks[l.number] = true
		}
	}
	volumes := map[uint64]bool{}
	for _, l := range all {
		if disks[l.inside] {
			volumes[l.number] = true
		}
	}
	for _, l := range all {
		if disks[l.inside] || volumes[l.over] {
			err = errors.Join(err, detach(l.path))
		}
	}
	return len(disks), err
}

func detach(device string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detach %s: %w", device, err)
	}
	return nil
}
