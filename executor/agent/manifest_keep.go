package agent

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// keptManifest is what of a volume's or a snapshot's manifest this process knows to be kept, with the incarnation of the log
// that said it; empty when it knows of none.
type keptManifest string

// keepManifest keeps what the log says of a volume or a snapshot at an epoch. An empty content says nothing.
func keepManifest[ID records.ManifestID](dir string, id ID, at fsm.Epoch, content string, kept *keptManifest) error {
	now := keptManifest(fmt.Sprint(at.Incarnation, " ", content)) // the same of a later incarnation is written again: it is newer
	if content == "" || now == *kept {
		return nil
	}
	m, err := records.ReadManifest(dir, id)
	if err == nil && m.At.Compare(at) > 0 {
		return nil // this controller lags
	}
	if err == nil && (string(m.Content) != content || m.Removed || m.At.Incarnation != at.Incarnation) {
		m = records.Manifest[ID]{ID: id, At: at, Content: []byte(content)}
		err = m.Save(dir)
	}
	if err == nil {
		*kept = now
	}
	return err
}

// noteRemoved notes in the manifest that the host removed what it is of, as the log said at the epoch.
func noteRemoved[ID records.ManifestID](dir string, id ID, at fsm.Epoch, kept *keptManifest) error {
	*kept = ""
	m, err := records.ReadManifest(dir, id)
	if err != nil || m.ID != id || m.Removed {
		return err
	}
	m.At, m.Removed = at, true
	return m.Save(dir)
}
