package records

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	manifestsDir = "manifests"
	// removedKept is how many manifests of removed volumes are kept, the newest by their epochs.
	removedKept = 4096
)

// Manifest is what the log said last of a volume that the host holds, kept for a day on which the log is lost (S1). It
// permits nothing: only an operator's command brings it back into a log.
type Manifest struct {
	Volume fsm.VolumeID `json:"volume"`
	// At is the epoch of the state that said so.
	At fsm.Epoch `json:"at"`
	// Content is fsm.DesiredVolume's Manifest.
	Content []byte `json:"content"`
	// Removed: the host removed its device, as that state said.
	Removed bool `json:"removed,omitempty"`
}

func manifestPath(dir string, id fsm.VolumeID) string {
	return filepath.Join(dir, manifestsDir, string(id)+recordSuffix)
}

// ReadManifest reads a volume's manifest, the zero one when there is none. One that was never written completely is
// none.
func ReadManifest(dir string, id fsm.VolumeID) (m Manifest, err error) {
	_, content, err := openSlotFile(manifestPath(dir, id))
	if err != nil || content == nil {
		return m, err
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return m, fmt.Errorf("read the manifest of volume %s: %w", id, err)
	}
	return m, nil
}

// Save writes the manifest. It is not synced: a host that loses its power may have an earlier one, and an operator is
// shown of when it is.
func (m *Manifest) Save(dir string) error {
	file, _, err := openSlotFile(manifestPath(dir, m.Volume))
	if err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the manifest of volume %s: %w", m.Volume, err)
	}
	return file.write(text, false)
}

// Manifests are all manifests of the host, in order of volume id. Those of the volumes that were removed longest ago are
// dropped, above a number that bounds them.
func Manifests(dir string) (all []Manifest, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, manifestsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's manifests: %w", err)
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), recordSuffix)
		if !ok || !fsm.VolumeID(name).Valid() {
			continue
		}
		m, err := ReadManifest(dir, fsm.VolumeID(name))
		if err != nil {
			return nil, err
		}
		if m.Volume == fsm.VolumeID(name) {
			all = append(all, m)
		}
	}
	return dropOldest(dir, all)
}

// dropOldest drops the manifests of removed volumes above removedKept.
func dropOldest(dir string, all []Manifest) ([]Manifest, error) {
	var removed []Manifest
	for _, m := range all {
		if m.Removed {
			removed = append(removed, m)
		}
	}
	if len(removed) <= removedKept {
		return all, nil
	}
	slices.SortFunc(removed, func(a, b Manifest) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Volume, b.Volume)) })
	dropped := map[fsm.VolumeID]bool{}
	for _, m := range removed[:len(removed)-removedKept] {
		if err := (&SlotFile{path: manifestPath(dir, m.Volume)}).Remove(); err != nil {
			return nil, err
		}
		dropped[m.Volume] = true
	}
	return slices.DeleteFunc(all, func(m Manifest) bool { return dropped[m.Volume] }), nil
}
