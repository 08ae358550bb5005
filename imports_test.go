package holdfast_test

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/holdfast-storage/holdfast"

// importMap says, per row, which packages of this module those of the row may import. A path that
// ends in /... stands for itself and all below it; "*" is everything but cmd and jepsen.
type importMap map[string][]string

// mayImport holds each package of this module to what it may import. It is exact: a row without a package, and a permission that
// no package of its row uses, fail too.
var mayImport = importMap{
	"plantedbug": {},
	"foldertest": {}, // of tests

	"durablefile": {},

	"fsm/fsmpb": {},
	"fsm":       {"fsm/fsmpb", "plantedbug"},

	"raftnode/pki":               {},
	"raftnode/access":            {"raftnode/pki"},
	"raftnode/store":             {"plantedbug"},
	"raftnode/journal":           {},
	"raftnode/backup":            {"durablefile", "fsm", "fsm/fsmpb", "raftnode/journal"},
	"raftnode/backup/backuptest": {"fsm", "fsm/fsmpb", "raftnode/journal"},
	"raftnode/backup/target":     {"raftnode/backup"},
	"raftnode/backup/schedule":   {"fsm", "raftnode/backup", "raftnode/backup/target"},
	"raftnode/store/storetest":   {},
	"raftnode/enroll":            {"durablefile", "fsm", "fsm/fsmpb", "raftnode/enroll/enrollpb", "raftnode/pki"},
	"raftnode/enroll/enrollpb":   {},
	"raftnode/raftpb":            {"fsm/fsmpb"},
	"raftnode":                   {"durablefile", "fsm", "fsm/fsmpb", "raftnode/access", "raftnode/pki", "raftnode/store", "raftnode/journal", "raftnode/raftpb", "plantedbug"},

	"csi/rpcerr":     {"fsm", "raftnode"},
	"csi/csiconv":    {"fsm", "fsm/fsmpb"},
	"csi/server":     {"fsm", "csi/rpcerr", "csi/csiconv"},
	"csi/identity":   {"csi/rpcerr"},
	"csi/cluster":    {"fsm", "fsm/fsmpb", "csi/rpcerr"},
	"csi/page":       {"fsm"},
	"csi/controller": {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/csiconv", "csi/cluster", "csi/page"},
	"csi/group":      {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/csiconv", "csi/cluster"},
	"csi/metadata":   {"fsm", "executor", "csi/rpcerr", "csi/cluster"},
	"csi/node":       {"fsm", "executor", "csi/rpcerr", "csi/csiconv"},

	"csi/mounthelper": {"durablefile", "fsm", "executor/run"},

	"addons/fence":        {"addons/params", "csi/cluster", "csi/csiconv", "csi/rpcerr", "fsm", "fsm/fsmpb"},
	"addons/identity":     {"csi/identity"},
	"addons/encryption":   {"csi/csiconv", "csi/rpcerr", "executor", "fsm"},
	"addons/reclaimspace": {"fsm", "fsm/fsmpb", "addons/params", "executor", "csi/cluster", "csi/csiconv", "csi/rpcerr"},
	"addons/replication":  {"fsm", "fsm/fsmpb", "addons/params", "csi/cluster", "csi/csiconv", "csi/rpcerr"},
	"addons/token":        {"fsm"},
	"addons/params":       {"fsm", "csi/csiconv"},
	"addons/volumegroup":  {"fsm", "fsm/fsmpb", "csi/rpcerr", "csi/csiconv", "csi/cluster", "csi/page", "addons/params"},

	"executor":                   {"fsm", "fsm/fsmpb"},
	"executor/records":           {"durablefile", "fsm", "executor", "plantedbug"},
	"executor/plan":              {"fsm", "fsm/fsmpb", "executor", "executor/records", "plantedbug"},
	"executor/agent":             {"durablefile", "fsm", "fsm/fsmpb", "executor", "executor/records", "executor/plan", "plantedbug"},
	"executor/run":               {},
	"executor/hostcheck":         {"executor/run"},
	"executor/session":           {"durablefile", "fsm", "fsm/fsmpb", "executor", "executor/session/sessionpb", "raftnode/pki"},
	"executor/session/sessionpb": {"fsm/fsmpb"},
	"executor/policy":            {"fsm", "fsm/fsmpb", "executor/session", "executor/session/sessionpb"},
	"executor/mount":             {"fsm", "executor", "executor/run"},
	"executor/loopfile":          {"fsm", "executor", "executor/run", "plantedbug"},
	"executor/luks":              {"durablefile", "fsm", "executor", "executor/run"},
	"executor/lvm":               {"fsm", "executor", "executor/run"},
	"executor/drbd":              {"durablefile", "fsm", "fsm/fsmpb", "executor", "executor/run"},
	"executor/drbd/drbdmodel":    {"fsm/fsmpb"},
	"executor/fencepeer":         {"fsm", "fsm/fsmpb"},
	"executor/freeze":            {"durablefile", "fsm", "executor"},
	"executor/throttle":          {"fsm", "executor"},
	"executor/backendtest":       {"fsm", "fsm/fsmpb", "executor", "executor/drbd/drbdmodel"},

	"admin":         {"fsm", "fsm/fsmpb", "admin/adminpb", "admin/listing"},
	"admin/adminpb": {"fsm/fsmpb"},
	"admin/listing": {},
	"admin/bundle":  {"fsm", "fsm/fsmpb", "admin", "admin/adminpb"},
	"admin/leaks":   {"fsm", "admin/adminpb"},
	"admin/certify": {"fsm", "admin/adminpb", "raftnode/pki"},

	"kube/client":    {},
	"kube/kubelet":   {"csi/identity", "csi/server"},
	"kube/forward":   {},
	"kube/orphans":   {"kube/plan"},
	"kube/signin":    {"raftnode/pki"},
	"kube/why":       {"admin/adminpb", "csi/identity", "fsm"},
	"kube/scratch":   {"admin/certify", "csi/identity"},
	"kube/wait":      {},
	"kube/apitest":   {}, // of tests
	"kube/bootstrap": {"durablefile", "kube/wait", "raftnode/store"},
	"kube/authority": {"durablefile", "kube/wait", "raftnode/pki"},
	"kube/enrol":     {"raftnode/enroll"},
	"kube/plan":      {"admin/adminpb"},
	"kube/drain":     {"admin/adminpb", "kube/plan", "kube/why"},
	"kube/loop":      {"admin", "admin/adminpb", "kube/plan"},

	"cmd/...":         {"*", "cmd/..."},
	"jepsen/...":      {"jepsen/..."},
	"jepsen/catalog":  {},
	"jepsen/report":   {"jepsen/catalog"},
	"jepsen/campaign": {"jepsen/catalog", "jepsen/report"},
	"jepsen/planted":  {"plantedbug"},
	"jepsen/sim": {
		"addons/encryption", "addons/reclaimspace", "addons/replication", "addons/volumegroup", "fsm", "fsm/fsmpb", "csi/controller", "csi/csiconv", "csi/group", "csi/node", "executor", "executor/agent", "executor/backendtest", "executor/policy",
		"executor/records", "executor/session", "executor/session/sessionpb",
	},
	"jepsen/raftsim": {
		"fsm", "fsm/fsmpb", "raftnode", "raftnode/pki", "raftnode/journal", "raftnode/store", "raftnode/store/storetest",
		"jepsen/catalog", "jepsen/report",
	},
	"jepsen/bench/...": {"fsm", "fsm/fsmpb", "raftnode/pki", "raftnode/raftpb"}, // measures the parts against each other
	// decides the log of a cluster again
	"jepsen/cluster/replay": {"fsm", "fsm/fsmpb", "raftnode/journal", "jepsen/check", "jepsen/model"},
}

func TestImportDirections(t *testing.T) {
	problems, err := mayImport.check(".")
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestImportDirectionsFinds(t *testing.T) {
	rows := importMap{"fsm": {"fsm/fsmpb"}, "fsm/fsmpb": {}, "cmd/...": {"*", "cmd/..."}}
	whole := map[string]string{"fsm": "fsm/fsmpb", "fsm/fsmpb": "", "cmd/holdfast": "cmd/node", "cmd/node": "fsm"}
	for name, tc := range map[string]struct {
		packages map[string]string // and what each imports
		rows     importMap
		problems []string
	}{
		"nothing in a map that is exact":   {},
		"an import that no row permits":    {packages: map[string]string{"fsm": "raftnode"}, problems: []string{"fsm may not import raftnode", "row fsm: nobody imports fsm/fsmpb"}},
		"a package that no row names":      {packages: map[string]string{"elsewhere": ""}, problems: []string{"elsewhere is not on the map"}},
		"cmd's import of jepsen":           {packages: map[string]string{"cmd/node": "jepsen/lab"}, problems: []string{"cmd/node may not import jepsen/lab", "row cmd/...: nobody imports *"}},
		"a row without a package":          {rows: importMap{"raftnode": {}}, problems: []string{"row raftnode: there is no such package"}},
		"a tree without a package":         {rows: importMap{"jepsen/...": {}}, problems: []string{"row jepsen/...: there is no such package"}},
		"a permission that nobody uses":    {rows: importMap{"fsm/fsmpb": {"fsm"}}, problems: []string{"row fsm/fsmpb: nobody imports fsm"}},
		"a tree's permission without uses": {packages: map[string]string{"cmd/holdfast": "fsm"}, problems: []string{"row cmd/...: nobody imports cmd/..."}},
	} {
		t.Run(name, func(t *testing.T) {
			packages, rules := maps.Clone(whole), maps.Clone(rows)
			maps.Copy(packages, tc.packages)
			maps.Copy(rules, tc.rows)
			problems, err := rules.check(plantPackages(t, packages))
			require.NoError(t, err)
			require.Equal(t, tc.problems, problems)
		})
	}
}

// plantPackages makes a module of packages that import one package each, or none.
func plantPackages(t *testing.T, packages map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for dir, dep := range packages {
		source := "package planted\n"
		if dep != "" {
			source += "\nimport _ \"" + module + "/" + dep + "\"\n"
		}
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, dir, "planted.go"), []byte(source), 0o600))
	}
	return root
}

