package backendtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Stamp is one write of a volume's user.
type Stamp struct {
	Volume   fsm.VolumeID
	Host     fsm.NodeID
	Epoch    fsm.Epoch // of the publication that it was written under
	Sequence uint64    // of all stamps of the world
}

// String is for messages.
func (s Stamp) String() string {
	return fmt.Sprintf("stamp %d of %s on %s under %d/%d", s.Sequence, s.Volume, s.Host, s.Epoch.Incarnation, s.Epoch.Index)
}

// firstStamp is the lowest number of a block that a stamp of a volume is written to.
const firstStamp = 16

// places are where the stamps of one stretch of blocks go, one after the other. Users do not write in the order of
// the blocks: a copy in that order, of what is written to meanwhile, then has a stamp and lacks an earlier one.
var places = [...]int64{4, 0, 5, 1, 6, 2, 7, 3}

// stampPlace is the number of the block that a volume's n-th stamp, from 0, is written to.
func stampPlace(n int64) int64 {
	const stretch = int64(len(places))
	return firstStamp + n/stretch*stretch + places[n%stretch]
}

func stampBlock(s Stamp) *[BlockBytes]byte {
	return textBlock(fmt.Sprintf("stamp %s %s %d %d %d ", s.Volume, s.Host, s.Epoch.Incarnation, s.Epoch.Index, s.Sequence))
}

func parseStamp(block *[BlockBytes]byte) (s Stamp, ok bool) {
	text := blockText(block)
	if !strings.HasPrefix(text, "stamp ") {
		return s, false
	}
	n, err := fmt.Sscanf(text, "stamp %s %s %d %d %d", &s.Volume, &s.Host, &s.Epoch.Incarnation, &s.Epoch.Index, &s.Sequence)
	return s, err == nil && n == 5
}

// stampsIn lists the stamps that a content holds, by their sequence.
func stampsIn(content blocks) (found []Stamp) {
	for _, number := range inOrder(content) {
		if s, ok := parseStamp(content[number]); ok {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b Stamp) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return found
}

// DiskStamps lists the stamps that the host's disk holds of a volume, without the kernel's help.
func (h *Host) DiskStamps(id fsm.VolumeID) []Stamp {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if img := h.image(id); img != nil {
		return stampsIn(img.content)
	}
	return nil
}

// DiskAttached reports whether the host's kernel has the disk of a replica attached.
func (h *Host) DiskAttached(id fsm.VolumeID) bool {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	r := h.world.resources[id]
	return r != nil && r.seats[h.node] != nil && r.observe(h.node).Disk > fsmpb.DiskState_DISK_STATE_FAILED
}

// SnapshotStamps lists the stamps that a snapshot on the host holds, and whether there is one.
func (h *Host) SnapshotStamps(id fsm.SnapshotID) ([]Stamp, bool) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	for _, p := range h.pools {
		if s, ok := p.snapshots[id]; ok {
			return stampsIn(s.content), true
		}
	}
	return nil, false
}

// ReadStamps lists the stamps that a reader finds at a path.
func (h *Host) ReadStamps(path string) ([]Stamp, error) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	m := h.topMount(realPath(path))
	if m == nil {
		return nil, fmt.Errorf("nothing is mounted on %s", path)
	}
	content, err := m.target.content()
	if err != nil {
		return nil, waits(err)
	}
	found := stampsIn(content)
	if m.filesystem != nil {
		for _, d := range m.filesystem.dirty {
			found = append(found, d.stamp)
		}
	}
	return found, nil
}
