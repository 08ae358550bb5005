package backendtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// target is a block device of a host: an image's, DRBD's above one, or an encryption's above either.
type target struct {
	host       *Host
	volume     fsm.VolumeID
	number     uint64
	replicated bool
	mapped     *mapping // nil: it is not encrypted, or what is below its encryption
}

// find returns the device that has a path now. The lock is held.
func (h *Host) find(path string) (target, error) {
	for _, id := range sortedKeys(h.devices) {
		if d := h.devices[id]; d.path == path || stablePath(id) == path {
			return target{host: h, volume: id, number: d.number}, nil
		}
	}
	for _, id := range sortedKeys(h.world.resources) {
		r := h.world.resources[id]
		if s := r.seats[h.node]; s != nil && s.devicePath() == path && r.inKernel(h.node) {
			return target{host: h, volume: id, number: s.deviceNumber(), replicated: true}, nil
		}
	}
	for _, id := range sortedKeys(h.mappings) {
		if m := h.mappings[id]; m.path() == path || mappingName(id) == path {
			return target{host: h, volume: id, number: m.number, mapped: m}, nil
		}
	}
	return target{}, fmt.Errorf("%s is no device: %w", path, errors.ErrUnsupported)
}

// exists reports whether the device is still there. The lock is held.
func (t target) exists() bool {
	if !t.host.up {
		return false
	}
	if t.mapped != nil {
		return t.host.mappings[t.volume] == t.mapped && t.mapped.below.exists()
	}
	if t.replicated {
		r := t.host.world.resources[t.volume]
		return r != nil && r.inKernel(t.host.node) && r.seats[t.host.node].deviceNumber() == t.number
	}
	d := t.host.devices[t.volume]
	return d != nil && d.number == t.number
}

// size is how many bytes it has. The lock is held.
func (t target) size() int64 {
	if t.mapped != nil {
		return t.mapped.size
	}
	if t.replicated {
		return t.host.world.resources[t.volume].size
	}
	if img := t.image(); img != nil {
		return img.size
	}
	return 0
}

func (t target) image() *image { return t.host.image(t.volume) }

// image returns a volume's image on the host, nil when there is none. The lock is held.
func (h *Host) image(id fsm.VolumeID) *image {
	for _, p := range h.pools {
		if img := p.images[id]; img != nil {
			return img
		}
	}
	return nil
}

// poolOf returns the pool that has a volume's image, nil when none has. The lock is held.
func (h *Host) poolOf(id fsm.VolumeID) *Pool {
	for _, p := range h.pools {
		if p.images[id] != nil {
			return p
		}
	}
	return nil
}

// write writes one block. The lock is held.
func (t target) write(number int64, block *[BlockBytes]byte) error {
	if !t.exists() {
		return errIO
	}
	if m := t.mapped; m != nil {
		if m.readOnly || (number+1)*BlockBytes > m.size {
			return errIO
		}
		return m.below.write(number+luksBlocks, block)
	}
	if t.replicated {
		return t.host.world.resources[t.volume].write(t.host, number, block)
	}
	pool := t.host.poolOf(t.volume)
	if pool == nil || t.host.devices[t.volume].readOnly {
		return errIO
	}
	img := pool.images[t.volume]
	if err := pool.canWrite(img, number); err != nil {
		return err
	}
	img.set(number, block)
	return nil
}

// flush makes durable what was written. The lock is held.
func (t target) flush() error {
	if !t.exists() {
		return errIO
	}
	if t.mapped != nil {
		return t.mapped.below.flush()
	}
	if t.replicated {
		return t.host.world.resources[t.volume].canWrite(t.host)
	}
	pool := t.host.poolOf(t.volume)
	switch {
	case pool == nil || pool.absent || pool.writeErrors:
		return errIO
	case pool.hanging:
		return errHangs
	}
	pool.images[t.volume].unsynced = nil
	return nil
}

// content is what reads of the device return. The lock is held.
func (t target) content() (blocks, error) {
	if !t.exists() {
		return nil, errIO
	}
	if t.mapped != nil {
		content, err := t.mapped.below.content()
		return behindHeader(content), err
	}
	if t.replicated {
		return t.host.world.resources[t.volume].read(t.host)
	}
	pool := t.host.poolOf(t.volume)
	if pool == nil {
		return nil, errIO
	}
	return pool.images[t.volume].content, pool.canRead()
}

// isOpen reports whether a device is mounted, bound, written to or below an open encryption. The lock is held.
func (h *Host) isOpen(number uint64) bool {
	for _, m := range h.mappings {
		if m.below.number == number {
			return true
		}
	}
	return slices.ContainsFunc(h.mounts, func(m *mountEntry) bool { return m.target.number == number }) ||
		slices.ContainsFunc(h.writers, func(w *Writer) bool { return !w.gone && w.target.number == number })
}

// superblock is the block that says what filesystem is on a device.
const superblock = 0

// superblockText is what a finished filesystem has there.
func superblockText(fsType, uuid string, size int64) *[BlockBytes]byte {
	return textBlock(fmt.Sprintf("filesystem %s %s %d ", fsType, uuid, size))
}

// unfinishedFormat is what no probe recognises.
func unfinishedFormat() *[BlockBytes]byte { return textBlock("unfinished ") }

// parseSuperblock reads the filesystem of a device; one that was torn is none.
func parseSuperblock(content blocks) (fsType, uuid string, size int64, ok bool) {
	block := content[superblock]
	if block == nil {
		return "", "", 0, false
	}
	n, err := fmt.Sscanf(blockText(block), "filesystem %s %s %d", &fsType, &uuid, &size)
	return fsType, uuid, size, err == nil && n == 3
}

// textBlock repeats a text in both halves of a block, so that a torn block shows.
func textBlock(text string) *[BlockBytes]byte {
	b := &[BlockBytes]byte{}
	copy(b[:BlockBytes/2], text)
	copy(b[BlockBytes/2:], text)
	return b
}

// blockText is the text of a block that is not torn, else empty.
func blockText(block *[BlockBytes]byte) string {
	first, second := string(block[:BlockBytes/2]), string(block[BlockBytes/2:])
	if first != second {
		return ""
	}
	return strings.TrimRight(first, "\x00")
}

// inOrder lists the numbers of a content's blocks.
func inOrder(content blocks) []int64 { return slices.Sorted(maps.Keys(content)) }
