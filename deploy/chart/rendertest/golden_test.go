package rendertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// namespaceObject precedes the manifests that need no Helm: the hosts' pods are privileged.
const namespaceObject = `# Rendered from deploy/chart by make chart: change that, not this.
---
apiVersion: v1
kind: Namespace
metadata:
  name: holdfast
  labels:
    pod-security.kubernetes.io/enforce: privileged
`

func TestRenderingsAreCurrent(t *testing.T) {
	for path := range sets {
		t.Run(path, func(t *testing.T) {
			isCurrent(t, path, manifest(t, path))
		})
	}
}

// manifest is the text of a kept rendering.
func manifest(t *testing.T, path string) string {
	t.Helper()
	text := renderSet(t, path)
	if strings.Contains(path, "/kubernetes/") {
		return namespaceObject + text
	}
	return text
}

// What is made for the newest version differs from what is made for the one before in one line: nothing else asks for the version.
func TestVersionsDifferInOneFieldOnly(t *testing.T) {
	for path, release := range sets {
		release.KubeVersion = older
		before := render(t, release)
		release.KubeVersion = newest
		after := render(t, release)
		const field = "  # No pod with a volume of ours on a host that does not run us yet.\n  preventPodSchedulingIfMissing: true\n"
		require.Contains(t, after, field, path)
		require.Equal(t, before, strings.Replace(after, field, "", 1), path)
	}
}

func TestVersionsBeforeTheOldestAreRefused(t *testing.T) {
	for _, helm := range []func(Release) (map[string]string, error){Helm3, Helm4} {
		_, err := helm(Release{KubeVersion: "1.33.9"})
		require.ErrorContains(t, err, "1.34.0")
	}
}
