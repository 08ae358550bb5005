package loopfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// deletedSuffix is what the kernel appends to the name of an unlinked file.
const deletedSuffix = " (deleted)"

// boundLoop is one entry of the kernel's list.
type boundLoop struct {
	number int
	file   string // the kernel's path, with deletedSuffix when unlinked
}

// listBound returns every loop device with a backing file.
func listBound() ([]boundLoop, error) {
	dir, err := os.Open("/sys/block")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	var all []boundLoop
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "loop")
		number, err := strconv.Atoi(digits)
		if !ok || err != nil {
			continue
		}
		if file, ok := backingFile(number); ok {
			all = append(all, boundLoop{number, file})
		}
	}
	return all, nil
}

func (b boundLoop) isDeleted() bool { return strings.HasSuffix(b.file, deletedSuffix) }

// volumeIn returns the volume whose image in the pool's directory backs the device. The kernel names a file by its path below the
// mount through which it was opened: where that one was of a container that is gone, what is above it is missing, where the pool is known by
// a symbolic link it is another one, and where it is another node's on this kernel, or is hidden by a later mount, the path is the same. So
// the file itself is compared (S174). Of an absent pool no file can be looked at, and its devices are known still (S12): the path counts then.
func (b boundLoop) volumeIn(p *poolDir) (fsm.VolumeID, bool, error) {
	folder, name := filepath.Split(strings.TrimSuffix(b.file, deletedSuffix))
	text, isImage := strings.CutSuffix(name, ".img")
	above, inVolumes := strings.CutSuffix(folder, "/"+volumesDir+"/")
	id := fsm.VolumeID(text)
	if !isImage || !inVolumes || !id.Valid() || b.isDeleted() && !strings.HasSuffix(p.dir, above) {
		return "", false, nil
	}
	same, err := b.isFileOf(filepath.Join(p.dir, volumesDir), name)
	if !same && p.isAbsent() {
		return id, above == p.dir, nil
	}
	return id, same, err
}

// isBelow tells whether the backing file is the one of its path, below the pool's directory.
func (b boundLoop) isBelow(dir string) (bool, error) {
	if !strings.HasPrefix(b.file, dir+"/") {
		return false, nil
	}
	folder, name := filepath.Split(strings.TrimSuffix(b.file, deletedSuffix))
	return b.isFileOf(folder, name)
}

// isFileOf tells whether the backing file is the one of that name in the folder. One that is deleted has none: it is when it is of
// the folder's filesystem, for the names of volumes are unique.
func (b boundLoop) isFileOf(folder, name string) (bool, error) {
	now, err := loopStatus(b.number)
	if errors.Is(err, errNotBound) {
		return false, nil
	}
	deleted := b.isDeleted()
	if !deleted {
		folder = filepath.Join(folder, name)
	}
	info, failed := os.Lstat(folder)
	if errors.Is(failed, os.ErrNotExist) {
		return false, err
	}
	if err = errors.Join(err, failed); err != nil {
		return false, fmt.Errorf("look whether %s is of %s: %w", devicePath(b.number), folder, err)
	}
	has := inodeOf(info)
	return now.file.dev == has.dev && (deleted || now.file == has), nil
}
