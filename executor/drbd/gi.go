package drbd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// identity is what a disk's metadata say of its content.
type identity struct {
	found bool
	uuid  uint64 // current, without its lowest bit, which says "primary"; 0 when fresh
	fresh bool
}

// justCreated is the current UUID that create-md writes (UUID_JUST_CREATED).
const justCreated = 4

// noMetadata is how drbdmeta ends when it finds none; it says nothing then.
const noMetadata = 1

var giLine = regexp.MustCompile(`(?m)^([0-9A-F]{16}):(?:[0-9A-F]{16}:)`)

func parseIdentity(text string) (identity, error) {
	m := giLine.FindStringSubmatch(text)
	if m == nil {
		return identity{}, fmt.Errorf("there is no UUID in %q", text)
	}
	uuid, err := strconv.ParseUint(m[1], 16, 64)
	if err != nil {
		return identity{}, fmt.Errorf("read the UUID %q: %w", m[1], err)
	}
	return identityOf(uuid), nil
}

// identityOf is what a current UUID says.
func identityOf(uuid uint64) identity {
	if uuid&^1 == justCreated {
		return identity{found: true, fresh: true}
	}
	return identity{found: true, uuid: uuid &^ 1}
}

// attachedIdentity asks the kernel.
func (r *Replicator) attachedIdentity(ctx context.Context, minor uint32) (identity, error) {
	ask := r.askTool
	if version, _ := r.Version(); r.config.ask != nil && major(version) < 9 {
		ask = r.config.ask
	}
	is, err := ask(ctx, minor)
	if err != nil {
		return identity{}, fmt.Errorf("ask the kernel for the UUID of minor %d: %w", minor, err)
	}
	return is, nil
}

// askTool is askKernel for any version of DRBD.
func (r *Replicator) askTool(ctx context.Context, minor uint32) (identity, error) {
	out, err := r.look(ctx, "drbdsetup", "get-gi", number(minor))
	if err != nil {
		return identity{}, err
	}
	return parseIdentity(string(out))
}

// storedIdentity reads the metadata on the device below, which the kernel must not
// have. Without metadata nothing is found, which is no error.
func (r *Replicator) storedIdentity(ctx context.Context, minor uint32, backing string) (identity, error) {
	out, err := r.config.run.Run(ctx, run.Command{Tool: "drbdmeta", Args: []string{number(minor), r.metadataVersion(), backing, "internal", "get-gi"}, Timeout: lookTimeout})
	var failed *run.Error
	switch {
	case errors.As(err, &failed) && failed.Code == noMetadata:
		return identity{}, nil
	case err != nil:
		return identity{}, fmt.Errorf("read the metadata on %s: %w", backing, err)
	}
	return parseIdentity(string(out))
}

// metadataVersion is the format that this kernel's module writes.
func (r *Replicator) metadataVersion() string {
	if version, _ := r.Version(); major(version) >= 9 {
		return "v09"
	}
	return "v08"
}

func number(minor uint32) string { return strconv.FormatUint(uint64(minor), 10) }
