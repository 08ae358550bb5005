package lvm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// poolState is what LVM reports of a pool and of all that is in it, from one command.
type poolState struct {
	groupUUID     string // the volume group's UUID
	extentBytes   int64  // bytes
	pool          logicalVolume
	chunkBytes    int64 // bytes
	zeroesBlocks  bool  // new blocks are zeroed
	errorWhenFull bool  // a full pool fails writes at once, instead of queueing them
	transaction   uint64
	volumes       map[string]logicalVolume // by name, also those of others
	imports       map[fsm.VolumeID]string  // the names of what was imported, or is being imported, as that volume
}

// logicalVolume is one logical volume.
type logicalVolume struct {
	name, uuid string
	size       int64 // bytes, in whole extents
	tags       []string
	thinID     uint64 // the thin device's id in the pool
}

func (lv *logicalVolume) hasTag(tag string) bool { return slices.Contains(lv.tags, tag) }

// tagValue is what follows a tag's prefix; empty without such a tag.
func (lv *logicalVolume) tagValue(prefix string) string {
	for _, tag := range lv.tags {
		if rest, ok := strings.CutPrefix(tag, prefix); ok {
			return rest
		}
	}
	return ""
}

// taggedSize is the size in bytes that the volume was created with, never more than the logical
// volume has.
func (lv *logicalVolume) taggedSize() (int64, error) {
	size, err := strconv.ParseInt(lv.tagValue(tagSize), 10, 64)
	if err != nil || size <= 0 || size > lv.size {
		return 0, fsm.Reject(fsm.Precondition, "the tags %s of %s do not say its size of at most %d bytes", strings.Join(lv.tags, ","), lv.name, lv.size)
	}
	return size, nil
}

// poolID is the id that the pool is tagged with.
func (s *poolState) poolID() (fsm.PoolID, error) {
	switch id := s.pool.tagValue(tagPool); {
	case s.pool.name == "":
		return "", errors.New("there is no such thin pool")
	case id == "":
		return "", fmt.Errorf("it has no tag %s", tagPool)
	case !poolPattern.MatchString(id):
		return "", fmt.Errorf("its tag %s%s is no pool's id", tagPool, id)
	default:
		return fsm.PoolID(id), nil
	}
}

// with is the state with one more volume, which was not read from LVM.
func (s *poolState) with(lv logicalVolume) *poolState {
	next := *s
	next.volumes = maps.Clone(s.volumes)
	next.volumes[lv.name] = lv
	return &next
}

// without is the state less one volume.
func (s *poolState) without(name string) *poolState {
	next := *s
	next.volumes = maps.Clone(s.volumes)
	delete(next.volumes, name)
	return &next
}

// findOurs returns a volume or snapshot of Holdfast's by its name, nil when there is none. A
// logical volume with the name but without our tag is refused: it is never touched.
func (s *poolState) findOurs(name string) (*logicalVolume, error) {
	found, ok := s.volumes[name]
	switch {
	case !ok || s.isImporting(name):
		return nil, nil
	case !found.hasTag(tagOurs):
		return nil, fsm.Reject(fsm.Precondition, "the logical volume %s has no tag %s: it is not ours", name, tagOurs)
	}
	return &found, nil
}

// findReady returns a finished volume or snapshot, nil without one, with its size in bytes.
func (s *poolState) findReady(name string) (lv *logicalVolume, size int64, err error) {
	lv, err = s.findOurs(name)
	if err != nil || lv == nil || !lv.hasTag(tagReady) {
		return nil, 0, err
	}
	size, err = lv.taggedSize()
	return lv, size, err
}

// fillDevice fills in what LVM's state says of the volume.
func (s *poolState) fillDevice(name string, d *executor.Device) error {
	lv, err := s.findOurs(name)
	if lv == nil && err == nil {
		lv = s.findReverted(name)
	}
	d.Unfinished = s.hasLeftover(name) || s.isImporting(name)
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

// findReverted returns what is a volume although it does not have the name yet: an interrupted
// Revert had finished it, and renamed the volume before. It is nil where there is nothing of the
// kind.
func (s *poolState) findReverted(name string) *logicalVolume {
	old, made := s.volumes[name+replacedSuffix], s.volumes[name+revertedSuffix]
	if _, named := s.volumes[name]; named || !old.hasTag(tagOurs) || !made.hasTag(tagOurs) || !made.hasTag(tagReady) {
		return nil
	}
	return &made
}

// hasLeftover reports whether a Revert of the volume left anything.
func (s *poolState) hasLeftover(name string) bool {
	old, made := s.volumes[name+replacedSuffix], s.volumes[name+revertedSuffix]
	return old.hasTag(tagOurs) || made.hasTag(tagOurs)
}
