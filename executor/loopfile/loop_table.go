package loopfile

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// loopTable caches which loop devices belong to which volume. Cached entries are verified with the
// kernel before they are used.
type loopTable struct {
	setupLock sync.Mutex

	mu       sync.Mutex
	scanned  bool // the kernel's complete list was read once
	compared bool // it was while the pool was there, so that every file was compared (S174)
	byVolume map[fsm.VolumeID][]loop
	updates  uint64 // counts the calls of store, and the lists that were taken over
}

// devicesOf returns the volume's loop devices, the one to keep first. The kernel's complete list
// is read once per process, and once more when the pool is there if it was absent then; later devices were all set up by this process.
func (l *loopTable) devicesOf(id fsm.VolumeID, file *inode, p *poolDir) ([]loop, error) {
	l.mu.Lock()
	scanned, compared, known, updates := l.scanned, l.compared, l.byVolume[id], l.updates
	l.mu.Unlock()
	if !scanned || !compared && !p.isAbsent() {
		if err := l.scanAll(p); err != nil {
			return nil, err
		}
		return l.devicesOf(id, file, p)
	}
	var current []loop
	for _, k := range known {
		dev, err := loopStatus(k.number)
		if errors.Is(err, errNotBound) || err == nil && dev.file != k.file {
			continue
		}
		if err != nil {
			return nil, err
		}
		current = append(current, dev)
	}
	l.storeIfUnchanged(id, updates, current)
	return current, nil
}

// storeIfUnchanged stores what an observation found, unless a device was set up or removed since
// updates was read: observations take no lock. Comparing the devices would not suffice, as the
// kernel reuses the lowest free number.
func (l *loopTable) storeIfUnchanged(id fsm.VolumeID, updates uint64, current []loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.updates == updates {
		l.setLocked(id, current)
	}
}

func (l *loopTable) store(id fsm.VolumeID, found []loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updates++
	l.setLocked(id, found)
}

// setLocked stores a volume's devices; the caller holds mu.
func (l *loopTable) setLocked(id fsm.VolumeID, found []loop) {
	if l.byVolume == nil {
		l.byVolume = map[fsm.VolumeID][]loop{}
	}
	if len(found) == 0 {
		delete(l.byVolume, id)
		return
	}
	l.byVolume[id] = found
}

// scanAll reads the kernel's list and adopts the devices of this pool.
func (l *loopTable) scanAll(p *poolDir) error {
	l.mu.Lock()
	updates := l.updates
	l.mu.Unlock()
	there := !p.isAbsent()
	all, err := listBound()
	if err != nil {
		return err
	}
	found := map[fsm.VolumeID][]loop{}
	for _, b := range all {
		id, ok, err := b.volumeIn(p)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		dev, err := loopStatus(b.number)
		if errors.Is(err, errNotBound) {
			continue
		}
		if err != nil {
			return err
		}
		found[id] = append(found[id], dev)
	}
	for id := range found {
		found[id] = dropDuplicates(found[id])
	}
	l.takeOver(updates, found, there && !p.isAbsent())
	return nil
}

// takeOver takes what a list says, unless a device was set up or removed since updates was read, or another list was taken over: whoever
// needs it lists again. A list that compared no files takes the place of none.
func (l *loopTable) takeOver(updates uint64, found map[fsm.VolumeID][]loop, compared bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.updates != updates || l.scanned && !compared {
		return
	}
	l.scanned, l.compared, l.byVolume = true, compared, found
	l.updates++
}

// dropDuplicates puts the device to keep first, the one in use or else the first, and removes the
// others of the same file that are unused: two devices over one file do not see each other's
// writes. Those in use stay in the list.
func dropDuplicates(found []loop) []loop {
	if len(found) < 2 {
		return found
	}
	keep := 0
	for i := range found {
		if inUse(found[i]) {
			keep = i
			break
		}
	}
	remaining := []loop{found[keep]}
	for i := range found {
		if i != keep && (found[i].file != found[keep].file || detachLoop(found[i]) != nil) {
			remaining = append(remaining, found[i])
		}
	}
	return remaining
}

// scan searches the kernel's list for one volume's devices, including those of other programs.
func (l *loopTable) scan(id fsm.VolumeID, file *inode, p *poolDir) ([]loop, error) {
	all, err := listBound()
	if err != nil {
		return nil, err
	}
	var found []loop
	for _, b := range all {
		if !strings.HasPrefix(filepath.Base(b.file), string(id)+".img") {
			continue
		}
		now, err := loopStatus(b.number)
		if errors.Is(err, errNotBound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		owner, ok, err := b.volumeIn(p)
		if err != nil {
			return nil, err
		}
		if ok && owner == id || file != nil && now.file == *file {
			found = append(found, now)
		}
	}
	l.store(id, found)
	return found, nil
}
