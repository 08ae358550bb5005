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

// Observe looks at the volume and its block device. With the pool absent it still
// tells the block device, so that tearing down works.
func (p *Pool) Observe(ctx context.Context, id fsm.VolumeID) (executor.Device, error) {
	var d executor.Device
	if err := checkID(id); err != nil {
		return d, err
	}
	v, err := p.recent(ctx)
	switch {
	case isAbsent(err):
		d.Absent = true
	case err != nil:
		return d, err
	default:
		if err := v.describe(string(id), &d); err != nil {
			return d, err
		}
	}
	return d, p.describeLayer(id, &d)
}

// describe fills in what lies in the pool.
func (v *view) describe(name string, d *executor.Device) error {
	lv, err := v.find(name)
	switch {
	case err != nil || lv == nil:
		return err
	case !lv.has(tagReady):
		d.Unfinished = true
		return nil
	}
	d.Exists = true
	d.Size, err = lv.nominal()
	return err
}

// ready is a whole volume or snapshot, nil without one, with its size.
func (v *view) ready(name string) (lv *volume, size int64, err error) {
	lv, err = v.find(name)
	if err != nil || lv == nil || !lv.has(tagReady) {
		return nil, 0, err
	}
	size, err = lv.nominal()
	return lv, size, err
}

// Create makes the volume, looks that it is empty, and only then calls it ready.
func (p *Pool) Create(ctx context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if size <= 0 || size%sectorSize != 0 {
		return fsm.Reject(fsm.Invalid, "volume %s cannot have %d bytes: it takes a multiple of %d", id, size, sectorSize)
	}
	done, v, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if there, err := v.sameVolume(id, size); there || err != nil {
		return err
	}
	if err := p.makeRoom(ctx, v, string(id)); err != nil {
		return err
	}
	err = p.changed(ctx, "lvcreate", "-T", p.name(), "-n", string(id), "-V", fmt.Sprintf("%db", size),
		"-ky", "-K", "-W", "n", "--addtag", tagOurs, "--addtag", sizeTag(size))
	if err != nil {
		return p.failure("make volume", string(id), err)
	}
	made, err := p.checkBlank(string(id), size)
	if err != nil {
		p.setSound(false)
		return err
	}
	if err := p.finish(ctx, string(id)); err != nil {
		return err
	}
	made.tags = []string{tagOurs, tagReady, sizeTag(size)}
	p.views.know(v.with(made))
	return nil
}

// sameVolume tells whether the volume is there already; one of another size is refused.
func (v *view) sameVolume(id fsm.VolumeID, size int64) (bool, error) {
	lv, have, err := v.ready(string(id))
	switch {
	case err != nil || lv == nil:
		return false, err
	case have != size:
		return false, fsm.Reject(fsm.Incompatible, "volume %s has %d bytes, not %d", id, have, size)
	}
	return true, nil
}

// makeRoom looks that the pool takes something new, and removes what an interrupted
// attempt left under the name.
func (p *Pool) makeRoom(ctx context.Context, v *view, name string) error {
	if err := p.admit(ctx, v); err != nil {
		return err
	}
	left, err := v.find(name)
	if err != nil || left == nil {
		return err
	}
	return p.removeUnfinished(ctx, left)
}

// finish says that a volume or snapshot is whole.
func (p *Pool) finish(ctx context.Context, name string) error {
	if err := p.changed(ctx, "lvchange", "--addtag", tagReady, p.VG+"/"+name); err != nil {
		return p.failure("finish", name, err)
	}
	return nil
}

// failure is an error of a command on a volume; a refusal where the executor knows one.
func (p *Pool) failure(doing, name string, err error) error {
	switch {
	case errors.Is(err, errFull):
		return fsm.Reject(fsm.NoCapacity, "%s %s in pool %s: the pool is full", doing, name, p.name())
	case errors.Is(err, errInUse):
		return fsm.Reject(fsm.InUse, "%s %s in pool %s: it is in use", doing, name, p.name())
	case errors.Is(err, errOrphan):
		p.setSound(false)
	}
	return fmt.Errorf("%s %s in pool %s: %w", doing, name, p.name(), err)
}

