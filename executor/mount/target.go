package mount

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// CheckTarget returns an error unless something may be bound to the path: it does not exist, or is
// an empty directory for a filesystem or an empty file for a node, and no mount. Anything else
// would remain after the unbind.
func (m *Mounter) CheckTarget(path string, node bool) error {
	p, err := m.resolveRoot(path)
	if err != nil {
		return err
	}
	lines, err := readTable()
	if err != nil {
		return err
	}
	if _, mounted := lines.top(p.real()); mounted {
		return fsm.Reject(fsm.Precondition, "something else is mounted on %s", p)
	}
	parent, base, err := p.parent()
	if err != nil {
		return p.pathRejection(err)
	}
	defer closeFD(parent)
	fd, err := openBelow(parent, base, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return nil // Bind creates it
	}
	if err != nil {
		return p.pathRejection(err)
	}
	defer closeFD(fd)
	return p.checkBindable(fd, node)
}

// checkBindable checks the opened path: a bind must not hide any content.
func (p rootedPath) checkBindable(fd int, node bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", p, err)
	}
	kind := st.Mode & unix.S_IFMT
	switch {
	case node && kind != unix.S_IFREG, !node && kind != unix.S_IFDIR:
		return fsm.Reject(fsm.Precondition, "the path %s is there, but is not what this volume is bound to: a folder for a filesystem, a file for a raw volume", p)
	case node && st.Size != 0:
		return fsm.Reject(fsm.Precondition, "the file %s is not empty: remove it, or name another target path", p)
	case node:
		return nil
	}
	return p.checkEmptyFolder(fd)
}

func (p rootedPath) checkEmptyFolder(fd int) error {
	dir, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fmt.Errorf("look into %s: %w", p, err)
	}
	defer dir.Close()
	switch _, err := dir.Readdirnames(1); {
	case err == nil:
		return fsm.Reject(fsm.Precondition, "the folder %s is not empty: empty it, or name another target path", p)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("look into %s: %w", p, err)
	}
}
