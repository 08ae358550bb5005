package stories

import (
	"slices"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// All are the stories in the order in which they are told: what breaks more comes later.
func All() []story.Story {
	of := slices.Concat(basic, snapshots, []story.Story{hundred}, replicated, []story.Story{certified, certifiedReplicas, thinPools}, joined, faults,
		[]story.Story{nodesOnHosts, networkPolicy, alerts, pod0, certificates, certManaged, csiAddons, recovered, kills, suite, pages})
	for i := range of {
		if of[i].Needs == nil {
			of[i].Needs = installed
		}
	}
	return append([]story.Story{floor, install}, of...)
}
