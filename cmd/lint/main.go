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
		[]*analysis.Analyzer{determinism.Analyzer, exhaustiveChoices(), errorlint.NewAnalyzer(), uncheckedErrors()},
		staticchecks(),
	)...)
}

// exhaustiveChoices looks at switches over sealed interfaces and at tables keyed by
// an enum; a switch over values says with its last return what the others do.
func exhaustiveChoices() *analysis.Analyzer {
	set(exhaustive.Analyzer, "check", "typeswitch,mapliteral")
	set(exhaustive.Analyzer, "d", "true")
	return exhaustive.Analyzer
}

// uncheckedErrors leaves out what cannot be acted on: closing what was read or is
// being given up, and telling a terminal. What was written is synced first, and
// the sync's error is checked.
func uncheckedErrors() *analysis.Analyzer {
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols,
		"(io.Closer).Close", "(*os.File).Close", "(net.Listener).Close", "(net.Conn).Close",
		"(*google.golang.org/grpc.ClientConn).Close", "(*github.com/klauspost/compress/zstd.Decoder).Close",
		"fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln",
	)
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
