package rendertest

import (
	"regexp"
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

// prevented is what of a CSIDriver only the newest version has.
var prevented = regexp.MustCompile("(?:  # No pod with .*\n  # .*\n)  preventPodSchedulingIfMissing: (true|false)\n")

// What is made for the newest version differs from what is made for the one before in one line: nothing else asks for the version.
func TestVersionsDifferInOneFieldOnly(t *testing.T) {
	for path, release := range sets {
		release.KubeVersion = older
		before := render(t, release)
		release.KubeVersion = newest
		after := render(t, release)
		require.Len(t, prevented.FindAllString(after, -1), 1, path)
		require.Equal(t, before, prevented.ReplaceAllString(after, ""), path)
	}
}

// The scheduler looks again at a pod that waits for a driver only when the driver comes with a limit.
func TestPodsWaitForADriverWithALimitOnly(t *testing.T) {
	for want, node := range map[string]tree{"true": {}, "false": {"maxVolumes": 0}} {
		text := render(t, Release{KubeVersion: newest, Values: tree{"node": node}})
		require.Equal(t, want, prevented.FindStringSubmatch(text)[1])
	}
	onHosts := render(t, Release{KubeVersion: newest, Values: tree{"node": tree{"mode": "host"}}})
	require.Equal(t, "false", prevented.FindStringSubmatch(onHosts)[1], "the limit is a flag that the host's own unit may lack")
}

func TestVersionsBeforeTheOldestAreRefused(t *testing.T) {
	for _, helm := range []func(Release) (map[string]string, error){Helm3, Helm4} {
		_, err := helm(Release{KubeVersion: "1.33.9"})
		require.ErrorContains(t, err, "1.34.0")
	}
}
