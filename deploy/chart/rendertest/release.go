package rendertest

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"k8s.io/client-go/dynamic"
)

// ChartDir is the chart's folder, seen from this package's.
const ChartDir = ".."

// Release is one rendering: the values beside the chart's own and the cluster that it is for.
type Release struct {
	KubeVersion string   // such as 1.37.2
	APIs        []string // group/version that the cluster has beside Kubernetes' own
	Values      map[string]any
	Cluster     Cluster // what the template function lookup sees; nil: no cluster
}

// Cluster gives a client for a kind, and whether its objects are in namespaces.
type Cluster interface {
	GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error)
}

// The name and the namespace of every release.
const (
	ReleaseName = "holdfast"
	Namespace   = "holdfast"
)

// notesFile is the template whose text is for people.
const notesFile = "NOTES.txt"

// join is the manifest of templates' outputs by file name, as `helm template` prints it: without notes, helpers and
// empty files.
func join(files map[string]string) string {
	names := make([]string, 0, len(files))
	for name, text := range files {
		if base := filepath.Base(name); base != notesFile && !strings.HasPrefix(base, "_") && strings.TrimSpace(text) != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.TrimPrefix(strings.TrimSpace(files[name]), "---\n"))
	}
	return out.String()
}
