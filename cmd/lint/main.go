// Command lint is the project's set of linters as one `go vet -vettool`, so that
// results are cached by package and versions are pinned in go.mod, and dependencies are read once:
// those of go vet, staticcheck's correctness checks, errcheck, errorlint, the determinism of fsm, and what may be read of a
// replica. Sealed choices are checked by go-check-sumtype beside it.
package main

import (
	"slices"

	"github.com/kisielk/errcheck/errcheck"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"

	"github.com/holdfast-storage/holdfast/cmd/lint/determinism"
	"github.com/holdfast-storage/holdfast/cmd/lint/replicasync"
)

func main() {
	unitchecker.Main(slices.Concat(
		[]*analysis.Analyzer{determinism.Analyzer, replicasync.Analyzer, errorlint.NewAnalyzer(), uncheckedErrors()},
		vet.Suite, staticcheckAnalyzers(),
	)...)
}

// uncheckedErrors is errcheck without errors on which nothing can be done: closing a file that was read
// or is discarded, and printing to a terminal. Written files are synced first, and that error is checked.
func uncheckedErrors() *analysis.Analyzer {
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols,
		"(io.Closer).Close", "(*os.File).Close", "(net.Listener).Close", "(net.Conn).Close",
		"(*google.golang.org/grpc.ClientConn).Close", "(*github.com/klauspost/compress/zstd.Decoder).Close",
		"fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln",
	)
	return errcheck.Analyzer
}

func staticcheckAnalyzers() []*analysis.Analyzer {
	var all []*analysis.Analyzer
	for _, a := range slices.Concat(staticcheck.Analyzers, simple.Analyzers) {
		all = append(all, a.Analyzer)
	}
	return all
}
