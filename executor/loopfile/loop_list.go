package loopfile

import (
	"errors"
	"os"
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

// volumeIn returns the volume whose image in the pool's directory backs the device.
func (b boundLoop) volumeIn(dir string) (fsm.VolumeID, bool) {
	name, ok := strings.CutPrefix(strings.TrimSuffix(b.file, deletedSuffix), dir+"/"+volumesDir+"/")
	id, isImage := strings.CutSuffix(name, ".img")
	return fsm.VolumeID(id), ok && isImage && fsm.VolumeID(id).Valid()
}
