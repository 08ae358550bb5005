package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// page is PLANTED.md.
func page(results []result, within time.Duration) string {
	var b strings.Builder
	b.WriteString("# Which bug is found by whom\n\n")
	fmt.Fprintf(&b, "Written by `make planted`. Each bug of `plantedbug/names.go` was switched on, alone, in a run of the layer that must find it, for %v of processor\n", within)
	b.WriteString("time at most; where that did not find it, in the tests of the packages that follow in the row. A bug that nobody found is a finding.\n\n")
	b.WriteString("| bug | must be found by | found by | which check or test | after | processor time |\n|---|---|---|---|---|---|\n")
	var byNamed, byOther, byNone, notRun int
	for i := range table {
		r := &table[i]
		found := foundBy(results, r)
		switch {
		case found == nil && !isRun(results, r):
			notRun++
			fmt.Fprintf(&b, "| %s | %s | **not run** | | | |\n", r.bug, r.catchers[0])
			continue
		case found == nil:
			byNone++
			fmt.Fprintf(&b, "| %s | %s | **none** | | | |\n", r.bug, r.catchers[0])
			continue
		case found.Catcher == r.catchers[0]:
			byNamed++
		default:
			byOther++
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.1f s |\n", r.bug, r.catchers[0], found.Catcher, strings.ReplaceAll(found.By, "|", "/"), found.Steps, found.CPU.Seconds())
	}
	fmt.Fprintf(&b, "\n%d bugs: %d found by the one that must, %d by another, %d by none, %d not run.\n", len(table), byNamed, byOther, byNone, notRun)
	b.WriteString(remedies(results))
	return b.String()
}

// foundBy is the first of the row's catchers that found its bug, nil when none did.
func foundBy(results []result, r *row) *result {
	for _, name := range r.catchers {
		i := slices.IndexFunc(results, func(x result) bool { return x.Bug == r.bug && x.Catcher == name && x.Caught })
		if i >= 0 {
			return &results[i]
		}
	}
	return nil
}

// isRun tells whether any catcher looked for the bug.
func isRun(results []result, r *row) bool {
	return slices.ContainsFunc(results, func(x result) bool { return x.Bug == r.bug })
}

// remedies says what is done about those that the named one does not find.
func remedies(results []result) string {
	var b strings.Builder
	for i := range table {
		r := &table[i]
		if found := foundBy(results, r); r.remedy != "" && (found == nil || found.Catcher != r.catchers[0]) {
			fmt.Fprintf(&b, "- **%s**: %s\n", r.bug, r.remedy)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n## Findings\n\n" + b.String()
}