// blankLength is how much is read at each place of a new volume, and blankPlaces how
// many places beside its two ends.
const (
	blankLength = 1 << 20
	blankPlaces = 14
)

// checkBlank looks that the pool has no block for an active volume that is new, and
// that it reads as zero: LVM opens a device that it does not know as if it were new,
// with another volume's data. It returns what the kernel knows of the volume.
func (p *Pool) checkBlank(name string, size int64) (volume, error) {
	bytes, err := p.mappedBytes(name)
	if err != nil {
		return volume{}, err
	}
	if bytes != 0 {
		return volume{}, fmt.Errorf("%w: the new volume %s in pool %s holds %d bytes that nobody wrote; it is not used, and not removed: see whose they are",
			errOrphan, name, p.name(), bytes)
	}
	d, err := p.kernel.device(mapped(p.VG, name))
	if err != nil || d == nil {
		return volume{}, errors.Join(err, fmt.Errorf("the new volume %s in pool %s is not active", name, p.name()))
	}
	if err := readsZero(d.path(), size); err != nil {
		return volume{}, fmt.Errorf("check the new volume %s in pool %s: %w", name, p.name(), err)
	}
	long, err := length(d)
	return volume{name: name, uuid: volumeUUID(d.uuid), size: long}, err
}

// readsZero reads the two ends of a device and places between them.
func readsZero(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	length := min(blankLength, size)
	buf, zero := make([]byte, length), make([]byte, length)
	for place := range int64(blankPlaces + 2) {
		at := (size - length) / (blankPlaces + 1) * place
		if place == blankPlaces+1 {
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

// Remove removes the volume and what an interrupted Create left.
func (p *Pool) Remove(ctx context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	done, v, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	on, err := p.kernel.device(p.layerName(id))
	if err != nil {
		return err
	}
	if on != nil {
		return fsm.Reject(fsm.InUse, "volume %s is attached to %s", id, on.path())
	}
	return p.remove(ctx, v, string(id))
}

// remove removes a volume or snapshot of ours, finished or not. Nothing there: done.
func (p *Pool) remove(ctx context.Context, v *view, name string) error {
	lv, err := v.find(name)
	switch {
	case err != nil || lv == nil:
		return err
	case !lv.has(tagReady):
		err = p.removeUnfinished(ctx, lv)
	default:
		err = p.lvremove(ctx, name)
	}
	if err == nil {
		p.views.know(v.without(name))
	}
	return err
}

func (p *Pool) lvremove(ctx context.Context, name string) error {
	if err := p.changed(ctx, "lvremove", "-f", p.VG+"/"+name); err != nil && !errors.Is(err, errMissing) {
		return p.failure("remove", name, err)
	}
	return nil
}

// removeUnfinished removes what an interrupted attempt left. What began empty must be
// empty still: else it shows the data of a device that LVM had lost.
func (p *Pool) removeUnfinished(ctx context.Context, lv *volume) error {
	if lv.tagged(tagFrom) == "" {
		if err := p.activate(ctx, lv.name); err != nil {
			return err
		}
		size, err := lv.nominal()
		if err != nil {
			return err
		}
		if _, err := p.checkBlank(lv.name, size); err != nil {
			return fmt.Errorf("remove what an interrupted attempt left: %w", err)
		}
	}
	return p.lvremove(ctx, lv.name)
}

// activate makes a volume a device of the kernel's, which alone attaches nothing.
func (p *Pool) activate(ctx context.Context, name string) error {
	have, err := p.kernel.device(mapped(p.VG, name))
	if err != nil || have != nil {
		return err
	}
	if err := p.tools.change(ctx, changeTimeout, "lvchange", "-ay", "-K", p.VG+"/"+name); err != nil {
		return fmt.Errorf("activate %s in pool %s: %w", name, p.name(), err)
	}
	return nil
}
