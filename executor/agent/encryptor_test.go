package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

const fakeMappingPrefix = "/fake/mapper/"

// fakeEncryptor is a host's headers and mappings in memory. It outlives Agents.
type fakeEncryptor struct {
	pool     *backendtest.FakeBackend
	replicas *backendtest.FakeReplicator // nil without replicated volumes
	// fail, when set, is called before each effect and may fail it.
	fail func(effect string) error

	mu       *sync.Mutex // of both hosts of a pair: what one writes to its device is on the other's
	headers  map[fsm.VolumeID]*fakeHeader
	garbage  map[fsm.VolumeID]bool // what is no header, and not empty
	mappings map[fsm.VolumeID]executor.Device
	backups  map[string]fakeHeader
	belows   map[fsm.VolumeID]executor.Device // of the mappings
	// unreadable: no image's header can be read for an inventory.
	unreadable bool
	options    map[fsm.VolumeID]executor.OpenOptions // of the last Open
	effects    []string
}

type fakeHeader struct {
	uuid string
	keys map[int]string
}

var _ executor.Encryptor = (*fakeEncryptor)(nil)

func newFakeEncryptor(pool *backendtest.FakeBackend) *fakeEncryptor {
	return &fakeEncryptor{
		pool: pool, mu: &sync.Mutex{}, headers: map[fsm.VolumeID]*fakeHeader{}, garbage: map[fsm.VolumeID]bool{},
		mappings: map[fsm.VolumeID]executor.Device{}, backups: map[string]fakeHeader{}, belows: map[fsm.VolumeID]executor.Device{}, options: map[fsm.VolumeID]executor.OpenOptions{},
	}
}

// effect counts an effect on the header of the device, which must exist.
func (f *fakeEncryptor) effect(name, device string) (fsm.VolumeID, error) {
	if f.fail != nil {
		if err := f.fail(name); err != nil {
			return "", err
		}
	}
	id, ok := f.pool.Owner(device)
	if f.replicas != nil && !ok {
		id, ok = f.replicas.Owner(device)
	}
	if !ok {
		return "", errors.New(device + " is no device")
	}
	f.effects = append(f.effects, name)
	return id, nil
}

func (f *fakeEncryptor) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(f.effects), func(e string) bool { return e != name }))
}

func (f *fakeEncryptor) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mappings)
}

func (f *fakeEncryptor) setHeader(id fsm.VolumeID, h *fakeHeader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.headers[id] = h
	if h == nil {
		delete(f.headers, id)
	}
}

func (f *fakeEncryptor) header(id fsm.VolumeID) *fakeHeader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.headers[id]
}

func (f *fakeEncryptor) Check(context.Context) error { return nil }

func (f *fakeEncryptor) Mapping(_ context.Context, id fsm.VolumeID) (executor.Device, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mappings[id], nil
}

// Mappings lists them above the device that the volume has now, unless the test put one above another.
func (f *fakeEncryptor) Mappings(ctx context.Context) (all []executor.LUKSMapping, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(f.mappings)) {
		m := executor.LUKSMapping{Volume: id, Path: f.mappings[id].Path, Below: f.belows[id]}
		if h := f.headers[id]; h != nil {
			m.UUID = h.uuid
		}
		all = append(all, m)
	}
	return all, nil
}

func (f *fakeEncryptor) HeaderUUID(_ context.Context, path string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasSuffix(path, ".luks") {
		h, err := f.backup(path)
		return h.uuid, err
	}
	if f.unreadable {
		return "", errors.New(path + " cannot be read")
	}
	h := f.headers[fsm.VolumeID(strings.TrimPrefix(path, "/fake/volumes/"))]
	if h == nil {
		return "", nil
	}
	return h.uuid, nil
}

func (f *fakeEncryptor) ProbeHeader(_ context.Context, device string) (executor.LUKSHeader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasSuffix(device, ".luks") {
		h, err := f.backup(device)
		return h.found(), err
	}
	id, err := f.effect("probe", device)
	if err != nil {
		return executor.LUKSHeader{}, err
	}
	h := f.headers[id]
	if h == nil {
		return executor.LUKSHeader{Read: true, Empty: !f.garbage[id]}, nil
	}
	return h.found(), nil
}

// backup is the one in the file, which is there as long as the agent keeps it.
func (f *fakeEncryptor) backup(file string) (*fakeHeader, error) {
	if _, err := os.Stat(file); err != nil {
		return &fakeHeader{}, err
	}
	h := f.backups[file]
	return &h, nil
}

func (h *fakeHeader) found() executor.LUKSHeader {
	found := executor.LUKSHeader{Read: true, UUID: h.uuid}
	for slot := range h.keys {
		found.Slots = append(found.Slots, slot)
	}
	slices.Sort(found.Slots)
	return found
}

func (f *fakeEncryptor) Format(_ context.Context, device, uuid string, key executor.Passphrase) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.effect("format", device)
	if err != nil {
		return err
	}
	f.headers[id] = &fakeHeader{uuid: uuid, keys: map[int]string{0: string(key.Reveal())}}
	return nil
}

func (f *fakeEncryptor) ChangeUUID(_ context.Context, device, uuid string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.effect("uuid", device)
	if err == nil {
		f.headers[id].uuid = uuid
	}
	return err
}

