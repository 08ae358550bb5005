package drbd

import (
	"context"
	"fmt"
	"maps"

	"github.com/holdfast-storage/holdfast/fsm"
)

// findDevice returns the minor's line of /proc/drbd, when the kernel has it for this volume.
func (k *kernelState) findDevice(ctx context.Context, t procTable, id fsm.VolumeID, minor uint32) (procDevice, bool, error) {
	d, found := t.devices[minor]
	if !found {
		k.forgetOwner(minor)
		return procDevice{minor: minor}, false, nil
	}
	owner, err := k.minorOwner(ctx, minor)
	switch {
	case err != nil:
		return procDevice{}, false, err
	case owner != id:
		return procDevice{}, false, fsm.Reject(fsm.InUse, "minor %d belongs to %s", minor, owner)
	}
	return d, true, nil
}

// minorOwner returns the volume that a minor belongs to. The result of events2 is cached: a minor
// keeps its owner until it was found unused. A minor that was found unused while events2 ran is
// queried again, as it may have another owner by now.
func (k *kernelState) minorOwner(ctx context.Context, minor uint32) (fsm.VolumeID, error) {
	for {
		k.mu.Lock()
		id, found := k.minorOwners[minor]
		before := maps.Clone(k.freeCounts)
		k.mu.Unlock()
		if found {
			return id, nil
		}
		out, err := k.query(ctx, "drbdsetup", "events2", "--now")
		if err != nil {
			return "", fmt.Errorf("ask the kernel whose minor %d is: %w", minor, err)
		}
		if id, current := k.recordOwners(parseMinors(string(out)), before, minor); current {
			return id, nil
		}
	}
}

// recordOwners caches what the kernel listed, and reports whether it is still current for one
// minor.
func (k *kernelState) recordOwners(listed map[uint32]fsm.VolumeID, before map[uint32]uint64, minor uint32) (id fsm.VolumeID, current bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n, owner := range listed {
		if k.freeCounts[n] == before[n] {
			k.minorOwners[n] = owner
		}
	}
	return k.minorOwners[minor], k.freeCounts[minor] == before[minor]
}

func (k *kernelState) forgetOwner(minor uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.minorOwners, minor)
	k.freeCounts[minor]++
}
