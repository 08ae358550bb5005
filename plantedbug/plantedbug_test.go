package plantedbug

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// declared are the bugs of names.go: by their constants, their names.
func declared(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.ParseComments)
	require.NoError(t, err)
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		require.NotNil(t, spec.Comment, "%s says nothing of what it does", name)
		all[spec.Names[0].Name] = name
		return true
	})
	return all
}

// plantedIn are the constants that the product's code passes to Is or Coin.
func plantedIn(t *testing.T) map[string]int {
	t.Helper()
	used := map[string]int{}
	for _, root := range []string{"../fsm", "../raftnode", "../executor", "../csi", "../admin", "../cmd"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return countUses(path, used)
		}))
	}
	return used
}

func countUses(path string, used map[string]int) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || selected(call.Fun) == "" {
			return true
		}
		if bug := selected(call.Args[0]); bug != "" {
			used[bug]++
		}
		return true
	})
	return nil
}

// selected is X of plantedbug.X, else empty.
func selected(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if of, ok := sel.X.(*ast.Ident); !ok || of.Name != "plantedbug" {
		return ""
	}
	return sel.Sel.Name
}

func TestEachBugIsPlanted(t *testing.T) {
	bugs, used := declared(t), plantedIn(t)
	require.GreaterOrEqual(t, len(bugs), 30)
	for constant, name := range bugs {
		require.NotZero(t, used[constant], "%s is planted nowhere", name)
	}
	for constant := range used {
		require.Contains(t, bugs, constant)
	}
}

// TestANormalBinaryHasNoBugs builds the program as it is shipped and looks for what switches bugs on. The same search finds it in a
// program that is built with the tag.
func TestANormalBinaryHasNoBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("it links the whole program")
	}
	shipped := build(t, "../cmd/holdfast")
	require.True(t, strings.Contains(shipped, "holdfast"), "this is no program of Holdfast")
	require.False(t, strings.Contains(shipped, Environment), "it reads the switch")
	for _, name := range declared(t) {
		require.False(t, strings.Contains(shipped, name), "it has %s", name)
	}
	require.False(t, strings.Contains(build(t, "./testdata/switchable"), string(PublishNotExclusive)))
	tagged := build(t, "-tags", "plantedbug", "./testdata/switchable")
	require.True(t, strings.Contains(tagged, string(PublishNotExclusive)) && strings.Contains(tagged, Environment), "the search finds nothing where it is")
}

// build is the content of the program that go build makes.
func build(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"build", "-ldflags=-s -w", "-o", path}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}
