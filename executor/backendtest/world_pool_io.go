package backendtest

import (
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// DiscardZeros gives blocks of a volume's image back that hold nothing but zeros.
func (p *Pool) DiscardZeros(id fsm.VolumeID) {
	p.world.change(func() {
		if img := p.images[id]; img != nil {
			maps.DeleteFunc(img.content, func(_ int64, b *[BlockBytes]byte) bool { return *b == [BlockBytes]byte{} })
		}
	})
}

// Write writes bytes into a volume's image, as a writer on its device does. They are not durable.
func (p *Pool) Write(id fsm.VolumeID, at int64, data []byte) {
	p.world.change(func() {
		img := p.images[id]
		for img != nil && len(data) > 0 {
			fresh := &[BlockBytes]byte{}
			if old := img.content[at/BlockBytes]; old != nil {
				*fresh = *old
			}
			n := copy(fresh[at%BlockBytes:], data)
			img.set(at/BlockBytes, fresh)
			at, data = at+int64(n), data[n:]
		}
	})
}

// Sync makes durable what was written to a volume's image.
func (p *Pool) Sync(id fsm.VolumeID) {
	p.world.change(func() {
		if img := p.images[id]; img != nil {
			img.unsynced = nil
		}
	})
}

// Content returns what a volume's image holds; nothing when there is none.
func (p *Pool) Content(id fsm.VolumeID) FakeContent {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if img := p.images[id]; img != nil {
		return FakeContent{img.size, img.content.truncated(img.size)}
	}
	return FakeContent{}
}

// SnapshotContent returns what a snapshot holds, and whether there is one.
func (p *Pool) SnapshotContent(id fsm.SnapshotID) (FakeContent, bool) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	s, ok := p.snapshots[id]
	return FakeContent{s.size, s.content.truncated(s.size)}, ok
}

// canWrite is why the disk takes no write of an image's block. The lock is held.
func (p *Pool) canWrite(img *image, number int64) error {
	allocated := img.content[number] != nil
	switch {
	case p.hanging:
		return errHangs
	case p.absent || p.writeErrors || (number+1)*BlockBytes > img.size:
		return errIO
	case !allocated && (p.fullData || p.fullMetadata):
		return errIO
	}
	return nil
}

// canRead is why the disk cannot be read. The lock is held.
func (p *Pool) canRead() error {
	switch {
	case p.hanging:
		return errHangs
	case p.absent || p.readErrors:
		return errIO
	}
	return nil
}

// set replaces a block in the disk's cache; nil makes it read as zero.
func (img *image) set(number int64, block *[BlockBytes]byte) {
	if img.unsynced == nil {
		img.unsynced = map[int64]*[BlockBytes]byte{}
	}
	if _, cached := img.unsynced[number]; !cached {
		img.unsynced[number] = img.content[number]
	}
	img.place(number, block)
}

// place replaces a block durably.
func (img *image) place(number int64, block *[BlockBytes]byte) {
	if block == nil {
		delete(img.content, number)
		return
	}
	if img.content == nil {
		img.content = blocks{}
	}
	img.content[number] = block
}

// clear makes the whole image read as zero.
func (img *image) clear() {
	for _, number := range slices.Sorted(maps.Keys(img.content)) {
		img.set(number, nil)
	}
}

// flushAll makes everything durable. The lock is held.
func (p *Pool) flushAll() {
	for _, img := range p.images {
		img.unsynced = nil
	}
}

// loseUnsynced is the loss of power: what becomes of each block that is only in the disk's cache is
// chosen. The lock is held.
func (p *Pool) loseUnsynced(choose func(n int) int) {
	for _, id := range sortedKeys(p.images) {
		img := p.images[id]
		for _, number := range slices.Sorted(maps.Keys(img.unsynced)) {
			img.lose(number, choose)
		}
		img.unsynced = nil
	}
}

func (img *image) lose(number int64, choose func(n int) int) {
	outcome, old := 0, img.unsynced[number]
	if choose != nil {
		outcome = choose(3)
	}
	switch outcome {
	case 0:
		img.place(number, old)
	case 2:
		img.place(number, torn(old, img.content[number]))
	}
}

// torn is a block of which the first half was written.
func torn(old, fresh *[BlockBytes]byte) *[BlockBytes]byte {
	half := &[BlockBytes]byte{}
	if old != nil {
		*half = *old
	}
	if fresh == nil {
		fresh = &[BlockBytes]byte{}
	}
	copy(half[:BlockBytes/2], fresh[:])
	return half
}
