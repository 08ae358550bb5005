package luks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// sectorSize is the unit in which the kernel reports sizes.
const sectorSize = 512

// Mapping observes the mapping in the kernel's own list of devices, so that it needs no tool and
// does not wait for a device that hangs.
func (t *Tool) Mapping(_ context.Context, id fsm.VolumeID) (executor.Device, error) {
	names, err := filepath.Glob(filepath.Join(t.sysfs, "dm-*", "dm", "name"))
	if err != nil {
		return executor.Device{}, fmt.Errorf("look for the mapping of volume %s: %w", id, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(text)) != mappingName(id) {
			continue // another device, or one that is gone by now
		}
		dir := filepath.Dir(filepath.Dir(name))
		device, err := readMapping(dir)
		if errors.Is(err, os.ErrNotExist) {
			return executor.Device{}, nil
		}
		if err != nil {
			return device, fmt.Errorf("look at the mapping of volume %s: %w", id, err)
		}
		// The kernel's own node, since only that can be bound to the target of a raw volume: by its name the
		// mapping is a symbolic link, or a node in a folder.
		device.Path, device.StablePath = "/dev/"+filepath.Base(dir), mappingPath(id)
		return device, nil
	}
	return executor.Device{}, nil
}

// readMapping reads what the kernel reports of one device.
func readMapping(dir string) (executor.Device, error) {
	sectors, err := readNumber(filepath.Join(dir, "size"))
	if err != nil {
		return executor.Device{}, err
	}
	readOnly, err := readNumber(filepath.Join(dir, "ro"))
	if err != nil {
		return executor.Device{}, err
	}
	number, err := readDeviceNumber(dir)
	if err != nil {
		return executor.Device{}, err
	}
	return executor.Device{Exists: true, Size: sectors * sectorSize, ReadOnly: readOnly != 0, Number: number}, nil
}

// readDeviceNumber reads a device's number.
func readDeviceNumber(dir string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "dev"))
	if err != nil {
		return 0, err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(string(text), "%d:%d", &major, &minor); err != nil {
		return 0, fmt.Errorf("read %s/dev: %w", dir, err)
	}
	return unix.Mkdev(major, minor), nil
}

func readNumber(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Open makes the mapping. One that exists stays: whoever asks observed it before.
func (t *Tool) Open(ctx context.Context, id fsm.VolumeID, device string, o executor.OpenOptions, keys ...executor.Passphrase) error {
	command := []string{"open", "--type", "luks2"}
	if o.Discards {
		command = append(command, "--allow-discards")
	}
	if o.ReadOnly {
		command = append(command, "--readonly")
	}
	return t.withKeys(ctx, id, keys, args(command, fromStdin, []string{device, mappingName(id)}))
}

// Resize grows the mapping to the device below.
func (t *Tool) Resize(ctx context.Context, id fsm.VolumeID, keys ...executor.Passphrase) error {
	return t.withKeys(ctx, id, keys, args([]string{"resize"}, fromStdin, []string{mappingName(id)}))
}

// withKeys runs the command with the first passphrase that opens a slot.
func (t *Tool) withKeys(ctx context.Context, id fsm.VolumeID, keys []executor.Passphrase, command []string) error {
	for _, key := range keys {
		if key.IsZero() {
			continue
		}
		_, err := t.run(ctx, key.Reveal(), command...)
		if err == nil {
			return nil
		}
		if lacking := t.lacking(err); lacking != nil {
			return lacking
		}
		if !errors.Is(err, errNoKey) {
			return fmt.Errorf("cryptsetup %s of volume %s: %w", command[0], id, err)
		}
	}
	return fsm.Reject(fsm.Unauthenticated, "volume %s: the passphrase opens no slot of its header", id)
}

// Close removes the mapping.
func (t *Tool) Close(ctx context.Context, id fsm.VolumeID) error {
	_, err := t.run(ctx, nil, "close", mappingName(id))
	switch {
	case err == nil, isNotActive(err):
		return nil
	case errors.Is(err, errBusy):
		return fsm.Reject(fsm.Busy, "volume %s: its mapping is in use", id)
	}
	return fmt.Errorf("close the mapping of volume %s: %w", id, err)
}
