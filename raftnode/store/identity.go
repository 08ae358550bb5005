package store

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
)

// format is the layout of the folder that this build reads and writes.
const format = 1

// identity is what a data folder says about itself (S21).
type identity struct {
	Format   int    `json:"format"`
	Member   string `json:"member"`
	Cluster  string `json:"cluster,omitempty"`
	LogStore string `json:"log_store"`
	// Made is set when every file of the folder is there. Before, Raft never saw
	// the folder, so a start that was interrupted may begin again.
	Made bool `json:"made"`
}

// load reads who the folder belongs to, or makes a new member in an empty one.
// Ids are random and never used again (S141).
func (d folder) load(kind string) (identity, error) {
	var id identity
	err := readSealed(d.identity(), "", &id)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return d.begin(kind)
	case err != nil:
		return id, refuse(d.identity(), "put the file back, or "+rejoin, "cannot be read: %w", err)
	case id.Format != format:
		return id, refuse(d.identity(), "use the build that wrote it", "format %d is not known, only %d", id.Format, format)
	case id.Member == "":
		return id, refuse(d.identity(), rejoin, "it names no member")
	}
	return id, nil
}

// begin makes the identity of a new member, in an empty folder only.
func (d folder) begin(kind string) (identity, error) {
	if file, found := d.holdsFiles(); found {
		return identity{}, refuse(d.identity(), "put the file back, or "+rejoin, "it is missing beside %s", file)
	}
	random, err := uuid.NewRandom()
	if err != nil {
		return identity{}, fmt.Errorf("make a member id: %w", err)
	}
	id := identity{Format: format, Member: random.String(), LogStore: kind}
	return id, writeSealed(d.identity(), "", id)
}

// checkKind refuses a log store other than the folder's (S21).
func (d folder) checkKind(id identity, kind string) error {
	if id.LogStore == kind {
		return nil
	}
	return refuse(string(d), fmt.Sprintf("start with --log-store=%s; changing the store is leaving and joining with a new id", id.LogStore),
		"it was made with the log store %s, not %s", id.LogStore, kind)
}
