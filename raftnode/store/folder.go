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

// folder names the files of one data folder.
type folder string

func (d folder) identity() string    { return filepath.Join(string(d), "identity.json") }
func (d folder) vote() string        { return filepath.Join(string(d), "vote.json") }
func (d folder) mark() string        { return filepath.Join(string(d), "log.mark") }
func (d folder) bolt() string        { return filepath.Join(string(d), "raft.db") }
func (d folder) wal() string         { return filepath.Join(string(d), "wal") }
func (d folder) walMeta() string     { return filepath.Join(d.wal(), "meta.json") }
func (d folder) snapshots() string   { return filepath.Join(string(d), "snapshots") }
func (d folder) corrupt() string     { return filepath.Join(string(d), "corrupt") }
func (d folder) quarantined() string { return filepath.Join(string(d), "quarantined") }

// named lists what a folder of this kind must hold (S21).
func (d folder) named(kind string) []string {
	files := []string{d.identity(), d.vote(), d.mark(), d.bolt(), d.snapshots(), memberFile(d.snapshots())}
	if kind == WAL {
		files = append(files, d.wal(), d.walMeta(), memberFile(d.wal()))
	}
	return files
}

// memberFile names the file that says whose folder this is.
func memberFile(dir string) string { return filepath.Join(dir, "member") }

// prepare makes the folder when it is absent and takes it for this process. The
// lock ends with the process, however it ends.
func (d folder) prepare() (*os.File, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	lock, err := os.Open(string(d))
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrInUse, d)
		}
		return nil, fmt.Errorf("lock data folder %s: %w", d, err)
	}
	return lock, nil
}

// checkQuarantine refuses a member that was quarantined (S23).
func (d folder) checkQuarantine() error {
	reason, err := os.ReadFile(d.quarantined())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read quarantine marker: %w", err)
	}
	return fmt.Errorf("%w: %s (%s); remedy: keep its files for study, and %s",
		ErrQuarantined, strings.TrimSpace(string(reason)), d.quarantined(), rejoin)
}

// checkPrivate refuses a folder whose content others can read, or that they own.
func (d folder) checkPrivate(kind string) error {
	for _, path := range append([]string{string(d)}, d.named(kind)...) {
		st, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // checkNamed says it better
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

// checkNamed refuses a folder in which a file that its identity names is missing (S21).
func (d folder) checkNamed(kind string) error {
	for _, path := range d.named(kind) {
		if _, err := os.Lstat(path); err != nil {
			return refuse(path, "put the file back, or "+rejoin, "a file of this member is missing: %w", err)
		}
	}
	return nil
}

// holdsFiles names one file of a member in a folder without identity, if there is one.
func (d folder) holdsFiles() (string, bool) {
	for _, path := range append(d.named(WAL), d.wal()) {
		if _, err := os.Lstat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// syncAll makes everything that was read durable. After a kill, the page cache may
// hold what the process wrote and never synced; Raft takes what it reads for
// stored, and would acknowledge it.
func (d folder) syncAll() error {
	for _, path := range []string{d.vote(), d.bolt(), d.wal(), d.snapshots()} {
		err := filepath.WalkDir(path, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return syncPath(path)
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("sync the data folder: %w", err)
		}
	}
	return syncPath(string(d))
}

// writeMember notes in a folder whose it is.
func writeMember(dir, member string) error {
	return replaceFile(memberFile(dir), []byte(member+"\n"))
}

// checkMember refuses a folder that belongs to another member (S21).
func checkMember(dir, member string) error {
	data, err := os.ReadFile(memberFile(dir))
	if err != nil {
		return refuse(memberFile(dir), rejoin, "cannot tell whose folder this is: %w", err)
	}
	if got := strings.TrimSpace(string(data)); got != member {
		return refuse(dir, "put this member's own files back, or "+rejoin, "it belongs to member %q, this is member %q", got, member)
	}
	return nil
}
