package prometheus

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// withoutFault are the alerts that no test brings about, and why: none today.
var withoutFault = map[string]string{}

// TestEveryAlertIsBroughtAbout: each alert of the chart fires in a test that brings its fault about, on processes, on guests or on a
// Kubernetes; or it is said above why it does not.
func TestEveryAlertIsBroughtAbout(t *testing.T) {
	rules, err := Shorten("../../deploy/chart/files/alerts.yaml", filepath.Join(t.TempDir(), "alerts.yaml"), scale)
	require.NoError(t, err)
	fired := firedIn(t, "../cluster/alerts", "../lab/scenarios", "../kubernetes/stories")
	require.NotEmpty(t, fired)
	known := map[string]bool{}
	for _, r := range rules {
		known[r.Name] = true
		why, excused := withoutFault[r.Name]
		require.NotEqual(t, excused, fired[r.Name], "%s is to fire in a test, or in the list of those that do not (%s)", r.Name, why)
		delete(fired, r.Name)
	}
	require.Empty(t, fired, "no alerts of the chart")
	for name := range withoutFault {
		require.True(t, known[name], "there is no alert %s", name)
	}
}

// firedIn are the alerts of which the sources in folders say Fires.
func firedIn(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	fired := map[string]bool{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, folder)
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool { noteFired(n, fired); return true })
		}
	}
	return fired
}

// noteFired notes the literals that a function or method called Fires is given.
func noteFired(n ast.Node, fired map[string]bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return
	}
	name, _ := call.Fun.(*ast.Ident)
	if method, ok := call.Fun.(*ast.SelectorExpr); ok {
		name = method.Sel
	}
	if name == nil || name.Name != "Fires" {
		return
	}
	for _, arg := range call.Args {
		if literal, ok := arg.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				fired[text] = true
			}
		}
	}
}
