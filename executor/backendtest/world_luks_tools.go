package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// luksTools is a process's encryptor. Copies of headers are real files, as the process's records are.
type luksTools struct{ process *Process }

var _ executor.Encryptor = (*luksTools)(nil)

// Encryptor encrypts volumes of the host.
func (p *Process) Encryptor() executor.Encryptor { return &luksTools{p} }

var errNoHeader = errors.New("the device has no LUKS header")

func errNoSlot(id fsm.VolumeID) error {
	return fsm.Reject(fsm.Unauthenticated, "volume %s: the passphrase opens no slot of its header", id)
}

func (t *luksTools) effect(name, device string) effect {
	return effect{part: "luks", name: name, volume: t.process.host.ownerOf(device), detail: device}
}

// onDevice does an effect on the device that has a path.
func (t *luksTools) onDevice(ctx context.Context, name, device string, act func(d target) error) error {
	return t.process.do(ctx, t.effect(name, device), t.finding(device, act))
}

// look is an observation of the device that has a path.
func (t *luksTools) look(ctx context.Context, name, device string, act func(d target) error) error {
	return t.process.read(ctx, t.effect(name, device), t.finding(device, act))
}

func (t *luksTools) finding(device string, act func(d target) error) func() error {
	return func() error {
		d, err := t.process.host.find(device)
		if err != nil {
			return err
		}
		return act(d)
	}
}

func (t *luksTools) Check(context.Context) error { return nil }

func (t *luksTools) Mapping(ctx context.Context, id fsm.VolumeID) (d executor.Device, err error) {
	err = t.process.read(ctx, effect{part: "luks", name: "mapping", volume: id}, func() error {
		if m := t.process.host.mappings[id]; m != nil {
			d = executor.Device{Exists: true, Path: m.path(), StablePath: mappingName(id), Number: m.number, Size: m.size, ReadOnly: m.readOnly}
		}
		return nil
	})
	return d, err
}

func (t *luksTools) Mappings(ctx context.Context) (all []executor.LUKSMapping, err error) {
	h := t.process.host
	err = t.process.read(ctx, effect{part: "luks", name: "mappings"}, func() error {
		for _, id := range slices.Sorted(maps.Keys(h.mappings)) {
			m := h.mappings[id]
			all = append(all, executor.LUKSMapping{Volume: id, Path: m.path(), UUID: m.uuid, Below: executor.Device{Exists: true, Number: m.below.number}})
		}
		return nil
	})
	return all, err
}

func (t *luksTools) HeaderUUID(ctx context.Context, path string) (string, error) {
	found, err := t.ProbeHeader(ctx, path)
	return found.UUID, err
}

func (t *luksTools) ProbeHeader(ctx context.Context, device string) (found executor.LUKSHeader, err error) {
	if isBackup(device) {
		h, err := readBackup(device)
		return executor.LUKSHeader{Read: err == nil, UUID: h.UUID, Slots: h.slots()}, err
	}
	err = t.look(ctx, "probe-header", device, func(d target) error {
		content, err := d.content()
		if err != nil {
			return err
		}
		found = executor.LUKSHeader{Read: true, Empty: true}
		for number, block := range content {
			found.Empty = found.Empty && (number >= luksBlocks || isZero(block[:]))
		}
		if h, ok := headerIn(content); ok {
			found.UUID, found.Slots = h.UUID, h.slots()
		}
		return nil
	})
	return found, err
}

// Format makes a header with another key of the content. To make one over acknowledged stamps is a violation (S62).
func (t *luksTools) Format(ctx context.Context, device, uuid string, key executor.Passphrase) error {
	err := t.onDevice(ctx, "format-begin", device, func(d target) error {
		content, err := d.content()
		if err != nil {
			return err
		}
		if found := stampsIn(content); len(found) > 0 && len(d.host.world.ledger.of(d.volume).acknowledged) > 0 {
			d.host.world.violate("S62: %s: a header of %s is made over %s", d.host.node, d.volume, found[0])
		}
		return d.eraseHeader(unfinishedFormat())
	})
	if err != nil {
		return err
	}
	fresh := WorldHeader{UUID: uuid, Keys: map[int]string{0: string(key.Reveal())}, sequence: 1}
	return t.onDevice(ctx, "format", device, func(d target) error {
		if fresh.Master == "" {
			d.host.world.headers++
			fresh.Master = fmt.Sprintf("master-%d", d.host.world.headers)
		}
		return d.writeHeader(fresh)
	})
}

// update replaces the header by a changed one, which is made anew of what is there whenever that is not what this
// call wrote.
func (t *luksTools) update(ctx context.Context, name, device string, change func(id fsm.VolumeID, h *WorldHeader) error) error {
	wrote := ""
	return t.onDevice(ctx, name, device, func(d target) error {
		content, err := d.content()
		if err != nil {
			return err
		}
		h, ok := headerIn(content)
		if !ok {
			return errNoHeader
		}
		if h.text() == wrote {
			return d.writeHeader(h)
		}
		before := h.text()
		if err := change(d.volume, &h); err != nil || h.text() == before {
			return err
		}
		h.sequence++
		wrote = h.text()
		return d.writeHeader(h)
	})
}

