package drbd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// diskMetadata is what a disk's metadata say about its content.
type diskMetadata struct {
	found bool
	uuid  uint64 // current UUID without its lowest bit, which is the primary flag; 0 when just created
	fresh bool
	// bitmap is the UUID of the generation that the bitmap is relative to, 0 while the peer follows.
	bitmap uint64
}

// justCreated is the current UUID that create-md writes (UUID_JUST_CREATED).
const justCreated = 4

// noMetadata is drbdmeta's exit code when it finds no metadata; it prints nothing then.
const noMetadata = 1

var giLine = regexp.MustCompile(`(?m)^([0-9A-F]{16}):([0-9A-F]{16}):`)

func parseMetadata(text string) (diskMetadata, error) {
	m := giLine.FindStringSubmatch(text)
	if m == nil {
		return diskMetadata{}, fmt.Errorf("there is no UUID in %q", text)
	}
	var uuids [2]uint64
	for i := range uuids {
		var err error
		if uuids[i], err = strconv.ParseUint(m[i+1], 16, 64); err != nil {
			return diskMetadata{}, fmt.Errorf("read the UUID %q: %w", m[i+1], err)
		}
	}
	return metadataFromUUIDs(uuids[0], uuids[1]), nil
}

// metadataFromUUIDs interprets the current UUID and the bitmap's.
func metadataFromUUIDs(current, bitmap uint64) diskMetadata {
	if current&^1 == justCreated {
		return diskMetadata{found: true, fresh: true}
	}
	return diskMetadata{found: true, uuid: current &^ 1, bitmap: bitmap &^ 1}
}

// metadataReader reads the metadata of disks: of attached ones from the kernel, of others from the
// backing device.
type metadataReader struct {
	config *Config
	kernel *kernelState
}

// attached reads the metadata of an attached disk from the kernel.
func (m *metadataReader) attached(ctx context.Context, minor uint32) (diskMetadata, error) {
	query := m.queryByTool
	if m.config.queryMetadata != nil && major(m.kernel.version()) < 9 {
		query = m.config.queryMetadata
	}
	md, err := query(ctx, minor)
	if err != nil {
		return diskMetadata{}, fmt.Errorf("ask the kernel for the UUID of minor %d: %w", minor, err)
	}
	return md, nil
}

// queryByTool does what queryMetadataByNetlink does, with drbdsetup, for any version of
// DRBD.
func (m *metadataReader) queryByTool(ctx context.Context, minor uint32) (diskMetadata, error) {
	out, err := m.kernel.query(ctx, "drbdsetup", "get-gi", minorString(minor))
	if err != nil {
		return diskMetadata{}, err
	}
	return parseMetadata(string(out))
}

// stored reads the metadata from the backing device, which must not be attached. A device
// without metadata is no error: the result says that none were found.
func (m *metadataReader) stored(ctx context.Context, minor uint32, backing string) (diskMetadata, error) {
	out, err := m.config.runner.Run(ctx, run.Command{Tool: "drbdmeta", Args: []string{minorString(minor), m.format(), backing, "internal", "get-gi"}, Timeout: queryTimeout})
	var failed *run.Error
	switch {
	case errors.As(err, &failed) && failed.Code == noMetadata:
		return diskMetadata{}, nil
	case err != nil:
		return diskMetadata{}, fmt.Errorf("read the metadata on %s: %w", backing, err)
	}
	return parseMetadata(string(out))
}

// format is the metadata format that this kernel's module writes.
func (m *metadataReader) format() string {
	if major(m.kernel.version()) >= 9 {
		return "v09"
	}
	return "v08"
}

func minorString(minor uint32) string { return strconv.FormatUint(uint64(minor), 10) }
