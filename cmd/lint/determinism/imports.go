package determinism

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// forbiddenPrefixes are packages of the standard library that read the world, or an order
// that is not the program's. A name stands for all below it.
var forbiddenPrefixes = map[string]string{
	"C":            "what C does is not checked",
	"context":      "deadlines are clocks",
	"crypto/rand":  "it is random",
	"database":     "it does input and output",
	"embed":        "content belongs into the log",
	"expvar":       "it shares state",
	"hash/maphash": "its seed is random",
	"io/fs":        "it does input and output",
	"io/ioutil":    "it does input and output",
	"log":          "it does output",
	"maps":         "it iterates over maps",
	"math/rand":    "it is random",
	"net":          "it does input and output",
	"os":           "it does input and output",
	"plugin":       "what it loads is not checked",
	"reflect":      "it reaches around these checks",
	"runtime":      "it reads the process",
	"sync":         "the state has one owner",
	"syscall":      "it does input and output",
	"testing":      "it is for tests",
	"unique":       "it shares state",
	"unsafe":       "addresses differ between members",
	"weak":         "it reads the garbage collector",
}

// pureStandard are packages of the standard library below one that is forbidden, which only have values.
var pureStandard = []string{"net/netip"}

// pureModules are the packages from outside the standard library that may be used:
// exactly these, or those below when the path ends in a slash.
var pureModules = []string{"github.com/tidwall/btree", "google.golang.org/protobuf/"}

// values are packages of this project, by the ends of their paths, of which only what
// holds values may be used: checkCall refuses what reads or writes. The first checks
// itself.
var values = []string{"/fsm", "/executor", "/executor/records"}

func checkImports(pass *analysis.Pass, file *ast.File) {
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if why := forbiddenImport(path); why != "" {
			pass.Reportf(spec.Pos(), "import of %s in deterministic code: %s", path, why)
		}
	}
}

// forbiddenImport says why a package may not be imported, empty when it may.
func forbiddenImport(path string) string {
	if slices.Contains(pureStandard, path) {
		return ""
	}
	if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
		return forbiddenModule(path)
	}
	for prefix := path; prefix != ""; prefix = parent(prefix) {
		if why, bad := forbiddenPrefixes[prefix]; bad {
			return why
		}
	}
	return ""
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)]
}

// forbiddenModule is forbiddenImport of another module's package, or of this one's. Planted bugs are constants outside of the builds
// that are for finding them.
func forbiddenModule(path string) string {
	for _, pure := range pureModules {
		if path == pure || strings.HasSuffix(pure, "/") && strings.HasPrefix(path, pure) {
			return ""
		}
	}
	if strings.HasSuffix(path, "/fsm/fsmpb") || strings.HasSuffix(path, "/plantedbug") || endsIn(path, values) {
		return ""
	}
	return "only its own messages, tidwall/btree and protobuf are known to be pure"
}
