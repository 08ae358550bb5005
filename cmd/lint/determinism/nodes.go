package determinism

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// clocks are the names of package time that read a clock, wait for one, or read
// the host's time zone. Its types and its arithmetic are allowed.
var clocks = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true,
	"NewTimer": true, "NewTicker": true, "Local": true, "LoadLocation": true,
}

// checkNode reports one node; false when what is inside needs no further look.
func checkNode(pass *analysis.Pass, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.GoStmt:
		pass.Reportf(n.Pos(), "goroutine in deterministic code: the scheduler decides what runs first")
	case *ast.SelectStmt:
		pass.Reportf(n.Pos(), "select in deterministic code: it chooses at random")
		return false
	case *ast.ChanType:
		pass.Reportf(n.Pos(), "channel in deterministic code")
	case *ast.SendStmt:
		pass.Reportf(n.Pos(), "channel in deterministic code")
	case *ast.RangeStmt:
		checkRange(pass, n)
	case *ast.Ident:
		checkUse(pass, n)
	case *ast.CallExpr:
		checkCall(pass, n)
	}
	if e, ok := n.(ast.Expr); ok {
		return checkExpr(pass, e)
	}
	return true
}

func checkRange(pass *analysis.Pass, n *ast.RangeStmt) {
	switch pass.TypesInfo.TypeOf(n.X).Underlying().(type) {
	case *types.Map:
		pass.Reportf(n.Pos(), "range over a map in deterministic code: its order is random")
	case *types.Chan:
		pass.Reportf(n.Pos(), "channel in deterministic code")
	}
}

// checkUse reports the names of package time that read the host.
func checkUse(pass *analysis.Pass, id *ast.Ident) {
	obj := pass.TypesInfo.Uses[id]
	if obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != "time" || !clocks[obj.Name()] {
		return
	}
	if fn, ok := obj.(*types.Func); ok && fn.Signature().Recv() != nil && obj.Name() != "Local" {
		return // a method such as Time.After compares
	}
	pass.Reportf(id.Pos(), "time.%s in deterministic code: time comes from the command", obj.Name())
}

// checkExpr reports receiving, and values that are floating point.
func checkExpr(pass *analysis.Pass, e ast.Expr) bool {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		pass.Reportf(e.Pos(), "channel in deterministic code")
		return false
	}
	basic, ok := types.Unalias(underlying(pass.TypesInfo.TypeOf(e))).(*types.Basic)
	if ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0 {
		pass.Reportf(e.Pos(), "floating point in deterministic code: use integers")
		return false
	}
	return true
}

func underlying(t types.Type) types.Type {
	if t == nil {
		return types.Typ[types.Invalid]
	}
	return t.Underlying()
}

// checkCall reports printing, and formatting of what has no order or no fixed address.
func checkCall(pass *analysis.Pass, call *ast.CallExpr) {
	switch callee := calleeOf(pass, call).(type) {
	case *types.Builtin:
		if callee.Name() == "print" || callee.Name() == "println" {
			pass.Reportf(call.Pos(), "%s in deterministic code: it does output", callee.Name())
		}
	case *types.Func:
		if callee.Pkg() == nil || callee.Pkg() == pass.Pkg {
			return
		}
		if callee.Pkg().Path() == "fmt" {
			checkFormat(pass, call, callee)
		}
		if endsIn(callee.Pkg().Path(), values) && mayDoIO(callee.Signature()) {
			pass.Reportf(call.Pos(), "%s in deterministic code: it does input or output", callee.FullName())
		}
	}
}

// mayDoIO tells what may fail, or wait, or is somebody else's to implement.
func mayDoIO(f *types.Signature) bool {
	if f.Recv() != nil && types.IsInterface(f.Recv().Type()) {
		return true
	}
	if n := f.Results().Len(); n > 0 && types.Identical(f.Results().At(n-1).Type(), types.Universe.Lookup("error").Type()) {
		return true
	}
	return f.Params().Len() > 0 && f.Params().At(0).Type().String() == "context.Context"
}

func calleeOf(pass *analysis.Pass, call *ast.CallExpr) types.Object {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return pass.TypesInfo.Uses[f]
	case *ast.SelectorExpr:
		return pass.TypesInfo.Uses[f.Sel]
	}
	return nil
}

func checkFormat(pass *analysis.Pass, call *ast.CallExpr, callee *types.Func) {
	if strings.HasPrefix(callee.Name(), "Print") || callee.Name() == "Scan" || callee.Name() == "Scanf" || callee.Name() == "Scanln" {
		pass.Reportf(call.Pos(), "fmt.%s in deterministic code: it does input or output", callee.Name())
	}
	for _, arg := range call.Args {
		if holdsMap(pass.TypesInfo.TypeOf(arg), map[types.Type]bool{}) {
			pass.Reportf(arg.Pos(), "formatting of a map in deterministic code: print what it holds in order")
		}
		if v := pass.TypesInfo.Types[arg].Value; v != nil && v.Kind() == constant.String && strings.Contains(constant.StringVal(v), "%p") {
			pass.Reportf(arg.Pos(), "formatting of an address in deterministic code: it differs between members")
		}
	}
}

// holdsMap reports whether a value of the type would print a map.
func holdsMap(t types.Type, seen map[types.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	switch t := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Pointer:
		return holdsMap(t.Elem(), seen)
	case *types.Slice:
		return holdsMap(t.Elem(), seen)
	case *types.Array:
		return holdsMap(t.Elem(), seen)
	case *types.Struct:
		for i := range t.NumFields() {
			if holdsMap(t.Field(i).Type(), seen) {
				return true
			}
		}
	}
	return false
}
