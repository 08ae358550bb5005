package certify

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// goodHandover acknowledged two volumes, which the log has.
func goodHandover() (*Handover, []*adminpb.Volume) {
	h := &Handover{To: "c2", TermBefore: 3, TermAfter: 4, Context: "epoch=1"}
	var volumes []*adminpb.Volume
	for _, n := range []string{"0", "1"} {
		c := Created{Name: testRun.Name("drill-0-" + n), ID: "hf-" + n, Repeated: []Call{{Through: "c3", Code: "OK", Volume: "hf-" + n}}}
		h.Created = append(h.Created, c)
		volumes = append(volumes, &adminpb.Volume{Id: c.ID, Name: c.Name})
	}
	return h, append(volumes, &adminpb.Volume{Id: "hf-9", Name: "pvc-9"})
}

func TestWhatIsAcknowledgedIsThereOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Handover, []*adminpb.Volume) []*adminpb.Volume
		says   string
	}{
		"good": {func(_ *Handover, v []*adminpb.Volume) []*adminpb.Volume { return v }, ""},
		"lost": {func(_ *Handover, v []*adminpb.Volume) []*adminpb.Volume { return v[1:] }, "does not have it"},
		"made twice": {func(_ *Handover, v []*adminpb.Volume) []*adminpb.Volume {
			return append(v, &adminpb.Volume{Id: "hf-8", Name: v[0].GetName()})
		}, "2 volumes have the name"},
		"another one": {func(h *Handover, v []*adminpb.Volume) []*adminpb.Volume { v[0].Id = "hf-8"; return v }, "the log has hf-8"},
		"repeated wrong": {func(h *Handover, v []*adminpb.Volume) []*adminpb.Volume {
			h.Created[1].Repeated[0].Volume = "hf-7"
			return v
		}, "controller c3 answered"},
		"repeated in vain": {func(h *Handover, v []*adminpb.Volume) []*adminpb.Volume {
			h.Created[1].Repeated[0].Code = "Aborted"
			return v
		}, "controller c3 answered"},
		"another context": {func(h *Handover, v []*adminpb.Volume) []*adminpb.Volume { h.Context = "epoch=2"; return v }, "context of a publication"},
		"the same term":   {func(h *Handover, v []*adminpb.Volume) []*adminpb.Volume { h.TermAfter = 3; return v }, "the term was 3 before and 3 after"},
	} {
		t.Run(name, func(t *testing.T) {
			h, volumes := goodHandover()
			h.Judge(testRun, tc.change(h, volumes), "epoch=1")
			if tc.says == "" {
				require.Empty(t, h.Problems)
				return
			}
			require.Len(t, h.Problems, 1)
			require.Contains(t, h.Problems[0], tc.says)
		})
	}
}

// report is one of a run that passed.
func report() *Report {
	h, _ := goodHandover()
	r := &Report{Format: Format, Cluster: "one", Run: testRun, By: "admin/ann", Ended: time.Now().UTC(), Plan: &Plan{Handovers: []string{"c2"}}, Handovers: []Handover{*h}, Limits: Limits(&Plan{}),
		Audits: []Audit{{When: "with <scratch> & volumes"}}}
	r.Rows = append(r.Rows, Row{ID: "CSI-CTRL-CreateVolume-02", Result: Passed}, Row{ID: "CSI-CTRL-CreateVolume-36", Result: NotPossible}, JudgeContext("epoch=1", r.Handovers))
	r.Conclude()
	return r
}

func TestNothingIsClaimedThatWasNotChecked(t *testing.T) {
	r := report()
	require.Equal(t, Passed, r.Result)
	require.Equal(t, len(SuiteRows()), r.NotChecked.Of)
	require.Equal(t, len(SuiteRows())-2, r.NotChecked.Count)
	require.Len(t, r.NotChecked.Rows, r.NotChecked.Count)
	require.Contains(t, r.NotChecked.Rows, "CSI-CTRL-CreateVolume-36", "it was not possible")
	require.NotContains(t, r.NotChecked.Rows, contextRow)
	require.Contains(t, r.Summary(), "PASSED")
	require.Contains(t, r.Summary(), "while 2 volumes were made, 0 of them by the leader before")
	r.Handovers[0].Created[0].Term, r.Handovers[0].Created[1].Term = 3, 4
	require.Contains(t, r.Summary(), "while 2 volumes were made, 1 of them by the leader before")
}

