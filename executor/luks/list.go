package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Mappings lists the mappings of all volumes as the kernel has them. It touches no device. One that has the
// prefix of ours and not the id of a volume behind it is listed without a volume.
func (t *Tool) Mappings(context.Context) (all []executor.LUKSMapping, err error) {
	names, err := filepath.Glob(filepath.Join(t.sysfs, "dm-*", "dm", "name"))
	if err != nil {
		return nil, fmt.Errorf("list the mappings: %w", err)
	}
	for _, file := range names {
		text, err := os.ReadFile(file)
		name := strings.TrimSpace(string(text))
		if err != nil || !strings.HasPrefix(name, mappingPrefix) {
			continue // another device, or one that is gone by now
		}
		mapping := executor.LUKSMapping{Path: "/dev/mapper/" + name}
		if id := fsm.VolumeID("hf-" + strings.TrimPrefix(name, mappingPrefix)); id.Valid() {
			mapping.Volume = id
		}
		dir := filepath.Dir(filepath.Dir(file))
		mapping.UUID, mapping.Below = readMappingUUID(dir, name), readBelow(dir)
		all = append(all, mapping)
	}
	return all, nil
}

// readMappingUUID is the UUID of the header that the mapping was opened with. Cryptsetup keeps it in
// the mapping's own: CRYPT-LUKS2-<the UUID without dashes>-<name>.
func readMappingUUID(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, "dm", "uuid"))
	if err != nil {
		return ""
	}
	digits, isCrypt := strings.CutPrefix(strings.TrimSpace(string(text)), "CRYPT-LUKS2-")
	digits, isNamed := strings.CutSuffix(digits, "-"+name)
	if !isCrypt || !isNamed || len(digits) != 32 {
		return ""
	}
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-")
}

// readBelow is the device below a mapping; zero where there is not exactly one that can be read.
func readBelow(dir string) executor.Device {
	below, err := filepath.Glob(filepath.Join(dir, "slaves", "*"))
	if err != nil || len(below) != 1 {
		return executor.Device{}
	}
	number, err := readDeviceNumber(below[0])
	if err != nil {
		return executor.Device{}
	}
	return executor.Device{Path: "/dev/" + filepath.Base(below[0]), Number: number}
}

// How a LUKS2 header begins, and where its UUID is in the first block.
const (
	headerMagic  = "LUKS\xba\xbe\x00\x02"
	uuidOffset   = 168
	uuidBytes    = 40
	headerPrefix = uuidOffset + uuidBytes
)

// HeaderUUID reads the first block, where the header's first copy is. Where that is not whole, cryptsetup decides,
// which knows the second one.
func (t *Tool) HeaderUUID(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("look for a header on %s: %w", path, err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	if _, err := io.ReadFull(f, block); err != nil {
		return "", fmt.Errorf("look for a header on %s: %w", path, err)
	}
	if bytes.HasPrefix(block, []byte(headerMagic)) {
		return string(bytes.TrimRight(block[uuidOffset:headerPrefix], "\x00")), nil
	}
	out, err := t.run(ctx, nil, "luksUUID", path)
	if errors.Is(err, errOther) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for a header on %s: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}
