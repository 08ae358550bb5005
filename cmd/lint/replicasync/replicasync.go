// Package replicasync is an analyzer for what the log knows of a replica's content. It is nil
// for a local volume and for a replica that is gone, so a field of it that is read through any
// Replica may panic. Replicas of Volume.ActiveReplica, ActiveReplicas and PeerReplica have it.
package replicasync

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports a field or method of fsm.ReplicaSync that is selected through an element of
// Volume.Replicas or a result of Volume.Replica. The files replica*.go of fsm, which decide
// what is set, and tests are exempt.
var Analyzer = &analysis.Analyzer{
	Name: "replicasync",
	Doc:  "refuse fields of fsm.ReplicaSync of a replica that may have none",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		name := filepath.Base(pass.Fset.Position(file.Package).Filename)
		if strings.HasSuffix(name, "_test.go") || isFSM(pass.Pkg) && strings.HasPrefix(name, "replica") {
			continue
		}
		origins := originsIn(pass, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && isPromoted(pass.TypesInfo.Selections[s]) && origins.mayBeNil(pass, s.X) {
				pass.Reportf(s.Sel.Pos(), "%s of a replica whose ReplicaSync may be nil: use ActiveReplica, ActiveReplicas or PeerReplica", s.Sel.Name)
			}
			return true
		})
	}
	return nil, nil
}

func isFSM(pkg *types.Package) bool {
	path, _, _ := strings.Cut(pkg.Path(), " ") // a test variant's path goes on after a space
	return strings.HasSuffix(path, "/fsm")
}

// isPromoted tells whether the selection passes through the ReplicaSync that a Replica embeds.
func isPromoted(s *types.Selection) bool {
	if s == nil || len(s.Index()) < 2 {
		return false
	}
	replica, ok := pointee(s.Recv()).(*types.Named)
	if !ok || replica.Obj().Name() != "Replica" || !isFSM(replica.Obj().Pkg()) {
		return false
	}
	return replica.Underlying().(*types.Struct).Field(s.Index()[0]).Name() == "ReplicaSync"
}

func pointee(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	return types.Unalias(t)
}

// origins are the expressions that are assigned to each variable.
type origins map[types.Object][]ast.Expr

func originsIn(pass *analysis.Pass, file *ast.File) origins {
	o := origins{}
	ast.Inspect(file, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, left := range a.Lhs {
			if id, ok := left.(*ast.Ident); ok {
				obj := pass.TypesInfo.ObjectOf(id)
				o[obj] = append(o[obj], a.Rhs[i])
			}
		}
		return true
	})
	return o
}

// mayBeNil tells whether the replica is a copy or an element of a volume's replicas, or what
// Volume.Replica found.
func (o origins) mayBeNil(pass *analysis.Pass, replica ast.Expr) bool {
	replica = ast.Unparen(replica)
	if _, isPointer := pass.TypesInfo.TypeOf(replica).(*types.Pointer); !isPointer {
		return true
	}
	switch x := replica.(type) {
	case *ast.UnaryExpr:
		_, isElement := ast.Unparen(x.X).(*ast.IndexExpr)
		return x.Op == token.AND && isElement
	case *ast.CallExpr:
		f, ok := ast.Unparen(x.Fun).(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Replica" || f.Sel.Name == "replicaOn")
	case *ast.Ident:
		variable := pass.TypesInfo.ObjectOf(x)
		assigned := o[variable]
		o[variable] = nil // variables may be assigned to each other
		defer func() { o[variable] = assigned }()
		return slices.ContainsFunc(assigned, func(e ast.Expr) bool { return o.mayBeNil(pass, e) })
	}
	return false
}
