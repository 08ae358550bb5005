package records

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// removedKept is how many manifests of removed volumes are kept, the newest by their epochs, and as many of removed
// snapshots.
const removedKept = 4096

// Manifests are the manifests of the host's volumes or of its snapshots, in order of their ids. Those of what was removed
// longest ago are dropped, above a number that bounds them.
func Manifests[ID ManifestID](dir string) (all []Manifest[ID], err error) {
	entries, err := os.ReadDir(filepath.Join(dir, manifestsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's manifests: %w", err)
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), recordSuffix)
		if !ok || !ID(name).Valid() {
			continue
		}
		m, err := ReadManifest(dir, ID(name))
		if err != nil {
			return nil, err
		}
		if m.ID == ID(name) {
			all = append(all, m)
		}
	}
	return dropOldest(dir, all)
}

// dropOldest drops the manifests of what was removed above removedKept.
func dropOldest[ID ManifestID](dir string, all []Manifest[ID]) ([]Manifest[ID], error) {
	removed := slices.DeleteFunc(slices.Clone(all), func(m Manifest[ID]) bool { return !m.Removed })
	if len(removed) <= removedKept {
		return all, nil
	}
	slices.SortFunc(removed, func(a, b Manifest[ID]) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	dropped := map[ID]bool{}
	for _, m := range removed[:len(removed)-removedKept] {
		if err := (&SlotFile{path: manifestPath(dir, m.ID)}).Remove(); err != nil {
			return nil, err
		}
		dropped[m.ID] = true
	}
	return slices.DeleteFunc(all, func(m Manifest[ID]) bool { return dropped[m.ID] }), nil
}
