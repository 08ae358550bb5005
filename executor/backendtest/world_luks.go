package backendtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// luksBlocks is how many blocks of a device are in front of what is encrypted.
const luksBlocks = executor.LUKSHeaderBytes / BlockBytes

// luksCopies is how many copies of its header a device has, one block each: a power loss tears one of them at most,
// since the next is written when the one before is durable.
const luksCopies = 2

// WorldHeader is a LUKS header in the world.
type WorldHeader struct {
	UUID string
	// Master is another one for each header that was made: the key of the content, which its slots hide.
	Master string
	Keys   map[int]string // passphrases by slot

	sequence int
}

// Opens reports whether one of the passphrases opens a slot.
func (h WorldHeader) Opens(keys ...string) bool {
	for _, key := range keys {
		if key != "" && slices.Contains(slices.Collect(maps.Values(h.Keys)), key) {
			return true
		}
	}
	return false
}

func (h WorldHeader) opensSlot(slot int, key executor.Passphrase) bool {
	text, there := h.Keys[slot]
	return there && text == string(key.Reveal())
}

func (h WorldHeader) slots() []int { return slices.Sorted(maps.Keys(h.Keys)) }

// text is the header as a block has it.
func (h WorldHeader) text() string {
	text := fmt.Sprintf("luks %d %s %s", h.sequence, h.UUID, h.Master)
	for _, slot := range h.slots() {
		text += fmt.Sprintf(" %d=%s", slot, h.Keys[slot])
	}
	return text + " "
}

func parseHeader(text string) (h WorldHeader, ok bool) {
	fields := strings.Fields(text)
	if len(fields) < 4 || fields[0] != "luks" {
		return h, false
	}
	h = WorldHeader{UUID: fields[2], Master: fields[3], Keys: map[int]string{}}
	h.sequence, _ = strconv.Atoi(fields[1])
	for _, field := range fields[4:] {
		number, key, _ := strings.Cut(field, "=")
		slot, err := strconv.Atoi(number)
		if err != nil {
			return h, false
		}
		h.Keys[slot] = key
	}
	return h, true
}

// headerIn is the newest copy of the header that a content begins with.
func headerIn(content blocks) (newest WorldHeader, found bool) {
	for number := range int64(luksCopies) {
		block := content[number]
		if block == nil {
			continue
		}
		if h, ok := parseHeader(blockText(block)); ok && (!found || h.sequence > newest.sequence) {
			newest, found = h, true
		}
	}
	return newest, found
}

// DiskHeader is the header that the host's disk holds of a volume, without the kernel's help.
func (h *Host) DiskHeader(id fsm.VolumeID) (WorldHeader, bool) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if img := h.image(id); img != nil {
		return headerIn(img.content)
	}
	return WorldHeader{}, false
}

// OpenHeader is the header below the volume's mapping as the kernel reads it, false when there is no mapping or it
// cannot be read.
func (h *Host) OpenHeader(id fsm.VolumeID) (WorldHeader, bool) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	m := h.mappings[id]
	if m == nil {
		return WorldHeader{}, false
	}
	content, err := m.below.content()
	if err != nil {
		return WorldHeader{}, false
	}
	return headerIn(content)
}

// header is what the device begins with, zero where there is none. The lock is held.
func (t target) header() WorldHeader {
	content, err := t.content()
	if err != nil {
		return WorldHeader{}
	}
	h, _ := headerIn(content)
	return h
}

// writeHeader writes the copies of a header, one after the other. The lock is held.
func (t target) writeHeader(h WorldHeader) error {
	for number := range int64(luksCopies) {
		if err := t.write(number, textBlock(h.text())); err != nil {
			return err
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// eraseHeader writes over the header: with zeros, or with what no probe recognises. The lock is held.
func (t target) eraseHeader(block *[BlockBytes]byte) error {
	for number := range int64(luksCopies) {
		if err := t.write(number, block); err != nil {
			return err
		}
	}
	return t.flush()
}

// mapping is an encrypted device while it is open.
type mapping struct {
	below    target
	number   uint64
	size     int64
	readOnly bool
	uuid     string // of the header that it was opened with
}

func (m *mapping) path() string { return fmt.Sprintf("/dev/dm-%d", m.number&0xff) }

func mappingName(id fsm.VolumeID) string { return "/dev/mapper/holdfast-" + string(id) }

// newMapping maps a device under the free number that is lowest. The lock is held.
func (h *Host) newMapping(below target, readOnly bool) *mapping {
	taken := map[uint64]bool{}
	for _, m := range h.mappings {
		taken[m.number] = true
	}
	number := uint64(253 << 8)
	for taken[number] {
		number++
	}
	return &mapping{below: below, number: number, size: below.size() - executor.LUKSHeaderBytes, readOnly: readOnly}
}

// behindHeader is what a mapping shows of a device's content.
func behindHeader(content blocks) blocks {
	shown := blocks{}
	for number, block := range content {
		if number >= luksBlocks {
			shown[number-luksBlocks] = block
		}
	}
	return shown
}

// LoseHeader writes zeros over a volume's header on the host's disk, as a careless operator does.
func (h *Host) LoseHeader(id fsm.VolumeID) {
	h.world.change(func() {
		if img := h.image(id); img != nil {
			for number := range int64(luksCopies) {
				img.place(number, nil)
				delete(img.unsynced, number)
			}
		}
	})
}

// checkWiped: the image of a volume that was open is not removed with its header: who finds the blocks later must find
// no key for them (S65). The lock is held.
func (p *Pool) checkWiped(id fsm.VolumeID) {
	if img := p.images[id]; img != nil && img.opened {
		if _, found := headerIn(img.content); found {
			p.world.violate("S65: %s: %s is removed with its header", p.host.node, id)
		}
	}
}
