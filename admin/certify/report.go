package certify

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format is the number of the report's form.
const Format = 1

// The results of a row, and of a report.
const (
	Passed      = "passed"
	Failed      = "failed"
	NotPossible = "not possible here" // of a row: the cluster has not what it needs
)

// Report says what a cluster was shown to do, and what was not looked at.
type Report struct {
	Format       int        `json:"format"`
	Cluster      string     `json:"cluster"` // as in its certificates
	ClusterID    string     `json:"cluster_id"`
	Incarnation  uint64     `json:"incarnation"`
	FeatureLevel uint32     `json:"feature_level"`
	Run          Run        `json:"run"`
	By           string     `json:"by"`      // the operator, as in the certificate that signs
	Version      string     `json:"version"` // of the program that asked
	Begun        time.Time  `json:"begun"`
	Ended        time.Time  `json:"ended"` // when it was signed
	Result       string     `json:"result"`
	Problems     []string   `json:"problems,omitempty"` // why it is failed, beside rows and handovers
	Plan         *Plan      `json:"plan"`
	Controllers  []Member   `json:"controllers"`
	Hosts        []Host     `json:"hosts"`
	Rows         []Row      `json:"rows"`
	NotChecked   NotChecked `json:"not_checked"`
	Handovers    []Handover `json:"handovers"`
	Writes       []Write    `json:"writes,omitempty"`
	Audits       []Audit    `json:"audits"`
	Hashes       []Hashes   `json:"hashes"`
	Limits       []string   `json:"limits"` // what the report says nothing of
}

// Member is a controller.
type Member struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Version string `json:"version"`
	Voter   bool   `json:"voter"`
}

// Host is a storage host.
type Host struct {
	Node    string `json:"node"`
	HostID  string `json:"host_id"`
	Version string `json:"version"`
}

// Row is a row of the conformance suite that was checked.
type Row struct {
	ID     string `json:"id"`
	Says   string `json:"says"`
	Result string `json:"result"`
	Why    string `json:"why,omitempty"` // it is not passed
	Calls  []Call `json:"calls,omitempty"`
}

// NotChecked are the rows that nothing is claimed of.
type NotChecked struct {
	Of    int      `json:"of"` // rows of the whole suite
	Count int      `json:"count"`
	Rows  []string `json:"rows"`
}

// Audit is how what the hosts hold compared with the log.
type Audit struct {
	When    string   `json:"when"`
	Index   uint64   `json:"index"`
	Checked uint64   `json:"checked"`
	Found   []string `json:"found,omitempty"`
}

// Limits are what a report of such a run says nothing of.
func Limits(p *Plan) []string {
	stopped := "no process was killed, no host was stopped, no network was cut and no disk failed: leadership was handed over on request"
	if restarted := p.restarted(); restarted != "" {
		stopped = "no host was stopped, no network was cut and no disk failed: leadership was handed over on request, and " + restarted + " were stopped and started anew"
	}
	copies, written := "scratch volumes have one copy: nothing is said of replication", "nothing was mounted or written on a host"
	if p.Writes != nil {
		copies = "scratch volumes beside those that pods wrote to have one copy, and no copy was lost: nothing is said of a failover"
		written = fmt.Sprintf("pods wrote on the hosts %s alone, and no power was lost: a block that was acknowledged may have been read from a host's memory", strings.Join(p.Writes.Hosts, ", "))
	}
	return []string{
		stopped,
		copies,
		written,
		"a refusal is that of CSI's controller service on a copy of the state at the index: the log has no entry of it",
		"the times are those of the machine that asked",
	}
}

// restarted is what the plan stops; empty: nothing.
func (p *Plan) restarted() string {
	var all []string
	if len(p.Restarts) > 0 {
		all = append(all, "controllers")
	}
	if len(p.Plugins) > 0 {
		all = append(all, "node plugins")
	}
	return strings.Join(all, " and ")
}

//go:embed rows.txt
var rowsText string

// SuiteRows are the ids of all rows of the conformance suite, in order.
func SuiteRows() []string { return strings.Fields(rowsText) }

// JudgeRows judges the rows of a check.
func JudgeRows(c *Check, o *Outcome, hosts int) (rows []Row) {
	for i, r := range c.Rows {
		row := Row{ID: r.ID, Says: r.Says, Result: Passed}
		if i == 0 {
			row.Calls = o.Calls // of all rows of the check
		}
		if hosts < r.Hosts {
			row.Result, row.Why = NotPossible, fmt.Sprintf("it needs %d hosts with room, and there are %d", r.Hosts, hosts)
		} else if why := r.Judge(o); why != "" {
			row.Result, row.Why = Failed, why
		}
		rows = append(rows, row)
	}
	return rows
}

// Conclude fills in what follows from the rest.
func (r *Report) Conclude() {
	known := map[string]bool{}
	r.Result = Passed
	for _, row := range r.Rows {
		known[row.ID] = row.Result != NotPossible
		if row.Result == Failed {
			r.Result = Failed
		}
	}
	suite := SuiteRows()
	r.NotChecked = NotChecked{Of: len(suite), Rows: slices.DeleteFunc(suite, func(id string) bool { return known[id] })}
	r.NotChecked.Count = len(r.NotChecked.Rows)
	for i := range r.Handovers {
		if len(r.Handovers[i].Problems) > 0 {
			r.Result = Failed
		}
	}
	for _, a := range r.Audits {
		if len(a.Found) > 0 {
			r.Result = Failed
		}
	}
	if len(r.Problems) > 0 || r.writesTrouble() != "" || r.Plan == nil || len(r.Handovers) < r.Plan.Disturbances() {
		r.Result = Failed
	}
}

// Summary is the report in a few lines.
func (r *Report) Summary() string {
	count := map[string]int{}
	var b strings.Builder
	for _, row := range r.Rows {
		if count[row.Result]++; row.Result == Failed {
			fmt.Fprintf(&b, "row %s: %s\n", row.ID, row.Why)
		}
	}
	made, former, restarts, plugins := 0, 0, 0, 0
	for i := range r.Handovers {
		h := &r.Handovers[i]
		if made, former = made+len(h.Created), former+h.byFormer(); h.Restarted != "" {
			restarts++
		}
		if h.Plugin != "" {
			plugins++
		}
		for _, p := range h.Problems {
			fmt.Fprintf(&b, "after %s: %s\n", h.what(), p)
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintln(&b, p)
	}
	fmt.Fprintf(&b, "cluster %s, run %s: %s\n", r.Cluster, r.Run, strings.ToUpper(r.Result))
	fmt.Fprintf(&b, "rows: %d passed, %d failed; of %d rows of the suite %d are not checked\n", count[Passed], count[Failed], r.NotChecked.Of, r.NotChecked.Count)
	fmt.Fprintf(&b, "leadership was handed over %d times, controllers were restarted %d times and node plugins %d times, while %d volumes were made, %d of them by the leader before\n",
		len(r.Handovers)-restarts-plugins, restarts, plugins, made, former)
	r.writesText(&b)
	return b.String()
}
