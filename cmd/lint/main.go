// Command lint is the project's set of linters as one `go vet -vettool`, so that
// results are cached by package and versions are pinned in go.mod:
// staticcheck's correctness checks, errcheck, errorlint, exhaustive switches and
// the determinism of fsm.
package main

import (
	"slices"

	"github.com/kisielk/errcheck/errcheck"
	"github.com/nishanths/exhaustive"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"

	"github.com/holdfast-storage/holdfast/cmd/fsmvet/determinism"
)

func main() {
	unitchecker.Main(slices.Concat(
		[]*analysis.Analyzer{determinism.Analyzer, exhaustiveSwitches(), errorlint.NewAnalyzer(), uncheckedErrors()},
		staticchecks(),
	)...)
}

// exhaustiveSwitches accepts a default as a decision about the cases not named.
func exhaustiveSwitches() *analysis.Analyzer {
	set(exhaustive.Analyzer, "default-signifies-exhaustive", "true")
	return exhaustive.Analyzer
}

// uncheckedErrors leaves out what cannot be acted on: closing what was only read,
// and writing to a terminal.
func uncheckedErrors() *analysis.Analyzer {
	set(errcheck.Analyzer, "excludeonly", "false")
	return errcheck.Analyzer
}

func set(a *analysis.Analyzer, flag, value string) {
	if err := a.Flags.Set(flag, value); err != nil {
		panic("lint: " + a.Name + " has no flag " + flag + ": " + err.Error())
	}
}

func staticchecks() []*analysis.Analyzer {
	var all []*analysis.Analyzer
	for _, a := range slices.Concat(staticcheck.Analyzers, simple.Analyzers) {
		all = append(all, a.Analyzer)
	}
	return all
}
