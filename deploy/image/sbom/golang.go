package sbom

import (
	"debug/buildinfo"
	"fmt"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// goModules are those that a program was built from, as it says itself, and the Go that built it.
func goModules(program string) ([]*v2_3.Package, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read what %s was built from: %w", program, err)
	}
	found := map[string]*v2_3.Package{"stdlib": goPackage("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		found[module.Path] = goPackage(module.Path, module.Version)
	}
	return inOrder(found), nil
}

func goPackage(path, version string) *v2_3.Package {
	return newPackage("go-"+path, path, version, fmt.Sprintf("pkg:golang/%s@%s", path, version))
}
