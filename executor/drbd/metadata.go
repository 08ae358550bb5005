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
}

// justCreated is the current UUID that create-md writes (UUID_JUST_CREATED).
const justCreated = 4

// noMetadata is drbdmeta's exit code when it finds no metadata; it prints nothing then.
const noMetadata = 1

var giLine = regexp.MustCompile(`(?m)^([0-9A-F]{16}):(?:[0-9A-F]{16}:)`)

func parseMetadata(text string) (diskMetadata, error) {
	m := giLine.FindStringSubmatch(text)
	if m == nil {
		return diskMetadata{}, fmt.Errorf("there is no UUID in %q", text)
	}
	uuid, err := strconv.ParseUint(m[1], 16, 64)
	if err != nil {
		return diskMetadata{}, fmt.Errorf("read the UUID %q: %w", m[1], err)
	}
	return metadataFromUUID(uuid), nil
}

// metadataFromUUID interprets a current UUID.
func metadataFromUUID(uuid uint64) diskMetadata {
	if uuid&^1 == justCreated {
		return diskMetadata{found: true, fresh: true}
	}
	return diskMetadata{found: true, uuid: uuid &^ 1}
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
