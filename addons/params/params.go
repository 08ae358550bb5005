// Package params checks the parameters of calls of CSI-Addons, which come from an orchestrator's classes.
package params

import (
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Site is the parameter that names the site whose endpoint the call is meant for.
const Site = csiconv.SiteKey

// Check refuses a call that is meant for another site (S34), and parameters that are neither named nor
// an orchestrator's own (of k8s.io or kubernetes.io).
func Check(site string, given map[string]string, known ...string) error {
	if err := csiconv.CheckSite(site, given); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if key != Site && !slices.Contains(known, key) && !csiconv.IsKubernetesKey(key) {
			return fsm.Reject(fsm.Invalid, "parameter %q is not known", csiconv.Message(key))
		}
	}
	return nil
}
