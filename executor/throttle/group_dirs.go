package throttle

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// maxDepth is how many levels below the root a kubelet's pods can be: those of a kubelet that
	// runs in a container are below the container's own group.
	maxDepth = 5
	// maxDirsScanned bounds how many groups are scanned.
	maxDirsScanned = 10_000
)

// isKubepodsGroup reports whether a group contains a kubelet's pods: kubepods.slice with the
// systemd driver, kubepods with cgroupfs, and NAME-kubepods.slice where the kubelet has a cgroup
// root of its own, as in kind.
func isKubepodsGroup(name string) bool {
	return name == "kubepods" || name == "kubepods.slice" || strings.HasSuffix(name, "-kubepods.slice")
}

// groupDirs returns the directories of the configured group, or of all kubelets' pods. It scans
// each time: a kubelet may create its groups later.
func (t *Throttle) groupDirs() ([]string, error) {
	switch {
	case t.group != "":
		return []string{filepath.Join(t.root, t.group)}, nil
	case t.NeedsGroup():
		return nil, fsm.Reject(fsm.Precondition, "with cgroup v1 a limit bounds the processes of one group only, not of the pods below it: name the writers' own group with --io-cgroup, or use cgroup v2")
	}
	var found []string
	level, looked := []string{t.root}, 0
	for range maxDepth {
		var next []string
		for _, dir := range level {
			if looked++; looked > maxDirsScanned {
				break
			}
			entries, _ := os.ReadDir(dir) // a group that was removed meanwhile has none
			for _, e := range entries {
				switch path := filepath.Join(dir, e.Name()); {
				case !e.IsDir():
				case isKubepodsGroup(e.Name()):
					found = append(found, path)
				default:
					next = append(next, path)
				}
			}
		}
		level = next
	}
	if len(found) == 0 {
		return nil, fsm.Reject(fsm.Precondition, "no control group of a kubelet's pods is below %s, neither kubepods.slice nor kubepods: name the writers' group with --io-cgroup", t.root)
	}
	return found, nil
}
