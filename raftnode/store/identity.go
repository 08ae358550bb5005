package store

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
)

// formatVersion is the version of the data directory's layout that this build reads and writes.
const formatVersion = 1

// identity is the content of identity.json (S21).
type identity struct {
	Format   int    `json:"format"`
	Member   string `json:"member"`
	Cluster  string `json:"cluster,omitempty"`
	LogStore string `json:"log_store"`
	// Initialised is set when every file of the directory exists. Before that Raft has never used
	// it, so an interrupted start may begin again.
	Initialised bool `json:"made"`
}

// loadIdentity reads the directory's identity, or creates a new member's in an empty directory.
// Ids are random and never reused (S141).
func (d dataDir) loadIdentity(kind string) (identity, error) {
	var id identity
	err := readChecksummed(d.identityPath(), "", &id)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return d.createIdentity(kind)
	case err != nil:
		return id, refuse(d.identityPath(), "put the file back, or "+remedyRejoin, "cannot be read: %w", err)
	case id.Format != formatVersion:
		return id, refuse(d.identityPath(), "use the build that wrote it", "format %d is not known, only %d", id.Format, formatVersion)
	case id.Member == "":
		return id, refuse(d.identityPath(), remedyRejoin, "it names no member")
	}
	return id, nil
}

// createIdentity makes the identity of a new member, in an empty directory only.
func (d dataDir) createIdentity(kind string) (identity, error) {
	if file, found := d.findMemberFile(); found {
		return identity{}, refuse(d.identityPath(), "put the file back, or "+remedyRejoin, "it is missing beside %s", file)
	}
	random, err := uuid.NewRandom()
	if err != nil {
		return identity{}, fmt.Errorf("make a member id: %w", err)
	}
	id := identity{Format: formatVersion, Member: random.String(), LogStore: kind}
	return id, d.writeChecksummed(d.identityPath(), "", id)
}

// checkKind refuses a log store other than the one that the directory was created with (S21).
func (d dataDir) checkKind(id identity, kind string) error {
	if id.LogStore == kind {
		return nil
	}
	return refuse(d.root, fmt.Sprintf("start with --log-store=%s; changing the store is leaving and joining with a new id", id.LogStore),
		"it was made with the log store %s, not %s", id.LogStore, kind)
}
