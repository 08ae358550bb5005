package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// COPrefix is that of keys that Kubernetes' sidecars add: names of claims and
// references to secrets. They are tolerated and are no part of what is made.
const COPrefix = "csi.storage.k8s.io/"

// NoParameters refuses every parameter but those that sidecars add.
func NoParameters(given map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !strings.HasPrefix(key, COPrefix) {
			return fsm.Reject(fsm.Invalid, "parameter %q is not known: there are none", Message(key))
		}
	}
	return nil
}
