package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.SnapshotBackend = (*Pool)(nil)

// SharesBlocks returns true: thin snapshots share blocks.
func (p *Pool) SharesBlocks() bool { return true }

// ObserveSnapshot returns whether the snapshot exists and is finished.
func (p *Pool) ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (executor.Device, error) {
	var d executor.Device
	if err := checkSnapshotID(id); err != nil {
		return d, err
	}
	v, err := p.recentState(ctx)
	if isAbsent(err) {
		d.Absent = true
		return d, nil //nolint:nilerr // an absent pool is an observation (S12)
	}
	if err == nil {
		err = v.fillDevice(string(id), &d)
	}
	d.ReadOnly = d.Exists
	return d, err
}

// Allocated returns how many bytes the pool has allocated for the volume, including blocks that it
// shares with snapshots.
func (p *Pool) Allocated(ctx context.Context, id fsm.VolumeID) (int64, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	done, v, err := p.lockRecent(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	lv, size, err := v.findReady(string(id))
	if err != nil {
		return 0, err
	}
	if lv == nil {
		return 0, fsm.Reject(fsm.Precondition, "there is no volume %s in pool %s", id, p.name())
	}
	if err := p.activateLV(ctx, lv.name); err != nil {
		return 0, err
	}
	bytes, err := p.allocatedBytes(lv.name)
	return min(bytes, size), err
}

// TakeSnapshot creates the snapshot and marks it ready only when it is known to be complete: after
// a crash LVM may create an interrupted one at the next boot, with the content that the volume has
// then.
func (p *Pool) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, _ executor.Progress) error {
	if err := errors.Join(checkID(source), checkSnapshotID(id)); err != nil {
		return err
	}
	done, v, err := p.lockFresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if current, _, err := v.findReady(string(id)); current != nil || err != nil {
		return err
	}
	from, size, err := v.findReady(string(source))
	if err != nil {
		return err
	}
	if from == nil {
		return fsm.Reject(fsm.Precondition, "there is no volume %s in pool %s", source, p.name())
	}
	if err := p.prepareCreate(ctx, v, string(id)); err != nil {
		return err
	}
	if err := p.flush(source); err != nil {
		return err
	}
	return p.createThinCopy(ctx, &thinCopy{name: string(id), from: from.name, permission: "-pr", size: size})
}

// thinCopy describes a volume or snapshot that is created as a thin snapshot of another.
type thinCopy struct {
	name, from, permission string
	size                   int64           // bytes
	minSize                int64           // bytes that it must hold; 0: as many as the source
	dropTail               executor.Extent // range of the source that reads as zero in the copy
	chunk                  int64           // the pool's, in bytes
}

// createThinCopy creates a thin snapshot of a volume or snapshot. When the caller's context ends
// meanwhile, nothing is left.
func (p *Pool) createThinCopy(ctx context.Context, c *thinCopy) error {
	err := p.runChange(ctx, "lvcreate", "-s", "-n", c.name, "-ky", c.permission,
		"--addtag", tagOurs, "--addtag", tagFrom+c.from, "--addtag", sizeTag(c.size), p.VG+"/"+c.from)
	if err != nil {
		return p.commandError("make", c.name, err)
	}
	if c.minSize > 0 {
		err = p.extend(ctx, c.name, c.minSize)
	}
	if err == nil && c.dropTail.Length > 0 {
		err = p.zeroTail(ctx, c)
	}
	if err == nil {
		err = ctx.Err() // a snapshot that was cancelled must not appear afterwards
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make %s of %s: %w", c.name, c.from, err), p.lvremove(ctx, c.name))
	}
	return p.markReady(ctx, c.name)
}

// extend makes a logical volume at least size bytes large. What is added reads as zero.
func (p *Pool) extend(ctx context.Context, name string, size int64) error {
	err := p.runChange(ctx, "lvextend", "-L", fmt.Sprintf("%db", size), p.VG+"/"+name)
	if err != nil && !errors.Is(err, errSameSize) {
		return p.commandError("lengthen", name, err)
	}
	return nil
}

// RemoveSnapshot removes the snapshot and what an interrupted TakeSnapshot left.
func (p *Pool) RemoveSnapshot(ctx context.Context, id fsm.SnapshotID) error {
	if err := checkSnapshotID(id); err != nil {
		return err
	}
	done, v, err := p.lockFresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	return p.remove(ctx, v, string(id))
}

// rateSampleBytes is how much is read to measure the pool's rate, in bytes.
const rateSampleBytes = 16 << 20

// CopyRate returns half the rate at which the pool's data can be read, in bytes a second, as a
// copy reads and writes. LVM pools never copy, and nothing is written to measure it. It is
// measured once.
func (p *Pool) CopyRate(ctx context.Context) (int64, error) {
	p.mu.Lock()
	rate := p.copyRate
	p.mu.Unlock()
	if rate > 0 {
		return rate, nil
	}
	done, _, err := p.lockRecent(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	d, err := p.kernel.device(dmName(p.VG, p.ThinPool+"_tdata"))
	if err != nil || d == nil {
		return 0, errors.Join(err, fmt.Errorf("measure pool %s: its data is not active", p.name()))
	}
	if rate, err = readRate(d.path()); err != nil {
		return 0, fmt.Errorf("measure pool %s: %w", p.name(), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copyRate = max(rate/2, 1)
	return p.copyRate, nil
}

// readRate reads the beginning of a device, bypassing the page cache; in bytes a second.
func readRate(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const aligned = 4096
	buf := make([]byte, 1<<20+aligned)
	buf = buf[aligned-int(uintptr(unsafe.Pointer(&buf[0]))%aligned):][:1<<20] // #nosec G103
	start, read := time.Now(), 0
	for read < rateSampleBytes {
		n, err := f.Read(buf)
		if read += n; err != nil {
			break // the pool may be smaller than the sample
		}
	}
	if read == 0 {
		return 0, fmt.Errorf("nothing of %s can be read", path)
	}
	return int64(float64(read) / max(time.Since(start).Seconds(), 1e-6)), nil
}
