package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// sectorSize is the unit of the device mapper's tables.
const sectorSize = 512

// Observe returns the state of the volume and its block device. With the pool absent it still
// reports the block device, so that teardown works.
func (p *Pool) Observe(ctx context.Context, id fsm.VolumeID) (executor.Device, error) {
	var d executor.Device
	if err := checkID(id); err != nil {
		return d, err
	}
	v, err := p.recentState(ctx)
	switch {
	case isAbsent(err):
		d.Absent = true
	case err != nil:
		return d, err
	default:
		if err := v.fillDevice(string(id), &d); err != nil {
			return d, err
		}
	}
	return d, p.fillLayer(id, &d)
}

// fillDevice fills in what LVM's state says of the volume.
func (v *poolState) fillDevice(name string, d *executor.Device) error {
	lv, err := v.findOurs(name)
	switch {
	case err != nil || lv == nil:
		return err
	case !lv.hasTag(tagReady):
		d.Unfinished = true
		return nil
	}
	d.Exists = true
	d.Size, err = lv.taggedSize()
	return err
}

// findReady returns a finished volume or snapshot, nil without one, with its size in bytes.
func (v *poolState) findReady(name string) (lv *logicalVolume, size int64, err error) {
	lv, err = v.findOurs(name)
	if err != nil || lv == nil || !lv.hasTag(tagReady) {
		return nil, 0, err
	}
	size, err = lv.taggedSize()
	return lv, size, err
}

// Create creates the volume, checks that it is empty, and only then marks it ready.
func (p *Pool) Create(ctx context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if size <= 0 || size%sectorSize != 0 {
		return fsm.Reject(fsm.Invalid, "volume %s cannot have %d bytes: it takes a multiple of %d", id, size, sectorSize)
	}
	done, v, err := p.lockFresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if exists, err := v.checkExisting(id, size); exists || err != nil {
		return err
	}
	if err := p.prepareCreate(ctx, v, string(id)); err != nil {
		return err
	}
	err = p.runChange(ctx, "lvcreate", "-T", p.name(), "-n", string(id), "-V", fmt.Sprintf("%db", size),
		"-ky", "-K", "-W", "n", "--addtag", tagOurs, "--addtag", sizeTag(size))
	if err != nil {
		return p.commandError("make volume", string(id), err)
	}
	made, err := p.checkEmpty(string(id), size)
	if err != nil {
		p.setNoOrphans(false)
		return err
	}
	if err := p.markReady(ctx, string(id)); err != nil {
		return err
	}
	made.tags = []string{tagOurs, tagReady, sizeTag(size)}
	p.states.store(v.with(made))
	return nil
}

// checkExisting reports whether the volume exists already; one of another size is refused.
func (v *poolState) checkExisting(id fsm.VolumeID, size int64) (bool, error) {
	lv, current, err := v.findReady(string(id))
	switch {
	case err != nil || lv == nil:
		return false, err
	case current != size:
		return false, fsm.Reject(fsm.Incompatible, "volume %s has %d bytes, not %d", id, current, size)
	}
	return true, nil
}

// prepareCreate checks that the pool accepts new volumes, and removes what an interrupted attempt
// left under the name.
func (p *Pool) prepareCreate(ctx context.Context, v *poolState, name string) error {
	if err := p.checkAcceptsNew(ctx, v); err != nil {
		return err
	}
	unfinished, err := v.findOurs(name)
	if err != nil || unfinished == nil {
		return err
	}
	return p.removeUnfinished(ctx, unfinished)
}

// markReady tags a volume or snapshot as finished.
func (p *Pool) markReady(ctx context.Context, name string) error {
	if err := p.runChange(ctx, "lvchange", "--addtag", tagReady, p.VG+"/"+name); err != nil {
		return p.commandError("finish", name, err)
	}
	return nil
}