func TestWhatDidNotHoldFailsTheReport(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"a row":             func(r *Report) { r.Rows[0].Result = Failed },
		"a handover":        func(r *Report) { r.Handovers[0].Problems = []string{"lost"} },
		"an audit":          func(r *Report) { r.Audits[0].Found = []string{"an orphan"} },
		"a problem":         func(r *Report) { r.Problems = []string{"cut off"} },
		"a handover less":   func(r *Report) { r.Handovers = nil },
		"a restart less":    func(r *Report) { r.Plan.Restarts = []string{"c1"} },
		"without its plan":  func(r *Report) { r.Plan = nil },
		"without a context": func(r *Report) { r.Rows[2] = JudgeContext("", r.Handovers) },
		"another context":   func(r *Report) { r.Rows[2] = JudgeContext("epoch=2", r.Handovers) },
	} {
		r := report()
		change(r)
		r.Conclude()
		require.Equal(t, Failed, r.Result, name)
		require.Contains(t, r.Summary(), "FAILED", name)
	}
}

// issue makes a CA and the credentials of one identity.
func issue(t *testing.T, cluster string, role pki.Role) (*pki.Credentials, *pki.Trust, pki.Files) {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, pki.MakeCA(ca, cluster))
	files, err := pki.Issue(ca, filepath.Join(t.TempDir(), "certs"), pki.Identity{Role: role, Name: "ann"}, time.Hour)
	require.NoError(t, err)
	creds, err := pki.Load(files)
	require.NoError(t, err)
	trust, err := pki.TrustOf(ca)
	require.NoError(t, err)
	return creds, trust, files
}

func TestASealedReportIsReadAgain(t *testing.T) {
	creds, trust, files := issue(t, "one", pki.Admin)
	sealed, err := Seal(report(), creds.Sign)
	require.NoError(t, err)
	var spaced, compact bytes.Buffer
	require.NoError(t, json.Indent(&spaced, sealed, "  ", "\t"))
	require.NoError(t, json.Compact(&compact, sealed))
	for _, file := range [][]byte{sealed, sealed, spaced.Bytes(), compact.Bytes()} {
		got, by, err := Open(file, trust)
		require.NoError(t, err)
		require.Equal(t, report().NotChecked, got.NotChecked)
		require.Equal(t, "admin/ann", by.Actor())
	}
	key, err := os.ReadFile(files.Key)
	require.NoError(t, err)
	for line := range strings.Lines(string(key)) {
		require.NotContains(t, string(sealed), strings.TrimSpace(line), "the private key")
	}
}

func TestWhichReportsAreNotBelieved(t *testing.T) {
	creds, trust, _ := issue(t, "one", pki.Admin)
	viewer, trustsViewer, _ := issue(t, "one", pki.Viewer)
	_, otherTrust, _ := issue(t, "one", pki.Admin)
	seal := func(by *pki.Credentials, change func(*Report)) []byte {
		r := report()
		change(r)
		sealed, err := Seal(r, by.Sign)
		require.NoError(t, err)
		return sealed
	}
	same := func(*Report) {}
	good := seal(creds, same)
	for name, tc := range map[string]struct {
		file  []byte
		trust *pki.Trust
		says  string
	}{
		"altered":              {bytes.Replace(good, []byte(`"cluster_id": ""`), []byte(`"cluster_id": "x"`), 1), trust, "altered"},
		"a result altered":     {bytes.Replace(good, []byte(Passed), []byte("Passed"), 1), trust, "altered"},
		"another CA":           {good, otherTrust, "not of a CA"},
		"a viewer's":           {seal(viewer, same), trustsViewer, "only an admin"},
		"after it expired":     {seal(creds, func(r *Report) { r.Ended = r.Ended.Add(2 * time.Hour) }), trust, "was not valid on"},
		"in another's name":    {seal(creds, func(r *Report) { r.By = "admin/bob" }), trust, "admin/bob"},
		"of another cluster":   {seal(creds, func(r *Report) { r.Cluster = "two" }), trust, "in cluster two"},
		"another format":       {seal(creds, func(r *Report) { r.Format = 2 }), trust, "format 2"},
		"without a signature":  {bytes.Replace(good, []byte("BEGIN CERTIFICATE"), []byte("BEGIN X"), 1), trust, "no certificate"},
		"nothing":              {nil, trust, "no report"},
		"another document":     {[]byte(`{"kind":"Pod"}`), trust, "no report"},
		"two reports":          {bytes.Replace(good, []byte(`"report":`), []byte(`"report": {"result": "passed"}, "report":`), 1), trust, "altered"},
		"a second in capitals": {bytes.Replace(good, []byte(`"signature":`), []byte(`"REPORT": {"result": "passed"}, "signature":`), 1), trust, "altered"},
		"one in front":         {bytes.Replace(bytes.Replace(good, []byte(`"report":`), []byte(`"Report":`), 1), []byte("{"), []byte(`{"report": {"result": "passed"}, `), 1), trust, "altered"},
		"a note beside it":     {bytes.Replace(good, []byte(`"report":`), []byte(`"note": "valid until 2099", "report":`), 1), trust, "altered"},
		"half a file":          {good[:len(good)/2], trust, "no report"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, _, err := Open(tc.file, tc.trust)
				require.ErrorContains(t, err, tc.says)
			}
		})
	}
}
