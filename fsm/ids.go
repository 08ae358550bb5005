package fsm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// VolumeID is `hf-` plus a UUID: CSI's volume_id.
type VolumeID string

// volumePrefix begins every volume id.
const volumePrefix = "hf-"

// Valid tells whether the id has the pattern of a volume id. Where a caller names a volume,
// another id is unknown, not malformed.
func (id VolumeID) Valid() bool {
	_, ok := id.uuid()
	return ok
}

// uuid is what a table is ordered by: it compares as the text does, in two words.
func (id VolumeID) uuid() (uuid, bool) {
	if len(id) != len(volumePrefix)+uuidLen || id[:len(volumePrefix)] != volumePrefix {
		return uuid{}, false
	}
	return parseUUID(string(id[len(volumePrefix):]))
}

func volumeIDFromUUID(u uuid) VolumeID { return VolumeID(volumePrefix + u.text()) }

// snapshotPrefix and groupSnapshotPrefix begin their ids.
const (
	snapshotPrefix      = "hs-"
	groupSnapshotPrefix = "hgs-"
)

// VolumeIDFrom is the volume id with that UUID.
func VolumeIDFrom(uuid [16]byte) VolumeID { return VolumeID(idFromUUID(volumePrefix, uuid)) }

// SnapshotIDFrom is the snapshot id with that UUID.
func SnapshotIDFrom(uuid [16]byte) SnapshotID { return SnapshotID(idFromUUID(snapshotPrefix, uuid)) }

func idFromUUID(prefix string, packed [16]byte) string {
	u, _ := unpackUUID(packed[:]) // of 16 bytes it always is one
	return prefix + u.text()
}

// Valid tells whether the id has the pattern of a snapshot id.
func (id SnapshotID) Valid() bool {
	_, ok := uuidAfter(snapshotPrefix, string(id))
	return ok
}

// Valid tells whether the id has the pattern of a group snapshot id.
func (id GroupSnapshotID) Valid() bool {
	_, ok := uuidAfter(groupSnapshotPrefix, string(id))
	return ok
}

// uuidAfter is the UUID that follows the prefix.
func uuidAfter(prefix, id string) (uuid, bool) {
	text, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return uuid{}, false
	}
	return parseUUID(text)
}

// NodeID is a host's name: CSI's node_id and the value of the topology key.
type NodeID string

// HostID is the random identity in a host's data folder (S17).
type HostID string

// PoolID is the random identity in a pool (S12).
type PoolID string

// OperationID is the log index that began the operation.
type OperationID uint64

func (id OperationID) String() string { return operationPrefix + strconv.FormatUint(uint64(id), 10) }

const operationPrefix = "op-"

// ParseOperationID reads what String printed, or the bare number; zero is none.
func ParseOperationID(text string) (OperationID, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(text, operationPrefix), 10, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q is no operation's id: they look like %s12", text, operationPrefix)
	}
	return OperationID(id), nil
}

// Epoch orders grants and desired states: by incarnation, then by log index (S1).
// The zero Epoch is before all others.
type Epoch struct {
	Incarnation uint64 `json:"Incarnation"`
	Index       uint64 `json:"Index"`
}

// Compare is negative when e is before other, positive when it is after.
func (e Epoch) Compare(other Epoch) int {
	return cmp.Or(cmp.Compare(e.Incarnation, other.Incarnation), cmp.Compare(e.Index, other.Index))
}

// IsZero tells whether the epoch was never set.
func (e Epoch) IsZero() bool { return e == Epoch{} }

// String prints `incarnation.index`, the form in publish contexts.
func (e Epoch) String() string { return fmt.Sprintf("%d.%d", e.Incarnation, e.Index) }

// ParseEpoch reads what String printed.
func ParseEpoch(s string) (Epoch, error) {
	var e Epoch
	if _, err := fmt.Sscanf(s, "%d.%d", &e.Incarnation, &e.Index); err != nil || e.String() != s {
		return Epoch{}, fmt.Errorf("epoch %q is not of the form incarnation.index", s)
	}
	return e, nil
}
