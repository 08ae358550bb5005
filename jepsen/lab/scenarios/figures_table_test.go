package scenarios

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is one row of the table.
type figure struct {
	goal, unit string
	values     []float64
	// must is the figure's requirement in words, met whether sorted values meet it; nil where there is none.
	must string
	met  func(sorted []float64) bool
}

// table is what is measured.
type table struct{ rows []*figure }

// row is the row of a goal, which is made when it is first asked for.
func (tb *table) row(goal, unit string) *figure {
	for _, f := range tb.rows {
		if f.goal == goal {
			return f
		}
	}
	f := &figure{goal: goal, unit: unit}
	tb.rows = append(tb.rows, f)
	return f
}

func (f *figure) add(values ...float64) { f.values = append(f.values, values...) }

func (f *figure) addDuration(d time.Duration) { f.add(d.Seconds()) }

// below asks for a median below a limit.
func (f *figure) below(limit float64) *figure {
	f.must, f.met = fmt.Sprintf("median < %g %s", limit, f.unit), func(sorted []float64) bool { return median(sorted) < limit }
	return f
}

// around asks for a value between the least but one and the greatest but one, which of ten
// values hold the true median in 49 of 50 cases, or at most 5 % from the median.
func (f *figure) around(value float64) *figure {
	f.must = fmt.Sprintf("%g, within the spread", value)
	f.met = func(sorted []float64) bool {
		n, edge := len(sorted), min(1, (len(sorted)-1)/2)
		return sorted[edge] <= value && value <= sorted[n-1-edge] || math.Abs(median(sorted)-value) <= 0.05*value
	}
	return f
}

func median(sorted []float64) float64 {
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// missed are the goals that were measured and not met.
func (tb *table) missed() []string {
	var all []string
	for _, f := range tb.rows {
		if sorted := slices.Sorted(slices.Values(f.values)); f.met != nil && len(sorted) > 0 && !f.met(sorted) {
			all = append(all, f.goal)
		}
	}
	return all
}

// print writes one line for each figure.
func (tb *table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "goal\tmeasured: median (least to greatest, n)\tmust\t")
	for _, f := range tb.rows {
		measured, verdict := "not measured", ""
		if sorted := slices.Sorted(slices.Values(f.values)); len(sorted) > 0 {
			measured = fmt.Sprintf("%.4g %s (%.4g to %.4g, %d)", median(sorted), f.unit, sorted[0], sorted[len(sorted)-1], len(sorted))
			if f.met != nil {
				verdict = map[bool]string{true: "met", false: "MISSED"}[f.met(sorted)]
			}
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.goal, measured, f.must, verdict)
	}
	_ = w.Flush() // to a terminal
	load, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Fprintf(out, "the machine's load was %s at the end\n", strings.TrimSpace(string(load)))
}
