package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dataDir is a data directory; its methods name, check and write the files in it.
type dataDir struct {
	root string
	disk Disk // the operating system's when nil
}

func (d dataDir) identityPath() string    { return filepath.Join(d.root, "identity.json") }
func (d dataDir) votePath() string        { return filepath.Join(d.root, "vote.json") }
func (d dataDir) markPath() string        { return filepath.Join(d.root, "log.mark") }
func (d dataDir) boltPath() string        { return filepath.Join(d.root, "raft.db") }
func (d dataDir) walPath() string         { return filepath.Join(d.root, "wal") }
func (d dataDir) walMetaPath() string     { return filepath.Join(d.walPath(), "meta.json") }
func (d dataDir) snapshotsPath() string   { return filepath.Join(d.root, "snapshots") }
func (d dataDir) corruptPath() string     { return filepath.Join(d.root, "corrupt") }
func (d dataDir) quarantinedPath() string { return filepath.Join(d.root, "quarantined") }

// requiredPaths lists what a data directory with this kind of log store must contain (S21).
func (d dataDir) requiredPaths(kind string) []string {
	files := []string{d.identityPath(), d.votePath(), d.markPath(), d.boltPath(), d.snapshotsPath(), memberFilePath(d.snapshotsPath())}
	if kind == WAL {
		files = append(files, d.walPath(), d.walMetaPath(), memberFilePath(d.walPath()))
	}
	return files
}

// memberFilePath is the path of the file in a directory that holds its member's id.
func memberFilePath(dir string) string { return filepath.Join(dir, "member") }

// createAndLock creates the directory when it is absent and locks it for this process. The kernel
// releases the lock when the process exits.
func (d dataDir) createAndLock() (*os.File, error) {
	if err := os.MkdirAll(d.root, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	lock, err := os.Open(d.root)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrInUse, d.root)
		}
		return nil, fmt.Errorf("lock data folder %s: %w", d.root, err)
	}
	return lock, nil
}

// checkQuarantine refuses a member that was quarantined (S23).
func (d dataDir) checkQuarantine() error {
	reason, err := os.ReadFile(d.quarantinedPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read quarantine marker: %w", err)
	}
	return fmt.Errorf("%w: %s (%s); remedy: keep its files for study, and %s",
		ErrQuarantined, strings.TrimSpace(string(reason)), d.quarantinedPath(), remedyRejoin)
}

// checkPrivate refuses a directory whose content other users own or can read.
func (d dataDir) checkPrivate(kind string) error {
	for _, path := range append([]string{d.root}, d.requiredPaths(kind)...) {
		st, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // checkRequired has the better message
		}
		if err != nil {
			return fmt.Errorf("check permissions: %w", err)
		}
		if mode := st.Mode().Perm(); mode&0o077 != 0 {
			return refuse(path, fmt.Sprintf("chmod %o %s", mode&^0o077, path), "others than its owner can read it (mode %04o)", mode)
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
			return refuse(path, "chown it to the user that runs this member", "it belongs to uid %d", sys.Uid)
		}
	}
	return nil
}

// checkRequired refuses a directory in which a file required by its identity is missing (S21).
func (d dataDir) checkRequired(kind string) error {
	for _, path := range d.requiredPaths(kind) {
		if _, err := os.Lstat(path); err != nil {
			return refuse(path, "put the file back, or "+remedyRejoin, "a file of this member is missing: %w", err)
		}
	}
	return nil
}

// findMemberFile returns a file of a member in a directory without identity, if there is one.
func (d dataDir) findMemberFile() (string, bool) {
	for _, path := range append(d.requiredPaths(WAL), d.walPath()) {
		if _, err := os.Lstat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// syncFiles makes everything that was read durable. After a killed process the page cache may hold
// what it wrote and never synced; Raft treats what it reads as stored, and would acknowledge it.
func (d dataDir) syncFiles() error {
	for _, path := range []string{d.votePath(), d.boltPath(), d.walPath(), d.snapshotsPath()} {
		err := filepath.WalkDir(path, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return d.sync(path)
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("sync the data folder: %w", err)
		}
	}
	return d.sync(d.root)
}

// writeMember records the member's id in a directory.
func (d dataDir) writeMember(dir, member string) error {
	return d.replaceFile(memberFilePath(dir), []byte(member+"\n"))
}

// checkMember refuses a directory of another member (S21).
func checkMember(dir, member string) error {
	data, err := os.ReadFile(memberFilePath(dir))
	if err != nil {
		return refuse(memberFilePath(dir), remedyRejoin, "cannot tell whose folder this is: %w", err)
	}
	if got := strings.TrimSpace(string(data)); got != member {
		return refuse(dir, "put this member's own files back, or "+remedyRejoin, "it belongs to member %q, this is member %q", got, member)
	}
	return nil
}
