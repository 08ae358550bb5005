package mount

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountsKey is what a process's table of mounts depends on: its mount namespace and its root folder.
type mountsKey struct{ namespace, root string }

func readMountsKey(process string) (key mountsKey, err error) {
	if key.namespace, err = os.Readlink(process + "/ns/mnt"); err == nil {
		key.root, err = os.Readlink(process + "/root")
	}
	return key, err
}

// processMounts are the mounts that a process can reach.
type processMounts struct {
	mountsKey
	root  int // a descriptor of its root folder, which is there when the process has ended
	table mountTable
}

func readProcessMounts(process string, key mountsKey) (m processMounts, err error) {
	table, err := readTableOf(process)
	if err != nil {
		return m, err
	}
	root, err := unix.Open(process+"/root", unix.O_PATH|unix.O_CLOEXEC, 0)
	return processMounts{mountsKey: key, root: root, table: table}, err
}

func closeAll(all []processMounts) {
	for _, m := range all {
		closeFD(m.root)
	}
}

// mountsOfAll are those of all processes, each once. They are read before any process is looked at: a descriptor may be of a mount that
// its process does not have in its own namespace, or cannot reach from its root. They have to be closed.
func mountsOfAll(pids []int) (all []processMounts, err error) {
	seen := map[mountsKey]bool{}
	for _, pid := range pids {
		if pid == firstPID {
			continue // it may have rights that this program has not, and others have its namespace
		}
		process := filepath.Join(procFolder, strconv.Itoa(pid))
		key, err := readMountsKey(process)
		if err == nil && !seen[key] {
			var m processMounts
			if m, err = readProcessMounts(process, key); err == nil {
				seen[key] = true
				all = append(all, m)
			}
		}
		if ignoreGone(err) != nil {
			closeAll(all)
			return nil, err
		}
	}
	return all, nil
}

// ignoreGone: a process that ends has no namespace any more, and no files.
func ignoreGone(err error) error {
	if isGone(err) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// lookUp finds a path as the process has it, in the kernel's memory only: no device or server is asked, and none can make it wait.
func (m processMounts) lookUp(path string) (fd int, err error) { return openCached(m.root, path) }

// node is the number of the block device that a path names.
func (m processMounts) node(path string) (number uint64, found bool) {
	file, err := m.lookUp(path)
	if err != nil {
		return 0, false
	}
	defer closeFD(file)
	var st unix.Stat_t
	err = unix.Fstat(file, &st)
	return st.Rdev, err == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK
}

// mountIDs is what a descriptor's mount is of, by the mount's id in all namespaces.
type mountIDs struct {
	// remote tells of those whose files a server keeps: one that does not answer would make a look at them wait, and none of them is of
	// a device.
	remote map[int]bool
	// numbers are those of the mounts' filesystems. The files of an overlay may have others.
	numbers map[int]uint64
}

func newMountIDs(all []processMounts) *mountIDs {
	m := &mountIDs{remote: map[int]bool{}, numbers: map[int]uint64{}}
	for _, mounts := range all {
		m.add(mounts.table)
	}
	return m
}

func (m *mountIDs) add(table mountTable) {
	for _, l := range table {
		m.remote[l.ID] = isRemote(l.FSType)
		m.numbers[l.ID] = l.number()
	}
}

// isRemote tells whether a mount that a thread uses is remote. One that is in no table, as after a lazy unmount, is not.
func (m *mountIDs) isRemote(thread string, id int) (bool, error) {
	if remote, known := m.remote[id]; known {
		return remote, nil
	}
	table, err := readTableOf(thread) // its namespace may be younger than the tables
	if errors.Is(err, unix.EINVAL) {
		return false, unix.ESRCH // it is ending, and has no namespace any more
	}
	if err != nil {
		return false, err
	}
	m.remote[id] = false
	m.add(table)
	return m.remote[id], nil
}

func isRemote(fsType string) bool {
	return strings.HasPrefix(fsType, "fuse") || slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "gfs2", "ocfs2", "lustre", "virtiofs", "autofs"}, fsType)
}