// commandError wraps the error of a command on a volume; it is a rejection where the failure is a
// known one.
func (p *Pool) commandError(action, name string, err error) error {
	switch {
	case errors.Is(err, errFull):
		return fsm.Reject(fsm.NoCapacity, "%s %s in pool %s: the pool is full", action, name, p.name())
	case errors.Is(err, errInUse):
		return fsm.Reject(fsm.InUse, "%s %s in pool %s: it is in use", action, name, p.name())
	case errors.Is(err, errOrphan):
		p.setNoOrphans(false)
	}
	return fmt.Errorf("%s %s in pool %s: %w", action, name, p.name(), err)
}

// emptyCheckBytes is how much is read at each position of a new volume, and emptyCheckPlaces at
// how many positions beside its two ends.
const (
	emptyCheckBytes  = 1 << 20
	emptyCheckPlaces = 14
)

// checkEmpty checks that the pool has no block allocated for a new, active volume, and that it
// reads as zero: LVM opens a thin device that it does not know as if it were new, with another
// volume's data. It returns the volume with what the kernel reports of it.
func (p *Pool) checkEmpty(name string, size int64) (logicalVolume, error) {
	bytes, err := p.allocatedBytes(name)
	if err != nil {
		return logicalVolume{}, err
	}
	if bytes != 0 {
		return logicalVolume{}, fmt.Errorf("%w: the new volume %s in pool %s holds %d bytes that nobody wrote; it is not used, and not removed: see whose they are",
			errOrphan, name, p.name(), bytes)
	}
	d, err := p.kernel.device(dmName(p.VG, name))
	if err != nil || d == nil {
		return logicalVolume{}, errors.Join(err, fmt.Errorf("the new volume %s in pool %s is not active", name, p.name()))
	}
	if err := checkReadsZero(d.path(), size); err != nil {
		return logicalVolume{}, fmt.Errorf("check the new volume %s in pool %s: %w", name, p.name(), err)
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

// Remove removes the volume and what an interrupted Create left. A missing volume is no error.
func (p *Pool) Remove(ctx context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	done, v, err := p.lockFresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	layerDev, err := p.kernel.device(p.layerName(id))
	if err != nil {
		return err
	}
	if layerDev != nil {
		return fsm.Reject(fsm.InUse, "volume %s is attached to %s", id, layerDev.path())
	}
	return p.remove(ctx, v, string(id))
}

// remove removes a volume or snapshot of Holdfast's, finished or not. None there: done.
func (p *Pool) remove(ctx context.Context, v *poolState, name string) error {
	lv, err := v.findOurs(name)
	switch {
	case err != nil || lv == nil:
		return err
	case !lv.hasTag(tagReady):
		err = p.removeUnfinished(ctx, lv)
	default:
		err = p.lvremove(ctx, name)
	}
	if err == nil {
		p.states.store(v.without(name))
	}
	return err
}

func (p *Pool) lvremove(ctx context.Context, name string) error {
	if err := p.runChange(ctx, "lvremove", "-f", p.VG+"/"+name); err != nil && !errors.Is(err, errMissing) {
		return p.commandError("remove", name, err)
	}
	return nil
}

// removeUnfinished removes what an interrupted attempt left. What was created empty must still be
// empty: otherwise it exposes the data of a device that LVM had lost.
func (p *Pool) removeUnfinished(ctx context.Context, lv *logicalVolume) error {
	if lv.tagValue(tagFrom) == "" {
		if err := p.activateLV(ctx, lv.name); err != nil {
			return err
		}
		size, err := lv.taggedSize()
		if err != nil {
			return err
		}
		if _, err := p.checkEmpty(lv.name, size); err != nil {
			return fmt.Errorf("remove what an interrupted attempt left: %w", err)
		}
	}
	return p.lvremove(ctx, lv.name)
}

// activateLV activates a logical volume in the kernel. That alone does not create the volume's
// block device.
func (p *Pool) activateLV(ctx context.Context, name string) error {
	current, err := p.kernel.device(dmName(p.VG, name))
	if err != nil || current != nil {
		return err
	}
	if err := p.tools.runChange(ctx, changeTimeout, "lvchange", "-ay", "-K", p.VG+"/"+name); err != nil {
		return fmt.Errorf("activate %s in pool %s: %w", name, p.name(), err)
	}
	return nil
}
