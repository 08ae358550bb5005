package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-storage/holdfast/jepsen/model"
)

// Call is one call with its answer, in nanoseconds of one process's monotonic clock.
type Call struct {
	Client int          `json:"client"`
	Begin  int64        `json:"begin"`
	End    int64        `json:"end"`
	Input  model.Input  `json:"input"`
	Output model.Output `json:"output"`
}

// History collects calls from many clients. Each client has one call at a time.
type History struct {
	mu    sync.Mutex
	start time.Time
	calls []Call
}

// NewHistory returns an empty history that begins now.
func NewHistory() *History { return &History{start: time.Now()} }

// Do does one call and records it with its answer.
func (h *History) Do(client int, in model.Input, answer func() model.Output) model.Output {
	begin := time.Since(h.start).Nanoseconds()
	out := answer()
	call := Call{Client: client, Begin: begin, End: time.Since(h.start).Nanoseconds(), Input: in, Output: out}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
	return out
}

// Since is when the history began, and how long ago that is.
func (h *History) Since() (start time.Time, ago time.Duration) { return h.start, time.Since(h.start) }

// Calls returns a copy of the recorded calls.
func (h *History) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Call(nil), h.calls...)
}

// Count returns how many calls ended with each outcome.
func (h *History) Count() map[model.Outcome]int {
	n := map[model.Outcome]int{}
	for _, c := range h.Calls() {
		n[c.Output.Outcome]++
	}
	return n
}

// ErrUndecided: the checker ran out of time. Nothing is known, so the run has failed.
var ErrUndecided = errors.New("the checker did not end in time")

// Linearizable returns an error that contains a volume's name unless some order of the calls explains
// every answer. An undecided check within the time is an error too. On an error the calls on that name
// and a visualization are written to the directory.
func Linearizable(calls []Call, within time.Duration, folder string) error {
	m := model.Registry()
	end := time.Now().Add(within)
	calls = slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return !c.Input.Kind.Judged() })
	for _, part := range m.Partition(operations(calls)) {
		result, info := porcupine.CheckOperationsVerbose(m, part, max(time.Second, time.Until(end)))
		if result == porcupine.Ok {
			continue
		}
		name := part[0].Input.(model.Input).Name
		of := callsOn(calls, name)
		if result == porcupine.Unknown {
			return fmt.Errorf("%w: the %d calls on %s: %s", ErrUndecided, len(of), name, writeVisualization(m, info, of, folder))
		}
		return fmt.Errorf("the %d calls on %s are not linearizable (%s): %s", len(of), name, result, writeVisualization(m, info, of, folder))
	}
	return nil
}

// callsOn are the calls on one name, in the order in which they began.
func callsOn(calls []Call, name string) []Call {
	var of []Call
	for _, c := range calls {
		if c.Input.Name == name {
			of = append(of, c)
		}
	}
	slices.SortFunc(of, func(a, b Call) int { return cmp.Compare(a.Begin, b.Begin) })
	return of
}

// operations leaves out reads without an answer, and gives calls of unknown outcome no end.
func operations(calls []Call) []porcupine.Operation {
	var ops []porcupine.Operation
	for _, c := range calls {
		end := c.End
		if c.Output.Outcome == model.Unknown {
			if c.Input.Kind.Reads() {
				continue
			}
			end = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: c.Client, Input: c.Input, Call: c.Begin, Output: c.Output, Return: end})
	}
	return ops
}

// writeVisualization writes what is needed to understand a failure, and returns its path.
func writeVisualization(m porcupine.Model, info porcupine.LinearizationInfo, calls []Call, folder string) string {
	if folder == "" {
		return "not kept"
	}
	raw, err := json.MarshalIndent(calls, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "history.json"), raw, 0o600)
	}
	if err == nil {
		err = porcupine.VisualizePath(m, info, filepath.Join(folder, "history.html"))
	}
	if err != nil {
		return fmt.Sprintf("%s (incomplete: %v)", folder, err)
	}
	return "see " + folder
}