// importSurvey compares the packages below a directory with the map.
type importSurvey struct {
	rules    importMap
	used     map[string]map[string]bool // by row: the permissions that a package of it uses
	problems []string
}

// check answers what differs between the map and the packages below root. It walks the
// directories instead of asking `go list`, whose answer a test cache may hold from before the
// change. Imports of test files are free.
func (m importMap) check(root string) ([]string, error) {
	s := &importSurvey{rules: m, used: map[string]map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		if name := d.Name(); strings.HasPrefix(name, ".") || name == "testdata" || nested(path) {
			return fs.SkipDir
		}
		return s.visit(root, path)
	})
	return append(s.problems, s.unused()...), err
}

// nested tells a module of its own, whose imports are its own business.
func nested(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func (s *importSurvey) visit(root, path string) error {
	pkg, err := buildContext.ImportDir(path, 0)
	var none *build.NoGoError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the imports of %s: %w", path, err)
	}
	dir, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	s.compare(filepath.ToSlash(dir), pkg.Imports)
	return nil
}

// buildContext sees the benchmarks too.
var buildContext = func() build.Context {
	c := build.Default
	c.BuildTags = []string{"bench"}
	return c
}()

// compare holds one package to its row.
func (s *importSurvey) compare(dir string, imports []string) {
	row, known := s.rules.rowOf(dir)
	if !known {
		s.problems = append(s.problems, dir+" is not on the map")
		return
	}
	if s.used[row] == nil {
		s.used[row] = map[string]bool{}
	}
	for _, imp := range imports {
		dep, ours := strings.CutPrefix(imp, module+"/")
		if !ours {
			continue
		}
		i := slices.IndexFunc(s.rules[row], func(rule string) bool { return permits(rule, dep) })
		if i < 0 {
			s.problems = append(s.problems, dir+" may not import "+dep)
			continue
		}
		s.used[row][s.rules[row][i]] = true
	}
}

// unused answers the rows without a package and the permissions that nobody uses.
func (s *importSurvey) unused() (problems []string) {
	for _, row := range slices.Sorted(maps.Keys(s.rules)) {
		used, exists := s.used[row]
		if !exists {
			problems = append(problems, "row "+row+": there is no such package")
			continue
		}
		for _, rule := range s.rules[row] {
			if !used[rule] {
				problems = append(problems, "row "+row+": nobody imports "+rule)
			}
		}
	}
	return problems
}

// rowOf finds the row of a package: its own, else that of the nearest directory with "/...".
func (m importMap) rowOf(dir string) (string, bool) {
	if _, ok := m[dir]; ok {
		return dir, true
	}
	for up := dir; up != "."; up = filepath.ToSlash(filepath.Dir(up)) {
		if _, ok := m[up+"/..."]; ok {
			return up + "/...", true
		}
	}
	return "", false
}

func permits(rule, dep string) bool {
	prefix, tree := strings.CutSuffix(rule, "/...")
	switch {
	case rule == "*":
		return !strings.HasPrefix(dep, "cmd/") && !strings.HasPrefix(dep, "jepsen/")
	case tree:
		return dep == prefix || strings.HasPrefix(dep, prefix+"/")
	}
	return dep == rule
}