func (t *luksTools) ChangeUUID(ctx context.Context, device, uuid string) error {
	return t.update(ctx, "change-uuid", device, func(_ fsm.VolumeID, h *WorldHeader) error {
		h.UUID = uuid
		return nil
	})
}

func (t *luksTools) AddKey(ctx context.Context, device string, slot int, known, added executor.Passphrase) error {
	return t.update(ctx, "add-key", device, func(id fsm.VolumeID, h *WorldHeader) error {
		if _, taken := h.Keys[slot]; taken {
			return fmt.Errorf("slot %d is taken", slot)
		}
		if !h.Opens(string(known.Reveal())) {
			return errNoSlot(id)
		}
		h.Keys[slot] = string(added.Reveal())
		return nil
	})
}

func (t *luksTools) KillSlot(ctx context.Context, device string, slot int, remaining executor.Passphrase) error {
	return t.update(ctx, "kill-slot", device, func(id fsm.VolumeID, h *WorldHeader) error {
		if _, there := h.Keys[slot]; !there {
			return nil
		}
		delete(h.Keys, slot)
		if !h.Opens(string(remaining.Reveal())) {
			return errNoSlot(id)
		}
		return nil
	})
}

func (t *luksTools) OpensSlot(ctx context.Context, device string, slot int, key executor.Passphrase) (opens bool, err error) {
	if isBackup(device) {
		h, err := readBackup(device)
		return h.opensSlot(slot, key), err
	}
	err = t.look(ctx, "opens-slot", device, func(d target) error {
		content, err := d.content()
		if err != nil {
			return err
		}
		h, _ := headerIn(content)
		opens = h.opensSlot(slot, key)
		return nil
	})
	return opens, err
}

// opened is why none of the passphrases opens the device. The lock is held.
func (t target) opened(keys []executor.Passphrase) error {
	content, err := t.content()
	if err != nil {
		return err
	}
	h, ok := headerIn(content)
	if !ok {
		return errNoHeader
	}
	for _, key := range keys {
		if h.Opens(string(key.Reveal())) {
			return nil
		}
	}
	return errNoSlot(t.volume)
}

func (t *luksTools) Open(ctx context.Context, id fsm.VolumeID, device string, o executor.OpenOptions, keys ...executor.Passphrase) error {
	h := t.process.host
	return t.onDevice(ctx, "open", device, func(d target) error {
		if h.mappings[id] != nil {
			return nil
		}
		if err := d.opened(keys); err != nil {
			return err
		}
		h.mappings[id] = h.newMapping(d, o.ReadOnly)
		h.mappings[id].uuid = d.header().UUID
		if img := h.image(id); img != nil {
			img.opened = true
		}
		return nil
	})
}

func (t *luksTools) Close(ctx context.Context, id fsm.VolumeID) error {
	h := t.process.host
	return t.process.do(ctx, effect{part: "luks", name: "close", volume: id}, func() error {
		m := h.mappings[id]
		if m != nil && h.isOpen(m.number) {
			return fsm.Reject(fsm.Busy, "volume %s: its mapping is in use", id)
		}
		delete(h.mappings, id)
		return nil
	})
}

func (t *luksTools) Resize(ctx context.Context, id fsm.VolumeID, keys ...executor.Passphrase) error {
	h := t.process.host
	return t.process.do(ctx, effect{part: "luks", name: "resize", volume: id}, func() error {
		m := h.mappings[id]
		if m == nil {
			return fmt.Errorf("volume %s has no mapping", id)
		}
		if err := m.below.opened(keys); err != nil {
			return err
		}
		m.size = m.below.size() - executor.LUKSHeaderBytes
		return nil
	})
}

func (t *luksTools) BackUpHeader(ctx context.Context, device, file string) error {
	return t.onDevice(ctx, "back-up-header", device, func(d target) error {
		content, err := d.content()
		if err != nil {
			return err
		}
		h, ok := headerIn(content)
		if !ok {
			return errNoHeader
		}
		if err := os.WriteFile(file+".new", []byte(h.text()), 0o600); err != nil {
			return fmt.Errorf("keep a copy of the header: %w", err)
		}
		return os.Rename(file+".new", file)
	})
}

func (t *luksTools) RemoveBackup(ctx context.Context, file string) error {
	id := fsm.VolumeID(strings.TrimSuffix(filepath.Base(file), ".luks"))
	return t.process.do(ctx, effect{part: "luks", name: "remove-backup", volume: id}, func() error {
		for _, name := range []string{file, file + ".new"} {
			if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove the copy of the header: %w", err)
			}
		}
		return nil
	})
}

// isBackup tells a copy of a header from a device.
func isBackup(path string) bool { return strings.HasSuffix(path, ".luks") }

func readBackup(file string) (WorldHeader, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return WorldHeader{}, fmt.Errorf("read the copy of the header: %w", err)
	}
	h, _ := parseHeader(string(text))
	return h, nil
}

func (t *luksTools) RestoreHeader(ctx context.Context, device, file string) error {
	return t.onDevice(ctx, "restore-header", device, func(d target) error {
		h, err := readBackup(file)
		if err != nil {
			return err
		}
		return d.writeHeader(h)
	})
}

func (t *luksTools) WipeHeader(ctx context.Context, device string) error {
	return t.onDevice(ctx, "wipe-header", device, func(d target) error { return d.eraseHeader(&[BlockBytes]byte{}) })
}
