package certify

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var testRun = Run("0123456789abcdef")

func testWorld(hosts ...string) World {
	return World{Run: testRun, SizeBytes: MinSize, Hosts: hosts, Controllers: 3}
}

func TestTheRowsAreThoseOfTheSuite(t *testing.T) {
	file, err := os.Open("../../jepsen/conformance/rows.csv")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	records, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	var ids []string
	for _, r := range records[1:] {
		ids = append(ids, r[0])
	}
	slices.Sort(ids)
	require.Equal(t, ids, SuiteRows())
}

func TestEachRowIsCheckedOnceAndIsOneOfTheSuite(t *testing.T) {
	seen := map[string]bool{contextRow: true}
	for _, c := range Checks() {
		for _, r := range c.Rows {
			require.False(t, seen[r.ID], r.ID)
			seen[r.ID] = true
			require.NotEmpty(t, r.Says)
		}
	}
	for id := range seen {
		require.Contains(t, SuiteRows(), id)
	}
}

// Whatever is asked for is a scratch volume of the run, and what would take a whole pool is never carried out.
func TestEveryRequestIsOfAScratchVolumeOfTheRun(t *testing.T) {
	for _, w := range []World{testWorld("n1"), testWorld("n1", "n2")} {
		for _, c := range Checks() {
			for _, q := range c.Requests(w) {
				require.True(t, w.Run.Owns(q.GetVolume()), "%s: %q", c.Name, q.GetVolume())
				require.Equal(t, w.Run, runOf(q.GetVolume()))
				require.False(t, q.GetEvenIfOrchestrated())
				require.Empty(t, q.GetFromVolume()+q.GetFromSnapshot())
				require.Equal(t, w.Run.Reason(), q.GetReason())
				if !q.PlanOnly {
					require.LessOrEqual(t, q.GetSizeBytes(), 2*w.SizeBytes)
				}
			}
		}
	}
}

func TestNamesAreAsLongAsTheySay(t *testing.T) {
	w := testWorld("n1")
	for _, bytes := range []int{maxName, maxName + 1} {
		for _, with := range []string{"n", "é"} {
			name := w.Run.Name(w.filled(with, bytes))
			require.Len(t, name, bytes)
			require.True(t, utf8.ValidString(name))
			require.Equal(t, with == "é", utf8.RuneCountInString(name) < maxName)
		}
	}
	require.Len(t, bannedRunes(), 9+2+18+33)
}

// answer answers each request as a cluster that conforms does.
func answer(w World, c *Check) *Outcome {
	o := &Outcome{Listed: map[string]int{}}
	for _, q := range c.Requests(w) {
		for range max(q.AtOnce, 1) {
			call := Call{As: q.As, Verb: q.GetVerb(), Name: q.GetVolume(), Node: q.GetNode(), Through: "c1", Code: expected[c.Name+"/"+q.As], Message: "published to node n1", Volume: "hf-1", Size: 1, Context: "epoch=1"}
			if call.Code == "" {
				call.Code = "OK"
			}
			if call.Verb == "create" && call.Code == "OK" {
				o.Listed[call.Name] = 1
			}
			if call.Verb == "delete" && call.Code == "OK" {
				delete(o.Listed, call.Name)
			}
			o.Calls = append(o.Calls, call)
		}
	}
	return o
}

// expected are the answers of a cluster that conforms, where they are not OK.
var expected = map[string]string{
	"names/129 bytes": "InvalidArgument", "names/129 bytes in fewer characters": "InvalidArgument", "characters that no name may have/banned": "InvalidArgument",
	"the name of a volume that is otherwise/size": "AlreadyExists", "the name of a volume that is otherwise/block": "AlreadyExists",
	"the name of a volume that is otherwise/parameters": "AlreadyExists", "the name of a volume that is otherwise/host": "AlreadyExists",
	"requests that nothing can satisfy/unknown parameter": "InvalidArgument", "requests that nothing can satisfy/beyond the largest": "OutOfRange",
	"requests that nothing can satisfy/no room": "ResourceExhausted",
	"a volume is published/read-only":           "AlreadyExists", "a volume is published/delete": "FailedPrecondition", "a volume is published/elsewhere": "FailedPrecondition",
	"a volume is expanded/beyond the largest": "OutOfRange",
}

