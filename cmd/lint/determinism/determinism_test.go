package determinism

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestAnalyzerFindings(t *testing.T) {
	for name, pattern := range map[string]string{
		"imports that read the world":          "imports/fsm",
		"clocks and timers":                    "clocks/fsm",
		"goroutines, channels and select":      "concurrency/fsm",
		"map iteration and formatting of maps": "order/fsm",
		"floating point":                       "floats/fsm",
		"what a package of values does":        "values/executor/plan",
		"nothing in pure code and in tests":    "pure/fsm",
		"nothing in other packages":            "elsewhere",
	} {
		t.Run(name, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), Analyzer, pattern)
		})
	}
}

func TestUnknownModulesAreForbidden(t *testing.T) {
	for path, pure := range map[string]bool{
		"github.com/tidwall/btree":                        true,
		"github.com/tidwall/btree/v2":                     false,
		"google.golang.org/protobuf/proto":                true,
		"github.com/holdfast-storage/holdfast/fsm/fsmpb":  true,
		"github.com/holdfast-storage/holdfast/executor":   true, // for its values
		"github.com/holdfast-storage/holdfast/plantedbug": true,
		"github.com/holdfast-storage/holdfast/raftnode":   false,
		"github.com/google/uuid":                          false,
		"encoding/binary":                                 true,
		"net/netip":                                       true,
		"net":                                             false,
	} {
		if got := forbiddenImport(path) == ""; got != pure {
			t.Errorf("import of %s: allowed %t, want %t", path, got, pure)
		}
	}
}
