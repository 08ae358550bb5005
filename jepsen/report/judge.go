package report

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// need is what a run must have had so that its passing means something.
type need struct {
	what    string
	atLeast int
	had     func() int
}

// Need says that the run must count so many; the first word about a count is replaced by a later one.
func (r *Run) Need(c catalog.Count, atLeast int) {
	r.add(need{string(c), atLeast, func() int { return r.Counts[c] }})
}

// NeedFault says that each fault must be injected at least once: the faults that the run is configured with.
func (r *Run) NeedFault(faults ...catalog.Fault) {
	for _, f := range faults {
		r.add(need{"fault " + string(f), 1, func() int { return r.Injected[f] }})
	}
}

// NeedWork says that each workload must have done something.
func (r *Run) NeedWork(workloads ...catalog.Workload) {
	for _, w := range workloads {
		r.add(need{"workload " + string(w), 1, func() int { return r.Worked[w] }})
	}
}

func (r *Run) add(n need) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.needs {
		if r.needs[i].what == n.what {
			r.needs[i] = n
			return
		}
	}
	r.needs = append(r.needs, n)
}

// Judge answers why the run fails, nil if it passed. It is empty, and fails, without operations, without checks, with a check that
// looked at nothing, and without something that was needed. A replay need not have what a whole run needs.
func (r *Run) Judge() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Problems = r.found()
	if !r.replay {
		r.Problems = append(r.Problems, r.missing()...)
	}
	if len(r.Problems) == 0 {
		return nil
	}
	errs := make([]error, 0, len(r.Problems))
	for _, p := range r.Problems {
		errs = append(errs, errors.New(p))
	}
	return fmt.Errorf("run %s: %w", r, errors.Join(errs...))
}

// Missing says what the run has not had yet of what it must have had, so that a layer can go on until it has.
func (r *Run) Missing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missing()
}

// found are the findings of the checks.
func (r *Run) found() (problems []string) {
	for _, v := range r.Verdicts {
		if v.Finding != "" {
			problems = append(problems, fmt.Sprintf("check %s: %s", v.Check, v.Finding))
		}
	}
	return problems
}

// missing is what makes the run an empty one.
func (r *Run) missing() (problems []string) {
	if len(r.Worked) == 0 {
		problems = append(problems, "empty: no operation")
	}
	if len(r.Verdicts) == 0 {
		problems = append(problems, "empty: no check")
	}
	for _, v := range r.Verdicts {
		if v.Looked == 0 && v.Finding == "" {
			problems = append(problems, fmt.Sprintf("empty: check %s looked at nothing", v.Check))
		}
	}
	for _, n := range r.needs {
		if had := n.had(); had < n.atLeast {
			problems = append(problems, fmt.Sprintf("empty: %s: %d of at least %d", n.what, had, n.atLeast))
		}
	}
	return problems
}
