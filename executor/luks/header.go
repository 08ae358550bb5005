package luks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
)

// Format makes the header with one slot, number 0. Who repeats it after a crash writes over a part of one (S15).
func (t *Tool) Format(ctx context.Context, device, uuid string, key executor.Passphrase) error {
	_, err := t.run(ctx, key.Reveal(), args(
		[]string{"luksFormat", "--type", "luks2", "--batch-mode", "--uuid", uuid}, t.derivation, slotFlag(0), fromStdin, []string{device})...)
	if err != nil {
		return fmt.Errorf("make the header on %s: %w", device, err)
	}
	return nil
}

// ChangeUUID gives the header another UUID.
func (t *Tool) ChangeUUID(ctx context.Context, device, uuid string) error {
	if _, err := t.run(ctx, nil, "luksUUID", "--batch-mode", "--uuid", uuid, device); err != nil {
		return fmt.Errorf("change the UUID of the header on %s: %w", device, err)
	}
	return nil
}

// ProbeHeader reads the header. Cryptsetup uses either of the header's two copies. That it finds none proves nothing
// unless the place can be read, so that is read first.
func (t *Tool) ProbeHeader(ctx context.Context, device string) (executor.LUKSHeader, error) {
	empty, err := readsZero(device)
	if err != nil {
		return executor.LUKSHeader{}, fmt.Errorf("look for a header on %s: %w", device, err)
	}
	header := executor.LUKSHeader{Read: true, Empty: empty}
	out, err := t.run(ctx, nil, "luksUUID", device)
	if errors.Is(err, errOther) {
		return header, nil
	}
	if err != nil {
		return executor.LUKSHeader{}, fmt.Errorf("look for a header on %s: %w", device, err)
	}
	header.UUID = strings.TrimSpace(string(out))
	header.Slots, err = t.slots(ctx, device)
	return header, err
}

// slots lists the slots that hold a key.
func (t *Tool) slots(ctx context.Context, device string) ([]int, error) {
	out, err := t.run(ctx, nil, "luksDump", "--dump-json-metadata", device)
	if err != nil {
		return nil, fmt.Errorf("read the header on %s: %w", device, err)
	}
	var metadata struct {
		Keyslots map[string]json.RawMessage `json:"keyslots"`
	}
	if err := json.Unmarshal(out, &metadata); err != nil {
		return nil, fmt.Errorf("read the header on %s: %w", device, err)
	}
	var slots []int
	for name := range metadata.Keyslots {
		slot, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("read the header on %s: it has a slot %q", device, name)
		}
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots, nil
}

// readsZero reports whether the place of the header is zero. It reads all of it.
func readsZero(device string) (bool, error) {
	f, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer f.Close()
	piece, zero := make([]byte, 1<<20), make([]byte, 1<<20)
	for range executor.LUKSHeaderBytes / len(piece) {
		if _, err := io.ReadFull(f, piece); err != nil {
			return false, err
		}
		if !bytes.Equal(piece, zero) {
			return false, nil
		}
	}
	return true, nil
}

// WipeHeader writes zeros over the header, keys included.
func (t *Tool) WipeHeader(_ context.Context, device string) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("wipe the header: %w", err)
	}
	zero := make([]byte, 1<<20)
	for range executor.LUKSHeaderBytes / len(zero) {
		if _, err = f.Write(zero); err != nil {
			break
		}
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("wipe the header: %w", err)
	}
	return nil
}

// RestoreHeader writes the header in the file onto the device.
func (t *Tool) RestoreHeader(ctx context.Context, device, file string) error {
	if _, err := t.run(ctx, nil, "luksHeaderRestore", "--batch-mode", device, "--header-backup-file", file); err != nil {
		return fmt.Errorf("restore the header of %s: %w", device, err)
	}
	return nil
}
