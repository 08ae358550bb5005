package faultfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxChanges is how many changes of names wait to be synced; older ones are durable.
const maxChanges = 64

// nameChange is a change of one name or two that is not durable.
type nameChange struct {
	made     string   // the path below that exists by it; empty when it only removed
	gone     string   // the path that was there before
	kept     string   // where that which `made` or `gone` stood for is kept; empty when nothing was lost
	inode    uint64   // that `made` stands for
	folders  []uint64 // that must be synced
	wasDir   bool     // what is gone is a directory, of this mode
	modeGone os.FileMode
}

// keep keeps what a path stands for under another name, and returns that; empty where there is nothing.
func (f *FS) keep(path string) string {
	f.mu.Lock()
	f.serial++
	kept := filepath.Join(f.unlinked, strconv.Itoa(f.serial))
	f.mu.Unlock()
	if os.Link(path, kept) != nil {
		return "" // there is no such file, or it is a directory
	}
	return kept
}

// remember adds a change that was done.
func (f *FS) remember(c nameChange, paths ...string) {
	for _, path := range paths {
		c.folders = append(c.folders, inodeNumber(filepath.Dir(path)))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, c)
	for len(f.changes) > maxChanges {
		f.settle(0)
	}
}

// settleAll makes all changes durable.
func (f *FS) settleAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.changes) > 0 {
		f.settle(0)
	}
}

// settle makes one change durable. The caller holds the lock.
func (f *FS) settle(at int) {
	c := f.changes[at]
	f.changes = slices.Delete(f.changes, at, at+1)
	if c.kept != "" {
		_ = os.Remove(c.kept)
	}
	if c.wasDir && c.made == "" {
		f.forgetBelow(c.gone, at)
	}
	if c.made == "" || c.gone == "" {
		return
	}
	for i := range f.changes[:at] { // what is in a directory that has another name now
		f.changes[i].made = movedPath(f.changes[i].made, c.gone, c.made)
		f.changes[i].gone = movedPath(f.changes[i].gone, c.gone, c.made)
	}
}

// forgetBelow forgets the earlier changes in a directory that is durably gone. The caller holds the lock.
func (f *FS) forgetBelow(folder string, before int) {
	inside := func(path string) bool { return strings.HasPrefix(path, folder+"/") }
	var rest []nameChange
	for i, c := range f.changes {
		if i >= before || !inside(c.made) && !inside(c.gone) {
			rest = append(rest, c)
			continue
		}
		if c.kept != "" {
			_ = os.Remove(c.kept)
		}
	}
	f.changes = rest
}

func movedPath(path, from, to string) string {
	if rest, below := strings.CutPrefix(path, from+"/"); below {
		return to + "/" + rest
	}
	return path
}

// settleWhere makes the changes durable that a sync concerns.
func (f *FS) settleWhere(concerns func(nameChange) bool) {
	f.mu.Lock()
	kept := false
	for {
		i := slices.IndexFunc(f.changes, concerns)
		if i < 0 {
			break
		}
		kept = kept || f.changes[i].kept != "" || f.changes[i].wasDir
		f.settle(i)
	}
	f.mu.Unlock()
	if kept {
		f.end((*inode).isUnlinked)
	}
}

// undo undoes a change, unless what it made is another's by now.
func (c nameChange) undo() error {
	if c.made != "" {
		if inodeNumber(c.made) != c.inode {
			return nil
		}
		if err := c.undoMade(); err != nil {
			return err
		}
	}
	switch {
	case c.kept != "" && c.made != "": // a rename took its place
		return os.Rename(c.kept, c.made)
	case c.kept != "" && !exists(c.gone):
		return os.Rename(c.kept, c.gone)
	case c.wasDir && c.made == "" && !exists(c.gone):
		return os.Mkdir(c.gone, c.modeGone)
	}
	return nil
}

// undoMade takes the new name back; a directory with durable names in it is durable itself.
func (c nameChange) undoMade() error {
	if c.gone != "" && !exists(c.gone) {
		return os.Rename(c.made, c.gone)
	}
	err := os.Remove(c.made)
	if errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// inodeNumber is zero when there is nothing at the path.
func inodeNumber(path string) uint64 {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return 0
	}
	return st.Ino
}
