package loopfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// deletedSuffix is what the kernel appends to the name of an unlinked file.
const deletedSuffix = " (deleted)"

// loops knows which loop devices belong to which volume. The kernel is asked
// before anything that is remembered is believed.
type loops struct {
	setup sync.Mutex

	mu     sync.Mutex
	primed bool // the kernel's whole list was read once
	known  map[fsm.VolumeID][]loop
	noted  uint64 // how often somebody said what a volume has
}

// of is the volume's loop devices, the one to keep first. The whole list is
// read once per process; after that this process made every other one.
func (l *loops) of(id fsm.VolumeID, file *inode, dir string) ([]loop, error) {
	l.mu.Lock()
	primed, known, noted := l.primed, l.known[id], l.noted
	l.mu.Unlock()
	if !primed {
		if err := l.prime(dir); err != nil {
			return nil, err
		}
		return l.of(id, file, dir)
	}
	var still []loop
	for _, k := range known {
		now, err := status(k.number)
		if errors.Is(err, errFree) || err == nil && now.file != k.file {
			continue
		}
		if err != nil {
			return nil, err
		}
		still = append(still, now)
	}
	l.renew(id, noted, still)
	return still, nil
}

// renew remembers what became of what was known, unless somebody set up or took down a
// device meanwhile: who only looks waits for nobody. What is known then may be the same as
// before, as the kernel gives the lowest free number.
func (l *loops) renew(id fsm.VolumeID, noted uint64, still []loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.noted == noted {
		l.set(id, still)
	}
}

func (l *loops) remember(id fsm.VolumeID, found []loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted++
	l.set(id, found)
}

// set is for whoever holds mu.
func (l *loops) set(id fsm.VolumeID, found []loop) {
	if l.known == nil {
		l.known = map[fsm.VolumeID][]loop{}
	}
	if len(found) == 0 {
		delete(l.known, id)
		return
	}
	l.known[id] = found
}

// prime reads the kernel's list and adopts what belongs to this pool.
func (l *loops) prime(dir string) error {
	all, err := list()
	if err != nil {
		return err
	}
	found := map[fsm.VolumeID][]loop{}
	for _, b := range all {
		id, ok := b.volumeIn(dir)
		if !ok {
			continue
		}
		now, err := status(b.number)
		if errors.Is(err, errFree) {
			continue
		}
		if err != nil {
			return err
		}
		found[id] = append(found[id], now)
	}
	for id := range found {
		found[id] = settle(found[id])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.primed {
		l.primed, l.known = true, found
	}
	return nil
}

// settle puts the device to keep first, the one in use or else the first, and
// takes down the others of the same file that nobody uses: two devices on one
// file do not see each other's writes. Those in use stay in the list.
func settle(found []loop) []loop {
	if len(found) < 2 {
		return found
	}
	kept := 0
	for i := range found {
		if inUse(found[i]) {
			kept = i
			break
		}
	}
	left := []loop{found[kept]}
	for i := range found {
		if i != kept && (found[i].file != found[kept].file || tearDown(found[i]) != nil) {
			left = append(left, found[i])
		}
	}
	return left
}

// scan reads the kernel's list for one volume, also what others set up.
func (l *loops) scan(id fsm.VolumeID, file *inode, dir string) ([]loop, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	var found []loop
	for _, b := range all {
		if !strings.HasPrefix(filepath.Base(b.file), string(id)+".img") {
			continue
		}
		now, err := status(b.number)
		if errors.Is(err, errFree) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if owner, ok := b.volumeIn(dir); ok && owner == id || file != nil && now.file == *file {
			found = append(found, now)
		}
	}
	l.remember(id, found)
	return found, nil
}

// bound is one line of the kernel's list.
type bound struct {
	number int
	file   string // as the kernel names it, with its suffix when unlinked
}

// list is every loop device that is set up.
func list() ([]bound, error) {
	dir, err := os.Open("/sys/block")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	var all []bound
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "loop")
		number, err := strconv.Atoi(digits)
		if !ok || err != nil {
			continue
		}
		if file, ok := backing(number); ok {
			all = append(all, bound{number, file})
		}
	}
	return all, nil
}

// volumeIn is the volume whose image in the pool's folder backs the device.
func (b bound) volumeIn(dir string) (fsm.VolumeID, bool) {
	name, ok := strings.CutPrefix(strings.TrimSuffix(b.file, deletedSuffix), dir+"/"+volumesDir+"/")
	id, isImage := strings.CutSuffix(name, ".img")
	return fsm.VolumeID(id), ok && isImage && fsm.VolumeID(id).Valid()
}
