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

// SnapshotManifest is Manifest of a snapshot.
type SnapshotManifest struct {
	Snapshot fsm.SnapshotID `json:"snapshot"`
	// At is the epoch of the state that said so.
	At fsm.Epoch `json:"at"`
	// Content is fsm.DesiredSnapshot's Manifest.
	Content []byte `json:"content"`
	// Removed: the host removed its image, as that state said.
	Removed bool `json:"removed,omitempty"`
}

func snapshotManifestPath(dir string, id fsm.SnapshotID) string {
	return filepath.Join(dir, manifestsDir, string(id)+recordSuffix)
}

// ReadSnapshotManifest reads a snapshot's manifest, the zero one when there is none. One that was never written
// completely, or is damaged, is none.
func ReadSnapshotManifest(dir string, id fsm.SnapshotID) (m SnapshotManifest, err error) {
	_, content, err := openSlotFile(snapshotManifestPath(dir, id))
	if err != nil || content == nil {
		return m, err
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return m, fmt.Errorf("read the manifest of snapshot %s: %w", id, err)
	}
	return m, nil
}

// Save writes the manifest, not synced, as Manifest.Save does.
func (m *SnapshotManifest) Save(dir string) error {
	file, _, err := openSlotFile(snapshotManifestPath(dir, m.Snapshot))
	if err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the manifest of snapshot %s: %w", m.Snapshot, err)
	}
	return file.write(text, false)
}

// SnapshotManifests are all of the host, in order of snapshot id. Those of the snapshots that were removed longest ago are
// dropped, above a number that bounds them.
func SnapshotManifests(dir string) (all []SnapshotManifest, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, manifestsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's manifests: %w", err)
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), recordSuffix)
		if !ok || !fsm.SnapshotID(name).Valid() {
			continue
		}
		m, err := ReadSnapshotManifest(dir, fsm.SnapshotID(name))
		if err != nil {
			return nil, err
		}
		if m.Snapshot == fsm.SnapshotID(name) {
			all = append(all, m)
		}
	}
	return dropOldestSnapshots(dir, all)
}

// dropOldestSnapshots drops the manifests of removed snapshots above removedKept.
func dropOldestSnapshots(dir string, all []SnapshotManifest) ([]SnapshotManifest, error) {
	removed := slices.DeleteFunc(slices.Clone(all), func(m SnapshotManifest) bool { return !m.Removed })
	if len(removed) <= removedKept {
		return all, nil
	}
	slices.SortFunc(removed, func(a, b SnapshotManifest) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Snapshot, b.Snapshot))
	})
	dropped := map[fsm.SnapshotID]bool{}
	for _, m := range removed[:len(removed)-removedKept] {
		if err := (&SlotFile{path: snapshotManifestPath(dir, m.Snapshot)}).Remove(); err != nil {
			return nil, err
		}
		dropped[m.Snapshot] = true
	}
	return slices.DeleteFunc(all, func(m SnapshotManifest) bool { return dropped[m.Snapshot] }), nil
}
