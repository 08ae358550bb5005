package lvm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// emptyCheckBytes is how much is read at each position of a new volume, and emptyCheckPlaces at
// how many positions beside its two ends.
const (
	emptyCheckBytes  = 1 << 20
	emptyCheckPlaces = 14
)

// checkEmpty checks that the pool has no block allocated for a new, active volume, and that it
// reads as zero: LVM opens a thin device that it does not know as if it were new, with another
// volume's data. It returns the volume with what the kernel reports of it.
func (t *thinVolumes) checkEmpty(name string, size int64) (logicalVolume, error) {
	bytes, err := t.allocatedBytes(name)
	if err != nil {
		return logicalVolume{}, err
	}
	if bytes != 0 {
		return logicalVolume{}, fmt.Errorf("%w: the new volume %s in pool %s holds %d bytes that nobody wrote; it is not used, and not removed: see whose they are",
			errOrphan, name, t.name(), bytes)
	}
	d, err := t.kernel.device(dmName(t.VG, name))
	if err != nil || d == nil {
		return logicalVolume{}, errors.Join(err, fmt.Errorf("the new volume %s in pool %s is not active", name, t.name()))
	}
	if err := checkReadsZero(d.path(), size); err != nil {
		return logicalVolume{}, fmt.Errorf("check the new volume %s in pool %s: %w", name, t.name(), err)
	}
	actual, err := deviceBytes(d)
	return logicalVolume{name: name, uuid: volumeUUID(d.uuid), size: actual}, err
}

// checkReadsZero reads the two ends of a device and positions between them.
func checkReadsZero(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	length := min(emptyCheckBytes, size)
	buf, zero := make([]byte, length), make([]byte, length)
	for place := range int64(emptyCheckPlaces + 2) {
		at := (size - length) / (emptyCheckPlaces + 1) * place
		if place == emptyCheckPlaces+1 {
			at = size - length
		}
		if _, err := io.ReadFull(io.NewSectionReader(f, at, length), buf); err != nil {
			return fmt.Errorf("read %s at %d: %w", path, at, err)
		}
		if !bytes.Equal(buf, zero) {
			return fmt.Errorf("%s does not read as zero at %d", path, at)
		}
	}
	return nil
}
