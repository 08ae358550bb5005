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
		wants   string
	}{
		"a test for no row":            {tests: map[string]rowTest{"CSI-B-01": test["CSI-A-01"]}, wants: "CSI-B-01, which is no row"},
		"a reason for no row":          {reasons: map[string]string{"CSI-B-01": "why"}, wants: "CSI-B-01 is not applicable and is no row"},
		"a test and a reason":          {tests: test, reasons: map[string]string{"CSI-A-01": "why"}, wants: "CSI-A-01 is not applicable and has a test"},
		"a test here, a reason there":  {tests: test, reasons: map[string]string{"CSI-A-02": "why"}},
		"nothing yet for any row here": {},
	} {
		t.Run(name, func(t *testing.T) {
			err := tableErrors(rows, tt.tests, tt.reasons)
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
	}
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, writeResults(path, results, []unlisted{{Rows: "ADD-B-", Number: 3, Reason: "It is so."}}))
	got, err := passedRows(path)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"CSI-B-02": true, "ADD-A-01": true}, got)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(page), "Not listed yet: all rows that begin with ADD-B, 3 in number. It is so.")

	none, err := passedRows(filepath.Join(t.TempDir(), "none.md"))
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestWhatIsNotListedIsLeftOutByItsIDOrItsBeginning(t *testing.T) {
	rows := []row{{ID: "ADD-A-01"}, {ID: "ADD-B-01"}, {ID: "ADD-B-02"}, {ID: "ADD-BC-01"}, {ID: "ADD-C-01"}}
	listed, left := notListed{{"ADD-B-", "why"}, {"ADD-C-01", "so"}}.split(rows)
	require.Equal(t, []row{{ID: "ADD-A-01"}, {ID: "ADD-BC-01"}}, listed)
	require.Equal(t, []unlisted{{"ADD-B-", 2, "why"}, {"ADD-C-01", 1, "so"}}, left)
}
