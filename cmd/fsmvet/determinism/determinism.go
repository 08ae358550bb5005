// Package determinism is an analyzer that keeps package fsm a pure function: it
// refuses clocks, randomness, input and output, goroutines, map iteration and
// floating point there. Test files are exempt.
package determinism

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports what could differ between two members that apply the same log.
var Analyzer = &analysis.Analyzer{
	Name: "determinism",
	Doc:  "refuse clocks, randomness, I/O, goroutines, map iteration and floats in the replicated state machine",
	Run:  run,
}

// packageSuffix is the end of the paths of the packages that must be deterministic.
var packageSuffix string

func init() {
	Analyzer.Flags.StringVar(&packageSuffix, "package", "/fsm", "the end of the import path of the packages to check")
}

func run(pass *analysis.Pass) (any, error) {
	path, _, _ := strings.Cut(pass.Pkg.Path(), " ") // a test variant's path goes on after a space
	if !strings.HasSuffix("/"+path, packageSuffix) {
		return nil, nil
	}
	for _, file := range pass.Files {
		if strings.HasSuffix(pass.Fset.Position(file.Package).Filename, "_test.go") {
			continue
		}
		checkImports(pass, file)
		ast.Inspect(file, func(n ast.Node) bool { return checkNode(pass, n) })
	}
	return nil, nil
}
