package fsm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// racedSuffix ends the names of the tests that `make race` runs of this package. Those of one goroutine show the race
// detector nothing, at ten times the cost.
const racedSuffix = "WhileApplyGoesOn"

// TestWhatStartsGoroutinesIsRaced: no test starts a goroutine that the race detector never watches.
func TestWhatStartsGoroutinesIsRaced(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	raced := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, declared := range file.Decls {
			fn, ok := declared.(*ast.FuncDecl)
			if !ok || !startsGoroutines(fn) {
				continue
			}
			require.True(t, strings.HasSuffix(fn.Name.Name, racedSuffix), "%s: name %s so that it ends in %s: make race runs those", name, fn.Name.Name, racedSuffix)
			raced++
		}
	}
	require.Positive(t, raced)
}

// startsGoroutines: by a go statement, or as a sync.WaitGroup and an errgroup.Group do.
func startsGoroutines(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Go"
		}
		return !found
	})
	return found
}
