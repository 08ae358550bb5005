package records

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/fsm"
)

const manifestsDir = "manifests"

// ManifestID is the id of what the host keeps manifests of.
type ManifestID interface {
	fsm.VolumeID | fsm.SnapshotID
	Valid() bool
}

// Manifest is what the log said last of a volume or a snapshot that the host holds, kept for a day on which the log is
// lost (S1). It permits nothing: only an operator's command brings it back into a log.
type Manifest[ID ManifestID] struct {
	ID ID
	// At is the epoch of the state that said so.
	At fsm.Epoch
	// Content is the Manifest of fsm.DesiredVolume or fsm.DesiredSnapshot.
	Content []byte
	// Removed: the host removed its device or image, as that state said.
	Removed bool
}

func manifestPath[ID ManifestID](dir string, id ID) string {
	return filepath.Join(dir, manifestsDir, string(id)+recordSuffix)
}

// ReadManifest reads the manifest of a volume or a snapshot, the zero one when there is none. One that was never written
// completely, or is damaged, is none.
func ReadManifest[ID ManifestID](dir string, id ID) (m Manifest[ID], err error) {
	_, content, err := openSlotFile(manifestPath(dir, id))
	if err != nil || content == nil {
		return m, err
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return m, fmt.Errorf("read the manifest of %s: %w", id, err)
	}
	return m, nil
}

// Save writes the manifest. It is not synced: a host that loses its power may have an earlier one, and an operator is
// shown of when it is.
func (m *Manifest[ID]) Save(dir string) error {
	file, _, err := openSlotFile(manifestPath(dir, m.ID))
	if err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the manifest of %s: %w", m.ID, err)
	}
	return file.write(text, false)
}

// manifestFile is a manifest as hosts have it on their disks: one of the ids is there.
type manifestFile struct {
	Volume   fsm.VolumeID   `json:"volume,omitempty"`
	Snapshot fsm.SnapshotID `json:"snapshot,omitempty"`
	At       fsm.Epoch      `json:"at"`
	Content  []byte         `json:"content"`
	Removed  bool           `json:"removed,omitempty"`
}

// MarshalJSON names the id by what it is of.
func (m Manifest[ID]) MarshalJSON() ([]byte, error) {
	f := manifestFile{At: m.At, Content: m.Content, Removed: m.Removed}
	switch id := any(m.ID).(type) {
	case fsm.VolumeID:
		f.Volume = id
	case fsm.SnapshotID:
		f.Snapshot = id
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads what MarshalJSON wrote. The id is empty where the text is of another kind.
func (m *Manifest[ID]) UnmarshalJSON(text []byte) error {
	var f manifestFile
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	m.At, m.Content, m.Removed = f.At, f.Content, f.Removed
	switch id := any(&m.ID).(type) {
	case *fsm.VolumeID:
		*id = f.Volume
	case *fsm.SnapshotID:
		*id = f.Snapshot
	}
	return nil
}
