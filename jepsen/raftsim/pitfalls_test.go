package raftsim

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryPitfallHasItsTests fails when PITFALLS.md names a test that does not exist, and when a pitfall has none but says so.
func TestEveryPitfallHasItsTests(t *testing.T) {
	page, err := os.ReadFile("PITFALLS.md")
	require.NoError(t, err)
	known := testsIn(t, ".", "../../raftnode", "../../raftnode/store")
	for i := 1; i <= 17; i++ {
		require.Regexp(t, fmt.Sprintf(`(?m)^\| %d: `, i), string(page))
	}
	for _, row := range strings.Split(string(page), "\n") {
		if !regexp.MustCompile(`^\| \d+[:,]`).MatchString(row) {
			continue
		}
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(row, -1)
		require.True(t, len(named) > 0 || strings.Contains(row, "it is not used"), row)
		for _, name := range named {
			require.True(t, known[name[1]], "there is no %s", name[1])
		}
		for _, fault := range regexp.MustCompile("`([a-z]+-[a-z-]+)`").FindAllStringSubmatch(row, -1) {
			require.Contains(t, faultNames(), fault[1])
		}
	}
}

func faultNames() (names []string) {
	for _, f := range Faults() {
		names = append(names, string(f))
	}
	return names
}

// testsIn are the names of the tests in folders.
func testsIn(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					names[f.Name.Name] = true
				}
			}
		}
	}
	return names
}
