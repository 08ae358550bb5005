// Package determinism is an analyzer that keeps the packages that only choose pure
// functions: the replicated state machine, and what an executor chooses to do next. It
// refuses clocks, randomness, input and output, goroutines, map iteration and
// floating point there. Test files are exempt.
package determinism

import (
	"go/ast"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports what could differ between two runs on the same values, such as two
// members that apply the same log.
var Analyzer = &analysis.Analyzer{
	Name: "determinism",
	Doc:  "refuse clocks, randomness, I/O, goroutines, map iteration and floats in packages that must be deterministic",
	Run:  run,
}

// packageSuffixes are the ends of the paths of the packages that must be deterministic.
var packageSuffixes string

func init() {
	Analyzer.Flags.StringVar(&packageSuffixes, "package", "/fsm,/executor/plan", "the ends of the import paths of the packages to check, separated by commas")
}

func run(pass *analysis.Pass) (any, error) {
	path, _, _ := strings.Cut(pass.Pkg.Path(), " ") // a test variant's path goes on after a space
	if !endsIn("/"+path, strings.Split(packageSuffixes, ",")) {
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

func endsIn(path string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(path, suffix) })
}