func TestAClusterThatConformsPassesEveryRow(t *testing.T) {
	for _, c := range Checks() {
		for _, r := range JudgeRows(&c, answer(testWorld("n1", "n2"), &c), 2) {
			require.Equal(t, Passed, r.Result, "%s: %s", r.ID, r.Why)
		}
		for i, r := range JudgeRows(&c, answer(testWorld("n1"), &c), 1) {
			require.Equal(t, c.Rows[i].Hosts > 1, r.Result == NotPossible, r.ID)
		}
	}
}

// Each row is failed by some answer: another code to any one of its calls, which no row takes.
func TestNoRowPassesWhateverIsAnswered(t *testing.T) {
	for _, c := range Checks() {
		failed := map[string]bool{}
		for i := range answer(testWorld("n1", "n2"), &c).Calls {
			o := answer(testWorld("n1", "n2"), &c)
			o.Calls[i].Code = "Internal"
			for _, r := range JudgeRows(&c, o, 2) {
				failed[r.ID] = failed[r.ID] || r.Result == Failed
			}
		}
		for _, r := range c.Rows {
			require.True(t, failed[r.ID], "%s fails for no code", r.ID)
		}
	}
}

func TestAnswersThatDifferFailTheirRows(t *testing.T) {
	for name, tc := range map[string]struct {
		check  Check
		change func(*Outcome)
		row    string
	}{
		"another id":       {repeatedCheck, func(o *Outcome) { o.Calls[1].Volume = "hf-2" }, "CSI-CTRL-CreateVolume-02"},
		"another size":     {repeatedCheck, func(o *Outcome) { o.Calls[1].Size = 2 }, "CSI-CTRL-CreateVolume-02"},
		"two of one name":  {repeatedCheck, func(o *Outcome) { o.Listed[testRun.Name("repeated")] = 2 }, "CSI-CTRL-CreateVolume-04"},
		"two at once":      {atOnceCheck, func(o *Outcome) { o.Listed[testRun.Name("at-once")] = 2 }, "CSI-GEN-Conc-01"},
		"none":             {repeatedCheck, func(o *Outcome) { clear(o.Listed) }, "CSI-CTRL-CreateVolume-04"},
		"a deleted one":    {deletedCheck, func(o *Outcome) { o.Listed[testRun.Name("deleted")] = 1 }, "CSI-CTRL-DeleteVolume-03"},
		"another context":  {publishedCheck, func(o *Outcome) { o.Calls[2].Context = "epoch=2" }, "CSI-CTRL-ControllerPublishVolume-03"},
		"no context":       {publishedCheck, func(o *Outcome) { o.Calls[1].Context = "" }, "CSI-CTRL-ControllerPublishVolume-24"},
		"a long context":   {publishedCheck, func(o *Outcome) { o.Calls[1].Context = strings.Repeat("x", 4097) }, "CSI-CTRL-ControllerPublishVolume-12"},
		"an unnamed node":  {publishedCheck, func(o *Outcome) { blank(o) }, "CSI-CTRL-ControllerPublishVolume-20"},
		"a smaller volume": {expandedCheck, func(o *Outcome) { o.Calls[3].Size = 0 }, "CSI-CTRL-ControllerExpandVolume-02"},
		"not asked":        {repeatedCheck, func(o *Outcome) { o.Calls = nil }, "CSI-CTRL-CreateVolume-02"},
		"not asked of CSI": {repeatedCheck, func(o *Outcome) { o.Calls[0].Code = "" }, "CSI-CTRL-CreateVolume-02"},
	} {
		t.Run(name, func(t *testing.T) {
			o := answer(testWorld("n1", "n2"), &tc.check)
			tc.change(o)
			rows := JudgeRows(&tc.check, o, 2)
			at := slices.IndexFunc(rows, func(r Row) bool { return r.ID == tc.row })
			require.Equal(t, Failed, rows[at].Result)
			require.NotEmpty(t, rows[at].Why)
		})
	}
}

// blank takes the node out of the messages.
func blank(o *Outcome) {
	for i := range o.Calls {
		o.Calls[i].Message = "it is in use"
	}
}
