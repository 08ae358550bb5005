package holdfast_test

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/holdfast-storage/holdfast"

// mayImport is the map of the house: who may import whom, inside this module.
// A package that ends in /... stands for itself and all below it; "*" is everything
// but cmd, which nobody outside cmd imports.
var mayImport = map[string][]string{
	"fsm/fsmpb": {},
	"fsm":       {"fsm/fsmpb"},

	"raftnode/pki":     {},
	"raftnode/store":   {},
	"raftnode/journal": {},
	"raftnode/raftpb":  {"fsm/fsmpb"},
	"raftnode":         {"fsm", "fsm/fsmpb", "raftnode/pki", "raftnode/store", "raftnode/journal", "raftnode/raftpb"},

	"csi/rpcerr":     {"fsm", "raftnode"},
	"csi/server":     {"fsm", "fsm/fsmpb", "csi/rpcerr"},
	"csi/identity":   {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/server"},
	"csi/cluster":    {"fsm", "fsm/fsmpb", "csi/rpcerr"},
	"csi/controller": {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/server", "csi/cluster"},
	"csi/group":      {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/server", "csi/cluster"},
	"csi/metadata":   {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/server", "csi/cluster"},
	"csi/node":       {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/server"},

	"executor":                   {"fsm", "fsm/fsmpb"},
	"executor/records":           {"fsm", "executor"},
	"executor/plan":              {"fsm", "fsm/fsmpb", "executor", "executor/records"},
	"executor/agent":             {"fsm", "fsm/fsmpb", "executor", "executor/records", "executor/plan"},
	"executor/run":               {},
	"executor/session":           {"fsm", "fsm/fsmpb", "executor", "executor/session/sessionpb", "raftnode/pki"},
	"executor/session/sessionpb": {"fsm/fsmpb"},
	"executor/mount":             {"fsm", "fsm/fsmpb", "executor", "executor/run"},
	"executor/loopfile":          {"fsm", "fsm/fsmpb", "executor", "executor/run"},
	"executor/lvm":               {"fsm", "fsm/fsmpb", "executor", "executor/run"},
	"executor/drbd":              {"fsm", "fsm/fsmpb", "executor", "executor/run"},
	"executor/fencepeer":         {"fsm", "fsm/fsmpb"},
	"executor/freeze":            {"fsm", "fsm/fsmpb", "executor"},
	"executor/throttle":          {"fsm", "fsm/fsmpb", "executor"},
	"executor/backendtest":       {"fsm", "fsm/fsmpb", "executor", "executor/run"},

	"admin":         {"fsm", "fsm/fsmpb", "admin/adminpb", "raftnode/pki", "raftnode/raftpb", "executor/session/sessionpb"},
	"admin/adminpb": {"fsm/fsmpb"},

	"cmd/...":          {"*", "cmd/..."},
	"jepsen/...":       {"jepsen/..."},
	"jepsen/bench/...": {"*"}, // measures the parts against each other
	"jepsen/sim":       {"fsm", "fsm/fsmpb", "executor", "executor/session", "jepsen/..."},
	"jepsen/raftsim":   {"fsm", "fsm/fsmpb", "raftnode", "jepsen/..."},
}

func TestImportDirections(t *testing.T) {
	broken, err := brokenArrows(".")
	require.NoError(t, err)
	require.Empty(t, broken)
}

func TestImportDirectionsSeesAForbiddenArrow(t *testing.T) {
	for name, source := range map[string]string{
		"the state may not import the member": "package fsm\n\nimport _ \"" + module + "/raftnode\"\n",
		"a package is on the map":             "",
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := "fsm"
			if source == "" {
				dir, source = "elsewhere", "package elsewhere\n"
			}
			require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(root, dir, "planted.go"), []byte(source), 0o600))
			broken, err := brokenArrows(root)
			require.NoError(t, err)
			require.Len(t, broken, 1)
		})
	}
}

// brokenArrows walks the folders instead of asking `go list`, whose answer a
// test cache may hold from before the change.
func brokenArrows(root string) ([]string, error) {
	var broken []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		if name := d.Name(); strings.HasPrefix(name, ".") || name == "testdata" {
			return fs.SkipDir
		}
		if nested(path) {
			return fs.SkipDir
		}
		found, err := brokenIn(root, path)
		broken = append(broken, found...)
		return err
	})
	return broken, err
}

// nested tells a module of its own, whose imports are its own business.
func nested(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func brokenIn(root, path string) ([]string, error) {
	pkg, err := build.ImportDir(path, 0)
	var none *build.NoGoError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the imports of %s: %w", path, err)
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	dir := filepath.ToSlash(rel)
	allowed, known := rulesFor(dir)
	if !known {
		return []string{dir + " is not on the map"}, nil
	}
	var broken []string
	for _, imp := range pkg.Imports {
		if dep, ours := strings.CutPrefix(imp, module+"/"); ours && !permitted(dep, allowed) {
			broken = append(broken, dir+" may not import "+dep)
		}
	}
	return broken, nil
}

// rulesFor finds the row of a package: its own, else that of the nearest folder with "/...".
func rulesFor(dir string) ([]string, bool) {
	if allowed, ok := mayImport[dir]; ok {
		return allowed, true
	}
	for up := dir; up != "."; up = filepath.ToSlash(filepath.Dir(up)) {
		if allowed, ok := mayImport[up+"/..."]; ok {
			return allowed, true
		}
	}
	return nil, false
}

func permitted(dep string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(rule string) bool {
		prefix, tree := strings.CutSuffix(rule, "/...")
		switch {
		case rule == "*":
			return !strings.HasPrefix(dep, "cmd/")
		case tree:
			return dep == prefix || strings.HasPrefix(dep, prefix+"/")
		}
		return dep == rule
	})
}
