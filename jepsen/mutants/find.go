package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one change: what is put before and after a stretch of a file.
type mutant struct {
	name          string // its file, function, kind and text: stable while the function is
	file          string
	from, to      int // offsets in the file
	before, after string
	line          int
}

// subject is a package whose decisions are changed.
type subject struct {
	dir   string
	share int // of the mutants
	// decides tells the files that decide; nil: all.
	decides func(file string) bool
	slow    string // its tests that take long: they run for who survives the others
	long    bool   // who survives the short tests meets all tests
	// simulated: jepsen/sim runs it too.
	simulated bool
}

// subjects: of raftnode only what decides, not what carries.
var subjects = []subject{
	{dir: "executor/plan", share: 25, simulated: true},
	{dir: "fsm", share: 60, simulated: true, slow: "^(TestADumpAtAnyIndexIsTheState|TestRandomReplicaHistoriesKeepEveryInvariant|TestAForkKeepsItsReplicaSyncs|" +
		"TestS152_PortsUnderRandomCommands|TestS71_NoOrderOfEventsRemovesTheLastCopy|TestS4_AnExpiredCommandIsAnsweredAsApplyWould)$"},
	{dir: "raftnode", share: 15, long: true, decides: func(file string) bool {
		return slices.Contains([]string{
			"bootstrap.go", "checkpoint.go", "duplicate_member.go", "feature_level.go", "hash_dispute.go", "hash_ring.go", "join_target.go", "leader_clock.go",
			"leader_heartbeats.go", "leader_probe.go",
			"leader_sweep.go", "leader_tracker.go", "leader_transfer.go", "membership_change.go", "membership_remove.go", "propose.go", "read.go", "read_index.go",
			"retry.go", "target.go", "watch.go", "index_waiters.go", "entry_skip.go", "dump.go", "proposal_batcher.go",
		}, filepath.Base(file))
	}},
}

// choose finds the mutants of a subject and picks so many by the seed.
func (s *subject) choose(seed int64, count int) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || s.decides != nil && !s.decides(file) {
			continue
		}
		found, err := find(file)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b mutant) int { return cmp.Compare(a.place(seed), b.place(seed)) })
	return all[:min(count, len(all))], nil
}

// place orders the mutants by chance: a seed chooses nearly the same ones after the code was changed.
func (m *mutant) place(seed int64) string {
	sum := sha256.Sum256(fmt.Append(nil, seed, m.name))
	return string(sum[:])
}

// finder walks one file.
type finder struct {
	file     string
	fset     *token.FileSet
	source   []byte
	function string
	seen     map[string]int
	found    []mutant
}

func find(file string) ([]mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := &finder{file: file, fset: token.NewFileSet(), source: source, seen: map[string]int{}}
	parsed, err := parser.ParseFile(f.fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for _, decl := range parsed.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && fn.Name.Name != "String" {
			f.function = fn.Name.Name
			ast.Inspect(fn.Body, f.visit)
		}
	}
	return f.found, nil
}

func (f *finder) visit(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.CallExpr:
		if isSwitch(x) {
			return false
		}
	case *ast.IfStmt:
		if neverTrue(x.Cond) {
			return false
		}
	case *ast.BinaryExpr:
		if neverTrue(x) {
			return false
		}
		if !isSwitched(x.X) && !isSwitched(x.Y) {
			f.binary(x)
		}
	case *ast.UnaryExpr:
		if x.Op == token.NOT && !isSwitched(x) {
			f.wrap("negate", x, "((", ") != %s)")
		}
	case *ast.BlockStmt:
		f.statements(x.List)
	case *ast.CaseClause:
		f.statements(x.Body)
	case *ast.Ident:
		if x.Name == "true" || x.Name == "false" {
			f.wrap("negate", x, "(", " != %s)")
		}
	}
	return true
}

// neverTrue tells a condition that needs a planted bug: what is done under it is no decision.
func neverTrue(e ast.Expr) bool {
	if x, ok := e.(*ast.BinaryExpr); ok && x.Op == token.LAND {
		return neverTrue(x.X) || neverTrue(x.Y)
	}
	return isSwitch(e)
}

// isSwitched tells a planted bug's switch, or its opposite.
func isSwitched(e ast.Expr) bool {
	if not, ok := e.(*ast.UnaryExpr); ok {
		return isSwitch(not.X)
	}
	return isSwitch(e)
}

// isSwitch tells a planted bug's switch, which is no decision.
func isSwitch(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == "plantedbug"
}

// binary are the mutants of a comparison or a connective.
func (f *finder) binary(x *ast.BinaryExpr) {
	a, b := f.text(x.X), f.text(x.Y)
	switch x.Op {
	case token.EQL, token.NEQ:
		f.wrap("negate", x, "((", ") != %s)")
	case token.LSS, token.GTR:
		f.wrap("bound", x, "((", ") || %s && ("+a+") == ("+b+"))")
	case token.LEQ, token.GEQ:
		f.wrap("bound", x, "((", ") && !(%s && ("+a+") == ("+b+")))")
	case token.LAND:
		f.wrap("or", x, "((", ") || %s && (("+a+") || ("+b+")))")
	case token.LOR:
		f.wrap("and", x, "((", ") && !(%s && !(("+a+") && ("+b+"))))")
	}
}

// statements are the mutants that leave a statement out.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch x := s.(type) {
		case *ast.ExprStmt:
			if call, ok := x.X.(*ast.CallExpr); ok && !isNamed(call.Fun, "panic") {
				f.wrap("leave out", s, "if !%s { ", " }")
			}
		case *ast.IncDecStmt:
			f.wrap("leave out", s, "if !%s { ", " }")
		case *ast.AssignStmt:
			if x.Tok != token.DEFINE && !isNamed(x.Lhs[0], "_") {
				f.wrap("leave out", s, "if !%s { ", " }")
			}
		}
	}
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.fset.Position(n.Pos()).Offset:f.fset.Position(n.End()).Offset])
}

// wrap adds a mutant; %s in what is put around is whether it is on.
func (f *finder) wrap(kind string, n ast.Node, before, after string) {
	from, to := f.fset.Position(n.Pos()), f.fset.Position(n.End())
	name := fmt.Sprintf("%s %s: %s `%s`", f.file, f.function, kind, strings.Join(strings.Fields(f.text(n)), " "))
	f.seen[name]++
	if n := f.seen[name]; n > 1 {
		name += fmt.Sprintf(" (%d)", n)
	}
	f.found = append(f.found, mutant{name: name, file: f.file, from: from.Offset, to: to.Offset, before: before, after: after, line: from.Line})
}
