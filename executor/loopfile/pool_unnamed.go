package loopfile

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// testReflink tries to share one block between two temporary files in a directory. With an error,
// nothing was found that keeps it from sharing.
func testReflink(root *os.Root, name string) (bool, error) {
	var cloned error
	err := withUnnamedFiles(root, name, make([]byte, fsm.VolumeSizeUnit), func(from, to *os.File) error {
		cloned = unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
		if cannotClone(cloned) {
			return nil
		}
		return cloned
	})
	return cloned == nil, err
}

// The suffixes of the names that two temporary files have for an instant; tryName is theirs in a folder that is no pool yet.
const (
	fromSuffix = ".from"
	toSuffix   = ".to"
	tryName    = ".holdfast-try"
)

// withUnnamedFiles calls do with two temporary files without a name, the first of them filled and
// synced. Each has the name for an instant, with a suffix.
func withUnnamedFiles(root *os.Root, name string, content []byte, do func(from, to *os.File) error) error {
	from, err := openUnnamed(root, name+fromSuffix)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openUnnamed(root, name+toSuffix)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := from.Write(content); err != nil {
		return err
	}
	if err := from.Sync(); err != nil {
		return err
	}
	// A real copy reads data that was not just written: drop it from the page cache.
	_ = unix.Fadvise(int(from.Fd()), 0, 0, unix.FADV_DONTNEED)
	return do(from, to)
}

func openUnnamed(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return f, root.Remove(name)
}
