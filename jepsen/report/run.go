package report

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// Run is the record of one run. Its zero value is of no use: New makes one. Everything exported is as the line of JSON has it, and is
// read by others only after the run ended.
type Run struct {
	Layer      catalog.Layer            `json:"layer"`
	Name       string                   `json:"name"`           // which test or campaign
	Seed       string                   `json:"seed,omitempty"` // what replays it, as in sim:17
	Began      time.Time                `json:"began"`
	Took       time.Duration            `json:"took_ns"` // on the layer's clock
	Counts     map[catalog.Count]int    `json:"counts"`
	Injected   map[catalog.Fault]int    `json:"faults"`
	Worked     map[catalog.Workload]int `json:"operations"`
	Verdicts   []Verdict                `json:"verdicts"`
	Problems   []string                 `json:"problems"` // what Judge found, none in a run that passed
	Operations []Operation              `json:"-"`
	Faults     []Span                   `json:"-"`
	Leaders    []Leader                 `json:"-"`
	Outages    []Span                   `json:"-"`
	Texts      []Text                   `json:"-"`
	Pages      []Text                   `json:"-"`

	mu     sync.Mutex
	replay bool
	needs  []need
}

// Operation is one call of a client.
type Operation struct {
	Client   int
	Workload catalog.Workload
	What     string // the call and what it was answered
	From, To time.Duration
	Outcome  Outcome
}

// Outcome is how an operation ended for its client.
type Outcome int

// The outcomes.
const (
	OK      Outcome = iota + 1
	Refused         // the answer is a decision: nothing was done
	Unknown         // it may have been done
)

// Span is a fault, or a time in which nobody served.
type Span struct {
	What, Where string
	From, To    time.Duration
}

// Leader is a member from when it led; a later Leader ends it.
type Leader struct {
	Member string
	Term   uint64
	At     time.Duration
}

// Verdict is what one check found: nothing, or why the run fails.
type Verdict struct {
	Check   catalog.Check `json:"check"`
	Looked  int           `json:"looked"` // at how many things; a check that looked at nothing fails
	Finding string        `json:"finding,omitempty"`
}

// Text is something to read beside the timeline: a log, a story, a picture as HTML.
type Text struct{ Title, Content string }

// New begins the record of a run of the layer. The seed is what `make jepsen-replay SEED=` takes, or empty.
func New(layer catalog.Layer, name, seed string) *Run {
	r := &Run{
		Layer: layer, Name: name, Seed: seed, Began: time.Now().UTC(),
		Counts: map[catalog.Count]int{}, Injected: map[catalog.Fault]int{}, Worked: map[catalog.Workload]int{},
	}
	for _, c := range catalog.ServedBy(layer).Counts {
		r.Need(c, 1)
	}
	return r
}

// Replay says that the run repeats a part of another: what a whole run needs it need not have.
func (r *Run) Replay() { r.replay = true }

// Operation adds a call of a client. Beyond what a page can show, calls are counted only.
func (r *Run) Operation(op Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Worked[op.Workload]++
	switch op.Outcome {
	case OK:
		r.Counts[catalog.Acknowledgements]++
	case Unknown:
		r.Counts[catalog.UnknownOutcomes]++
	}
	r.Took = max(r.Took, op.To)
	if len(r.Operations) < shownOperations {
		r.Operations = append(r.Operations, op)
	}
}

// Fault adds a fault that was injected, where it was, and from when to when: the same twice for one without a duration.
func (r *Run) Fault(f catalog.Fault, where string, from, to time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Injected[f]++
	r.Took = max(r.Took, to)
	if len(r.Faults) < shownFaults {
		r.Faults = append(r.Faults, Span{What: string(f), Where: where, From: from, To: to})
	}
}

// Leader adds that the member was elected, and counts an election.
func (r *Run) Leader(member string, term uint64, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Counts[catalog.Elections]++
	r.Took = max(r.Took, at)
	if len(r.Leaders) < shownFaults {
		r.Leaders = append(r.Leaders, Leader{Member: member, Term: term, At: at})
	}
}

// Unavailable adds a time in which no call was answered.
func (r *Run) Unavailable(where string, from, to time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Took = max(r.Took, to)
	r.Outages = append(r.Outages, Span{What: "unavailable", Where: where, From: from, To: to})
}

// Count adds to what the run counts.
func (r *Run) Count(c catalog.Count, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Counts[c] += n
}

// SetCount says how many there were so far, where a layer counts anew each time.
func (r *Run) SetCount(c catalog.Count, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Counts[c] = n
}

// CountFault adds faults that no timeline needs, as those of a thousand seeds.
func (r *Run) CountFault(f catalog.Fault, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Injected[f] += n
}

// CountWork adds operations that no timeline needs.
func (r *Run) CountWork(w catalog.Workload, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Worked[w] += n
}

// Check adds what a check found after it looked at so many things; a nil error is nothing.
func (r *Run) Check(c catalog.Check, looked int, err error) {
	v := Verdict{Check: c, Looked: looked}
	if err != nil {
		v.Finding = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Verdicts = append(r.Verdicts, v)
}

// Attach adds a text to read: a log, a failing seed's story.
func (r *Run) Attach(title, content string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Texts = append(r.Texts, Text{title, content})
}

// AttachPage adds a whole HTML page that stands for itself, as porcupine's picture of a history.
func (r *Run) AttachPage(title, html string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Pages = append(r.Pages, Text{title, html})
}

// String names the run in a line of a log.
func (r *Run) String() string {
	return fmt.Sprintf("%s %s %s", r.Layer, r.Name, r.Seed)
}
