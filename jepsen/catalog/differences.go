package catalog

import (
	"fmt"
	"slices"
)

// Differences answers what a layer has that its file of the catalogue does not list, and what is listed and the layer has not,
// each as a sentence; none where they agree. A name twice is a difference too.
func Differences(l Layer, has Served) []string {
	listed := ServedBy(l)
	return slices.Concat(
		compare(l, "workload", has.Workloads, listed.Workloads),
		compare(l, "fault", has.Faults, listed.Faults),
		compare(l, "check", has.Checks, listed.Checks),
		compare(l, "count", has.Counts, listed.Counts),
	)
}

func compare[N ~string](l Layer, kind string, has, listed []N) (problems []string) {
	for i, name := range has {
		if !slices.Contains(listed, name) {
			problems = append(problems, fmt.Sprintf("%s has the %s %q, which its catalogue does not list", l, kind, name))
		}
		if slices.Contains(has[:i], name) {
			problems = append(problems, fmt.Sprintf("%s has the %s %q twice", l, kind, name))
		}
	}
	for _, name := range listed {
		if !slices.Contains(has, name) {
			problems = append(problems, fmt.Sprintf("the catalogue lists the %s %q for %s, which has it not", kind, name, l))
		}
	}
	return problems
}

// Serves tells whether the layer is listed with the fault.
func Serves(l Layer, f Fault) bool { return slices.Contains(ServedBy(l).Faults, f) }
