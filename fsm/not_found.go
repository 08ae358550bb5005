package fsm

import "strings"

// maxShownID bounds a caller's id in a message, in bytes.
const maxShownID = 64

// UnknownVolume is NotFound: no volume has that id, whatever its form.
func UnknownVolume(id VolumeID) *Rejection { return unknown("volume", string(id)) }

// UnknownSnapshot is NotFound: no snapshot has that id, whatever its form.
func UnknownSnapshot(id SnapshotID) *Rejection { return unknown("snapshot", string(id)) }

// UnknownGroupSnapshot is NotFound: no group snapshot has that id, whatever its form.
func UnknownGroupSnapshot(id GroupSnapshotID) *Rejection {
	return unknown("group snapshot", string(id))
}

func unknown(what, id string) *Rejection {
	return Reject(NotFound, "%s %q is not known", what, Truncate(id, maxShownID))
}

// Truncate cuts a text to at most limit bytes, of which there are at least three, without
// breaking a character. What is left out shows as an ellipsis: it is for people, not for records.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
