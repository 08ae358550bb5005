package faultfs

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// fsType is the filesystem's type in the kernel's table of mounts.
const fsType = "holdfast-faultfs"

// FS is one mounted filesystem.
type FS struct {
	at       string
	live     string // the directory below, as processes see it
	unlinked string // what names that are not durably gone stood for
	rules    rules

	mu      sync.Mutex
	inodes  map[uint64]*inode // with content that is not durable, by inode number
	changes []nameChange      // that are not durable, in their order
	serial  int

	handles handles
	server  *fuse.Server // nil while it is not mounted
}

// WhyUnavailable says why no such filesystem can be mounted here, empty when one can.
func WhyUnavailable() string {
	if os.Geteuid() != 0 {
		return "needs root to mount a FUSE filesystem"
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return "needs FUSE: " + err.Error()
	}
	_ = f.Close()
	return ""
}

// Mount mounts at a directory what is in another one. What is below belongs to the filesystem.
func Mount(below, at string) (*FS, error) {
	f := &FS{at: at, live: filepath.Join(below, "live"), unlinked: filepath.Join(below, "unlinked"), inodes: map[uint64]*inode{}}
	if err := errors.Join(mkdir(f.live), mkdir(f.unlinked)); err != nil {
		return nil, fmt.Errorf("mount %s: %w", at, err)
	}
	return f, f.mount()
}

func mkdir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

func (f *FS) mount() error {
	loop, err := fs.NewLoopbackRoot(f.live)
	if err != nil {
		return fmt.Errorf("mount %s: %w", f.at, err)
	}
	root, ok := loop.(*fs.LoopbackNode)
	if !ok {
		return fmt.Errorf("mount %s: the library's root is a %T", f.at, loop)
	}
	fd, err := mountFUSE(f.at)
	if err != nil {
		return fmt.Errorf("mount %s: %w", f.at, err)
	}
	server, err := fs.Mount("/dev/fd/"+strconv.Itoa(fd), &node{LoopbackNode: root, fs: f}, options())
	if err != nil {
		return errors.Join(fmt.Errorf("serve %s: %w", f.at, err), unix.Unmount(f.at, unix.MNT_DETACH))
	}
	f.server = server
	return disablePoll(f.at)
}

// disablePoll has the kernel learn that files cannot be polled. Go's runtime asks for that where it may hold
// the last thread that could answer. The library does so by itself only where it mounts by itself, under this name.
func disablePoll(at string) error {
	fd, err := unix.Open(filepath.Join(at, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("poll %s: %w", at, err)
	}
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return errors.Join(err, unix.Close(fd))
}

// mountFUSE mounts, and returns what the filesystem is served by. The library would open that without
// O_CLOEXEC: a child that inherits it keeps the filesystem alive, and waits for itself, when the
// serving process has ended.
func mountFUSE(at string) (fd int, err error) {
	fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w", err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=%o,user_id=0,group_id=0,allow_other", fd, unix.S_IFDIR)
	source := fsType + "-" + strconv.Itoa(os.Getpid())
	if err := unix.Mount(source, at, "fuse."+fsType, unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// options have the kernel keep no names and attributes, as PowerLoss changes them.
func options() *fs.Options {
	never := time.Duration(0)
	return &fs.Options{
		AttrTimeout: &never, EntryTimeout: &never, NegativeTimeout: &never, NullPermissions: true,
		Logger:       log.New(os.Stderr, "faultfs: ", log.LstdFlags),
		MountOptions: fuse.MountOptions{DisableXAttrs: true},
	}
}

// Unmount ends all injections for good and unmounts; what a process holds open is cut off. What is below stays as
// processes last saw it. It may be repeated.
func (f *FS) Unmount() error {
	f.rules.end()
	if f.server == nil {
		return nil
	}
	// The kernel ends its connection first, in whatever namespaces the mount was copied to: what waits for an answer, or asks later, is told
	// that nobody answers, and the mount goes with its last file.
	if err := unix.Unmount(f.at, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", f.at, err)
	}
	f.server.Wait()
	f.server = nil
	f.handles.closeAll()
	f.end(func(*inode) bool { return true })
	return nil
}

// Sweep unmounts what processes that have ended left mounted: they were killed before Unmount.
func Sweep() error {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("fuse." + fsType))
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mounts {
		pid, err := strconv.Atoi(strings.TrimPrefix(m.Source, fsType+"-"))
		if err != nil || unix.Kill(pid, 0) == nil {
			continue
		}
		errs = append(errs, unix.Unmount(m.Mountpoint, unix.MNT_FORCE|unix.MNT_DETACH))
	}
	return errors.Join(errs...)
}
