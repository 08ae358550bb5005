package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// How a row ended.
const (
	passed        = "passed"
	failed        = "failed"
	notApplicable = "not applicable"
	inTheLab      = "in the lab"
	withoutTest   = "without a test"
	notRun        = "not run"
)

// result is how one row ended; Remark is why it is not applicable, or the test of the lab that has it.
type result struct {
	ID         string `json:"id"`
	Result     string `json:"result"`
	Obligation string `json:"obligation"`
	Remark     string `json:"remark,omitempty"`
}

// write puts results into a file: JSON when its name says so, else the page.
func writeResults(path string, results []result) error {
	raw := []byte(renderPage(results))
	if strings.HasSuffix(path, ".json") {
		var err error
		if raw, err = json.MarshalIndent(results, "", "  "); err != nil {
			return err
		}
	}
	return os.WriteFile(path, raw, 0o644)
}

// renderPage is the results as one table that differs only where a result differs.
func renderPage(results []result) string {
	sorted := slices.SortedFunc(slices.Values(results), func(a, b result) int { return strings.Compare(a.ID, b.ID) })
	var b strings.Builder
	b.WriteString("# Conformance to CSI and CSI-Addons\n\n`make conformance` writes this page from a run against a cluster of three controllers and two nodes.\n")
	b.WriteString("A row is one obligation of a specification; each that passed has a test of the same name in this folder. Those in the lab need\n")
	b.WriteString("kernels that replicate to each other: there they are sub-tests of the same name (`make lab`).\n\n")
	b.WriteString("| Result | Rows |\n| --- | --- |\n")
	for _, kind := range []string{passed, inTheLab, failed, notApplicable, withoutTest, notRun} {
		if n := count(results, kind); n > 0 || kind == passed || kind == failed {
			fmt.Fprintf(&b, "| %s | %d |\n", kind, n)
		}
	}
	b.WriteString("\n| Row | Result | Obligation | Why not applicable, or the test in the lab |\n| --- | --- | --- | --- |\n")
	for _, r := range sorted {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.ID, r.Result, escapeCell(r.Obligation), escapeCell(r.Remark))
	}
	return b.String()
}

// escapeCell keeps text inside its cell of a markdown table.
func escapeCell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", ">", "&gt;").Replace(text)
}

func count(results []result, kind string) int {
	n := 0
	for _, r := range results {
		if r.Result == kind {
			n++
		}
	}
	return n
}

// passedRows are the rows that a page says passed; none when there is no page yet.
func passedRows(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(line, " | ")
		id, isRow := strings.CutPrefix(cells[0], "| ")
		if isRow && len(cells) > 2 && cells[1] == passed {
			rows[id] = true
		}
	}
	return rows, nil
}
