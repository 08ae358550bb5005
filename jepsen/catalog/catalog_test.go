package catalog

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var write = flag.Bool("write", false, "write CATALOG.md instead of comparing it")

// entry is a name of the vocabulary and what its source says about it.
type entry struct{ kind, name, says string }

// vocabulary reads the constants of this package: a name without its line of meaning is a test's failure, not a gap in the page.
func vocabulary(t *testing.T) (entries []entry) {
	t.Helper()
	for _, name := range []string{"workload.go", "fault.go", "check.go", "count.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.NotNil(t, spec.Comment, value)
			entries = append(entries, entry{spec.Type.(*ast.Ident).Name, value, strings.TrimSpace(spec.Comment.Text())})
			return true
		})
	}
	return entries
}

// servers are the layers that serve the entry.
func servers(e entry) (layers []Layer) {
	for _, l := range Layers() {
		s := ServedBy(l)
		if slices.Contains(s.Workloads, Workload(e.name)) && e.kind == "Workload" ||
			slices.Contains(s.Faults, Fault(e.name)) && e.kind == "Fault" ||
			slices.Contains(s.Checks, Check(e.name)) && e.kind == "Check" ||
			slices.Contains(s.Counts, Count(e.name)) && e.kind == "Count" {
			layers = append(layers, l)
		}
	}
	return layers
}

func TestEveryNameIsServedAndMeansOneThing(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range vocabulary(t) {
		require.NotEmpty(t, servers(e), "no layer serves %s %q", e.kind, e.name)
		require.False(t, seen[e.kind+e.name], "%s %q is there twice", e.kind, e.name)
		seen[e.kind+e.name] = true
	}
	for _, l := range Layers() {
		for _, f := range ServedBy(l).Faults {
			require.True(t, seen["Fault"+string(f)], "%s serves a fault %q that is no word of the vocabulary", l, f)
		}
		require.Empty(t, Differences(l, ServedBy(l)), "a layer's file lists a name twice")
	}
}

func TestDifferencesFinds(t *testing.T) {
	has := ServedBy(Lab)
	has.Faults = append(slices.Clone(has.Faults[1:]), ToolLies, Pause)
	require.Equal(t, []string{
		`lab has the fault "tool-lies", which its catalogue does not list`,
		`lab has the fault "pause" twice`,
		`the catalogue lists the fault "power-loss" for lab, which has it not`,
	}, Differences(Lab, has))
}

// TestCatalogPageIsCurrent compares the page with the vocabulary: `go test ./jepsen/catalog -run '^TestCatalogPageIsCurrent$' -write` writes it.
func TestCatalogPageIsCurrent(t *testing.T) {
	page := catalogPage(vocabulary(t))
	if *write {
		require.NoError(t, os.WriteFile("CATALOG.md", []byte(page), 0o600))
	}
	got, err := os.ReadFile("CATALOG.md")
	require.NoError(t, err)
	require.Equal(t, page, string(got))
}

func catalogPage(entries []entry) string {
	var b strings.Builder
	b.WriteString("# What is done, broken and verified, and by which layer\n\n")
	b.WriteString("Generated from this package; which program is which layer, and how they are run: `jepsen/doc.go`.\n")
	kind := ""
	for _, e := range entries {
		if e.kind != kind {
			kind = e.kind
			b.WriteString("\n| " + strings.ToLower(kind) + " | is | sim | raftsim | cluster | lab |\n|---|---|---|---|---|---|\n")
		}
		b.WriteString("| " + e.name + " | " + e.says + " |")
		for _, l := range Layers() {
			mark := "  "
			if slices.Contains(servers(e), l) {
				mark = " x "
			}
			b.WriteString(mark + "|")
		}
		b.WriteString("\n")
	}
	return b.String()
}
