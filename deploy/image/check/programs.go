package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
)

// further are called without a row of executor/run's packages.
var further = []string{"modprobe", "losetup", "mount", "umount", "sh"}

// Programs are the commands that the product of a source tree calls, as executor/run names them.
func Programs(repository string) ([]string, error) {
	file := filepath.Join(repository, "executor/run/look_path.go")
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("read which commands are called: %w", err)
	}
	names := slices.Clone(further)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "packages" {
			names = append(names, keysOf(spec.Values[0])...)
		}
		return true
	})
	if len(names) == len(further) {
		return nil, fmt.Errorf("%s has no map named packages", file)
	}
	return names, nil
}

func keysOf(value ast.Expr) []string {
	var keys []string
	literal, _ := value.(*ast.CompositeLit)
	if literal == nil {
		return nil
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.BasicLit); ok {
				name, _ := strconv.Unquote(key.Value)
				keys = append(keys, name)
			}
		}
	}
	return keys
}

// HasPrograms is an error that names the commands that a tree lacks.
func HasPrograms(tree *rootfs.Tree, repository string) error {
	names, err := Programs(repository)
	if err != nil {
		return err
	}
	lacking := slices.DeleteFunc(names, tree.Program)
	if len(lacking) > 0 {
		return fmt.Errorf("the image lacks commands that Holdfast calls: %v", lacking)
	}
	return nil
}
