package sim

import "strings"

// openBugs are failures that are known, are in jepsen/TRACK.md as open, and only keep something from
// coming to its end: of none of them an acknowledged write is known to be lost. A seed that shows one does not fail
// the run. Each is a part of the failure's text.
var openBugs = []struct{ text, what string }{}

// openBug is the known bug that a failure shows, empty when it is none. Only what does not come to
// its end is known: whatever else fails is new.
func openBug(failure string) string {
	if failureKind(failure) != "liveness" {
		return ""
	}
	for _, bug := range openBugs {
		if strings.Contains(failure, bug.text) {
			return bug.what
		}
	}
	return ""
}

// openSeeds are seeds that show a known bug of safety, by the kind of their failure: the same kind from
// another seed is new.
var openSeeds = map[int]string{}
