package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// mountGroup is CSI's volume_mount_group; -1: none.
//
// ext4 and xfs have no group for a complete mount, so every file of the filesystem gets the group,
// with rights to read and write, and every directory the set-group-id bit, so that new files
// inherit the group. A default ACL lets the group read and write new files whatever the writer's
// umask is, and gives nothing to others, whom the umask no longer restricts. Nobody else gains
// rights: ACL entries that the mask restricted stay restricted, programs lose their set-user-id
// bit, and device nodes are left alone.
type mountGroup int64

const noGroup mountGroup = -1

func parseGroup(text string) (mountGroup, error) {
	if text == "" {
		return noGroup, nil
	}
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == math.MaxUint32 { // the kernel takes the last one as "unchanged"
		return noGroup, fsm.Reject(fsm.Invalid, "the volume mount group is not a group's number")
	}
	return mountGroup(id), nil
}

const (
	fileBits   = 0o060
	folderBits = unix.S_ISGID | 0o070
	// maxDepth bounds how many directories are open at once.
	maxDepth = 1000
	// readdirBatch is how many entries of a directory are read at once.
	readdirBatch = 1024
)

// chownTree gives all files of a filesystem to the group, through a detached mount, so that no
// other filesystem is mounted below it. It may be repeated, and changes only what is not yet as it
// should be. A read-only filesystem stays as it is.
func (g mountGroup) chownTree(ctx context.Context, tree int) error {
	if g == noGroup {
		return nil
	}
	root, err := openFolder(tree, ".")
	if err != nil {
		return err
	}
	if err = g.chownFolder(ctx, root, 0); errors.Is(err, unix.EROFS) {
		return nil // nothing new can be made there either
	}
	return err
}

func openFolder(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "folder"), nil
}

// chownFolder changes a directory, then its entries: new entries made meanwhile inherit the group.
// It closes the directory.
func (g mountGroup) chownFolder(ctx context.Context, dir *os.File, depth int) error {
	defer dir.Close()
	if depth > maxDepth {
		return fsm.Reject(fsm.Precondition, "folders of the volume are nested deeper than %d: they cannot be given to a group", maxDepth)
	}
	if err := g.chownFile(int(dir.Fd())); err != nil {
		return err
	}
	for {
		names, err := dir.Readdirnames(readdirBatch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := g.chownEntry(ctx, dir, name, depth); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
}

// chownEntry changes one entry of a directory. Symbolic links are not followed.
func (g mountGroup) chownEntry(ctx context.Context, dir *os.File, name string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	below, err := openFolder(int(dir.Fd()), name)
	if err == nil {
		return g.chownFolder(ctx, below, depth+1)
	}
	if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return g.chownFile(fd)
}

// chownFile gives one file to the group. The file is open, so it cannot be replaced by another
// between the check and the change.
func (g mountGroup) chownFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFBLK || kind == unix.S_IFCHR {
		return nil // a device node: it refers to something outside of the volume
	}
	if st.Gid != uint32(g) {
		if err := unix.Fchownat(fd, "", -1, int(g), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if kind == unix.S_IFLNK {
		return nil
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if kind != unix.S_IFDIR {
		return addGroupBits(path, fileBits)
	}
	return errors.Join(addGroupBits(path, folderBits), setDefaultACL(path))
}

// addGroupBits adds group rights to a file's mode, and to its ACL if it has one.
func addGroupBits(path string, bits uint32) error {
	acl, err := readACL(path, accessACL)
	if err != nil {
		return err
	}
	if acl != nil {
		if err := acl.write(path, accessACL, acl.withGroupBits(uint16(bits>>3&7))); err != nil {
			return err
		}
	}
	var st unix.Stat_t // read after the change of the group, which cleared set-user-id
	if err := unix.Stat(path, &st); err != nil || st.Mode&bits == bits {
		return err
	}
	return unix.Chmod(path, st.Mode&0o7777|bits)
}

// setDefaultACL makes new entries of a directory readable and writable by the group.
func setDefaultACL(path string) error {
	acl, err := readACL(path, defaultACL)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil // created without ACL support: the umask decides
	}
	if err != nil {
		return err
	}
	if acl.isMinimal() {
		return acl.write(path, defaultACL, groupOnlyACL)
	}
	return acl.write(path, defaultACL, acl.withGroupBits(7))
}
