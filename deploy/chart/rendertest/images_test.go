package rendertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// imagesPage is the list of images for a cluster without the registries.
const imagesPage = "../IMAGES.md"

func TestImagesPageIsCurrent(t *testing.T) {
	first := images(t, render(t, Release{KubeVersion: newest}))
	every := images(t, renderSet(t, "testdata/golden/everything-1.37.yaml"))
	var page strings.Builder
	page.WriteString("# Images\nWhat the chart's default values pull, for a mirror or a cluster without a registry: `global.imageRegistry` names the mirror,\n" +
		"under which repositories and tags stay as they are; `digest` beside a tag pins an image. `make chart` writes this page.\n\n| Image | Where |\n|---|---|\n")
	for _, image := range every {
		where := "always"
		if !slices.Contains(first, image) {
			where = optional(image)
		}
		fmt.Fprintf(&page, "| `%s` | %s |\n", image, where)
	}
	isCurrent(t, imagesPage, page.String())
}

// optional says by which value an image is used.
func optional(image string) string {
	switch {
	case strings.Contains(image, "csi-snapshotter"):
		return "`snapshots.enabled`, or the cluster has the CRDs of snapshots"
	case strings.Contains(image, "snapshot-metadata"):
		return "`snapshotMetadata.enabled`"
	case strings.Contains(image, "csiaddons"):
		return "`csiAddons.enabled`"
	}
	return "?"
}

// images are those of a manifest, sorted, each once.
func images(t *testing.T, manifest string) []string {
	t.Helper()
	out := map[string]bool{}
	for _, spec := range podSpecs(objects(t, manifest)) {
		for _, container := range containers(spec) {
			out[container.Image] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}
