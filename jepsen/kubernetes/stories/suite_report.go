package stories

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// leftOut are the tests that the suite is told to leave out, by a word of their names, and why.
var leftOut = []struct{ Word, Why string }{
	{"Disruptive", "They stop and start kubelets and nodes over SSH, which the nodes of this cluster do not have. The stories kubelet-killed, node-dead and kills do that here."},
	{"SELinux", "They need nodes whose kernel enforces SELinux; this host's does not."},
	{"volumegroupsnapshottable", "They give one pod the snapshots of three volumes, which their StatefulSet spread over three nodes: a volume with one copy is on the node of its snapshot. The story group-snapshot has its volumes on one node."},
	{"any volume data source", "They need images of a controller that fills volumes, and of a validator of claims, which are of other projects and not built here."},
	{"SnapshotMetadata", "They need the sidecar external-snapshot-metadata, whose program cannot be built from a published module."},
}

// ofDriver is in the names of all tests of a driver that is described by a file.
const ofDriver = "External Storage"

// suiteTest is one test of a JUnit report.
type suiteTest struct {
	Name    string  `xml:"name,attr"`
	Status  string  `xml:"status,attr"`
	Time    float64 `xml:"time,attr"`
	Skipped *struct {
		Message string `xml:"message,attr"`
	} `xml:"skipped"`
}

// readSuite reads the tests of the driver from a JUnit report; all others of Kubernetes are in it too, as skipped.
func readSuite(path string) ([]suiteTest, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var report struct {
		Suites []struct {
			Tests []suiteTest `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var tests []suiteTest
	for _, suite := range report.Suites {
		for _, test := range suite.Tests {
			if strings.Contains(test.Name, ofDriver) {
				tests = append(tests, test)
			}
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("%s has no test of %s", path, ofDriver)
	}
	return tests, nil
}

// why says why a test did not run; empty: it ran.
func (t suiteTest) why() string {
	if t.Skipped == nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(t.Skipped.Message), "\n")
	if reason, ok := strings.CutPrefix(first, "skipped - "); ok {
		return reason
	}
	if first == "pending" {
		return "Kubernetes has it as pending"
	}
	for _, l := range leftOut {
		if strings.Contains(t.Name, l.Word) {
			return "left out: " + l.Word
		}
	}
	return "not in the focus of this run, or the run ended before it"
}

// writeSuite writes which tests ran and why the others did not, as Markdown, and returns how many there are of each result.
func writeSuite(path, title string, tests []suiteTest) (map[string]int, error) {
	results, reasons, ran := map[string]int{}, map[string]int{}, []suiteTest{}
	for _, test := range tests {
		if why := test.why(); why != "" {
			reasons[why]++
			results["skipped"]++
			continue
		}
		results[test.Status]++
		ran = append(ran, test)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n%d tests are of the driver: %s.\n", title, len(tests), counts(results))
	out.WriteString("\n## What is left out\n\n| tests with | why |\n|---|---|\n")
	for _, l := range leftOut {
		fmt.Fprintf(&out, "| %s | %s |\n", l.Word, l.Why)
	}
	out.WriteString("\n## Why tests did not run\n\n| tests | why |\n|---|---|\n")
	for _, why := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b))
	}) {
		fmt.Fprintf(&out, "| %d | %s |\n", reasons[why], strings.ReplaceAll(why, "|", "\\|"))
	}
	out.WriteString("\n## Tests that ran\n\n| result | seconds | test |\n|---|---|---|\n")
	// What failed comes first.
	slices.SortFunc(ran, func(a, b suiteTest) int {
		return cmp.Or(cmp.Compare(rank(a.Status), rank(b.Status)), strings.Compare(a.Name, b.Name))
	})
	for _, test := range ran {
		fmt.Fprintf(&out, "| %s | %.1f | %s |\n", test.Status, test.Time, strings.ReplaceAll(test.Name, "|", "\\|"))
	}
	return results, os.WriteFile(path, []byte(out.String()), 0o644)
}

func rank(status string) int {
	if status == "passed" {
		return 1
	}
	return 0
}

func counts(results map[string]int) string {
	var parts []string
	for _, result := range slices.Sorted(maps.Keys(results)) {
		parts = append(parts, fmt.Sprintf("%d %s", results[result], result))
	}
	return strings.Join(parts, ", ")
}