// opens reports whether one of the passphrases opens a slot.
func (h *fakeHeader) opens(keys []executor.Passphrase) bool {
	for _, key := range keys {
		for _, text := range h.keys {
			if !key.IsZero() && text == string(key.Reveal()) {
				return true
			}
		}
	}
	return false
}

func (f *fakeEncryptor) Open(ctx context.Context, id fsm.VolumeID, device string, o executor.OpenOptions, keys ...executor.Passphrase) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.effect("open", device); err != nil {
		return err
	}
	h := f.headers[id]
	if h == nil {
		return errors.New(device + " has no header")
	}
	if !h.opens(keys) {
		return fsm.Reject(fsm.Unauthenticated, "no slot is opened")
	}
	f.mappings[id] = executor.Device{Exists: true, Path: fakeMappingPrefix + string(id), Number: 99, Size: f.below(ctx, id), ReadOnly: o.ReadOnly}
	f.options[id] = o
	f.belows[id] = f.deviceBelow(ctx, id)
	return nil
}

// deviceBelow is DRBD's device, or the pool's.
func (f *fakeEncryptor) deviceBelow(ctx context.Context, id fsm.VolumeID) executor.Device {
	device, _ := f.pool.Observe(ctx, id)
	if f.replicas != nil {
		minor := f.replicas.Resource(id).Minor
		return executor.Device{Path: fmt.Sprintf("/dev/drbd%d", minor), Number: 147<<8 | uint64(minor)}
	}
	return executor.Device{Path: device.Path, Number: device.Number}
}

func (f *fakeEncryptor) below(ctx context.Context, id fsm.VolumeID) int64 {
	device, _ := f.pool.Observe(ctx, id)
	if f.replicas != nil {
		device.Size = f.replicas.BackingCapacity(device.Size)
	}
	return device.Size - executor.LUKSHeaderBytes
}

func (f *fakeEncryptor) Close(_ context.Context, id fsm.VolumeID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mappings, id)
	f.effects = append(f.effects, "close")
	return nil
}

func (f *fakeEncryptor) Resize(ctx context.Context, id fsm.VolumeID, keys ...executor.Passphrase) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.headers[id].opens(keys) {
		return fsm.Reject(fsm.Unauthenticated, "no slot is opened")
	}
	f.effects = append(f.effects, "resize")
	mapping := f.mappings[id]
	mapping.Size = f.below(ctx, id)
	f.mappings[id] = mapping
	return nil
}

func (f *fakeEncryptor) OpensSlot(_ context.Context, device string, slot int, key executor.Passphrase) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasSuffix(device, ".luks") {
		h, err := f.backup(device)
		text, ok := h.keys[slot]
		return ok && text == string(key.Reveal()), err
	}
	id, err := f.effect("try", device)
	if err != nil {
		return false, err
	}
	text, ok := f.headers[id].keys[slot]
	return ok && text == string(key.Reveal()), nil
}

func (f *fakeEncryptor) AddKey(_ context.Context, device string, slot int, known, added executor.Passphrase) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.effect("add", device)
	if err != nil {
		return err
	}
	h := f.headers[id]
	if _, taken := h.keys[slot]; taken {
		return errors.New("the slot is taken")
	}
	if !h.opens([]executor.Passphrase{known}) {
		return fsm.Reject(fsm.Unauthenticated, "no slot is opened")
	}
	f.headers[id] = h.with(slot, string(added.Reveal()))
	return nil
}

func (f *fakeEncryptor) KillSlot(_ context.Context, device string, slot int, remaining executor.Passphrase) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.effect("kill", device)
	if err != nil {
		return err
	}
	rest := f.headers[id].with(slot, "")
	if !rest.opens([]executor.Passphrase{remaining}) {
		return fsm.Reject(fsm.Unauthenticated, "it opens no other slot")
	}
	f.headers[id] = rest
	return nil
}

// with is a copy of the header that has another key in a slot; an empty one: none.
func (h *fakeHeader) with(slot int, key string) *fakeHeader {
	changed := &fakeHeader{uuid: h.uuid, keys: maps.Clone(h.keys)}
	changed.keys[slot] = key
	if key == "" {
		delete(changed.keys, slot)
	}
	return changed
}

func (f *fakeEncryptor) BackUpHeader(_ context.Context, device, file string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.effect("backup", device)
	if err != nil {
		return err
	}
	f.backups[file] = *f.headers[id]
	return os.WriteFile(file, []byte(f.headers[id].uuid), 0o600)
}

func (f *fakeEncryptor) RemoveBackup(_ context.Context, file string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		if err := f.fail("remove-backup"); err != nil {
			return err
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	delete(f.backups, file)
	return nil
}

func (f *fakeEncryptor) RestoreHeader(_ context.Context, device, file string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.effect("restore", device)
	if err != nil {
		return err
	}
	h, err := f.backup(file)
	if err == nil {
		f.headers[id] = h
	}
	return err
}

func (f *fakeEncryptor) WipeHeader(_ context.Context, device string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.effect("wipe", device)
	if err == nil {
		delete(f.headers, id)
	}
	return err
}
