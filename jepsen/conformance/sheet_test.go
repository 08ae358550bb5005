package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTablesThatDisagreeWithTheSheetAreRefused(t *testing.T) {
	rows := []row{{ID: "CSI-A-01"}, {ID: "CSI-A-02"}}
	test := map[string]rowTest{"CSI-A-01": func(*testing.T, *Env) {}}
	for name, tt := range map[string]struct {
		tests   map[string]rowTest
		reasons map[string]string
		lab     map[string]string
		wants   string
	}{
		"a test for no row":            {tests: map[string]rowTest{"CSI-B-01": test["CSI-A-01"]}, wants: "CSI-B-01, which is no row"},
		"a reason for no row":          {reasons: map[string]string{"CSI-B-01": "why"}, wants: "CSI-B-01 is not applicable and is no row"},
		"a test and a reason":          {tests: test, reasons: map[string]string{"CSI-A-01": "why"}, wants: "CSI-A-01 is not applicable and has a test"},
		"a test here, a reason there":  {tests: test, reasons: map[string]string{"CSI-A-02": "why"}},
		"the lab's, and no row":        {lab: map[string]string{"CSI-B-01": "Test"}, wants: "CSI-B-01 is of the lab and is no row"},
		"the lab's, and a test":        {tests: test, lab: map[string]string{"CSI-A-01": "Test"}, wants: "CSI-A-01 is of the lab, and has a test here"},
		"the lab's, and a reason":      {reasons: map[string]string{"CSI-A-01": "why"}, lab: map[string]string{"CSI-A-01": "Test"}, wants: "CSI-A-01 is of the lab"},
		"nothing yet for any row here": {},
	} {
		t.Run(name, func(t *testing.T) {
			err := tableErrors(rows, tt.tests, tt.reasons, tt.lab)
			if tt.wants == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.wants)
		})
	}
	_, err := mergeTables([]map[string]rowTest{test, test})
	require.ErrorContains(t, err, "CSI-A-01 has two tests")
}

func TestPassedRowsAreReadFromAPage(t *testing.T) {
	results := []result{
		{ID: "CSI-B-02", Result: passed, Obligation: "a | b"},
		{ID: "CSI-A-01", Result: failed},
		{ID: "CSI-A-02", Result: notApplicable, Remark: "passed | passed"},
		{ID: "ADD-A-01", Result: passed},
		{ID: "ADD-A-02", Result: inTheLab, Remark: "TestOfTheLab"},
	}
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, writeResults(path, results))
	got, err := passedRows(path)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"CSI-B-02": true, "ADD-A-01": true}, got)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(page), "| in the lab | 1 |")
	require.Contains(t, string(page), "| ADD-A-02 | in the lab |  | TestOfTheLab |")

	none, err := passedRows(filepath.Join(t.TempDir(), "none.md"))
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestEveryRowOfTheLabNamesItsTest(t *testing.T) {
	for text, wants := range map[string]string{"A-01,TestOfTheLab\n": "", "A-01,\n": "A-01 is there twice or names no test", "A-01,T\nA-01,T\n": "A-01 is there twice"} {
		path := filepath.Join(t.TempDir(), "lab.csv")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		lab, err := readLab(path)
		if wants == "" {
			require.NoError(t, err)
			require.Equal(t, map[string]string{"A-01": "TestOfTheLab"}, lab)
			continue
		}
		require.ErrorContains(t, err, wants)
	}
}
