package certify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// World is where checks are made.
type World struct {
	Run         Run
	SizeBytes   int64
	Hosts       []string // that get scratch volumes, at least one
	Controllers int
}

// host is one of the hosts; where there are fewer, the request is not made.
func (w World) host(i int) string {
	if i >= len(w.Hosts) {
		return ""
	}
	return w.Hosts[i]
}

// Request is one request of a check.
type Request struct {
	*adminpb.VolumeChangeRequest

	PlanOnly bool // asked as a plan, which changes nothing whatever is answered
	Through  int  // the controller that is asked, counted around
	AtOnce   int  // how often it is made at the same moment, each through the next controller; 0: once
	As       string
}

// Call is a request, and how it was answered.
type Call struct {
	As       string `json:"as,omitempty"` // what the request is in its check
	Verb     string `json:"verb"`
	Name     string `json:"name"` // of the volume
	Node     string `json:"node,omitempty"`
	Through  string `json:"through"` // the controller that was asked
	PlanOnly bool   `json:"plan_only,omitempty"`
	Code     string `json:"code"` // of CSI's answer
	Message  string `json:"message,omitempty"`
	Index    uint64 `json:"index,omitempty"`   // of the state that the answer is of
	Volume   string `json:"volume,omitempty"`  // the id
	Created  string `json:"created,omitempty"` // where in the log the volume was made
	Size     int64  `json:"size_bytes,omitempty"`
	Context  string `json:"publish_context,omitempty"`
}

// Outcome is what came of a check.
type Outcome struct {
	Calls  []Call
	Listed map[string]int // volumes of the run by name, when all calls had been answered
}

// as are the calls of one request.
func (o *Outcome) as(what string) (calls []Call) {
	for _, c := range o.Calls {
		if c.As == what {
			calls = append(calls, c)
		}
	}
	return calls
}

// RowCheck judges one row of the conformance suite.
type RowCheck struct {
	ID    string
	Says  string                // what of the row is shown
	Hosts int                   // that it needs; 0: one
	Judge func(*Outcome) string // what is wrong; empty: it holds
}

// Check is a row of requests, and what they show.
type Check struct {
	Name     string
	Rows     []RowCheck
	Requests func(World) []Request
}

// creates are the names of the volumes that it makes.
func (c *Check) creates(w World) map[string]bool {
	names := map[string]bool{}
	for _, r := range c.Requests(w) {
		if r.GetVerb() == "create" && !r.PlanOnly {
			names[r.GetVolume()] = true
		}
	}
	return names
}

// The requests. Each is of a volume of the run.
func (w World) create(what string) *adminpb.VolumeChangeRequest {
	return &adminpb.VolumeChangeRequest{Verb: "create", Volume: w.Run.Name(what), SizeBytes: w.SizeBytes, Node: w.host(0), Reason: w.Run.Reason()}
}

func (w World) of(verb, what string) *adminpb.VolumeChangeRequest {
	return &adminpb.VolumeChangeRequest{Verb: verb, Volume: w.Run.Name(what), Reason: w.Run.Reason()}
}

func (w World) at(verb, what, node string) *adminpb.VolumeChangeRequest {
	r := w.of(verb, what)
	r.Node = node
	return r
}

func changed(r *adminpb.VolumeChangeRequest, change func(*adminpb.VolumeChangeRequest)) *adminpb.VolumeChangeRequest {
	change(r)
	return r
}

// throughAll makes a request through every controller, one after another.
func (w World) throughAll(as string, make func() *adminpb.VolumeChangeRequest) (all []Request) {
	for i := range max(w.Controllers, 1) + 1 { // the first is asked again
		all = append(all, Request{VolumeChangeRequest: make(), Through: i, As: as})
	}
	return all
}

// coded judges that there were calls of a request, and that each was answered by one of the codes.
func coded(as string, codes ...string) func(*Outcome) string {
	return func(o *Outcome) string {
		calls := o.as(as)
		if len(calls) == 0 {
			return "it was not asked"
		}
		for _, c := range calls {
			if !slices.Contains(codes, c.Code) {
				return fmt.Sprintf("%s answered %s instead of %s: %s", c.Through, orNothing(c.Code), strings.Join(codes, " or "), c.Message)
			}
		}
		return ""
	}
}

func orNothing(code string) string {
	if code == "" {
		return "without asking CSI"
	}
	return code
}

// all judges that all judge well: the first that does not says why.
func all(judges ...func(*Outcome) string) func(*Outcome) string {
	return func(o *Outcome) string {
		for _, judge := range judges {
			if why := judge(o); why != "" {
				return why
			}
		}
		return ""
	}
}

// same judges that the answers to a request are alike in a value, which none lacks.
func same(as, what string, value func(Call) string) func(*Outcome) string {
	return func(o *Outcome) string {
		calls := o.as(as)
		for _, c := range calls {
			if value(c) == "" || value(c) != value(calls[0]) {
				return fmt.Sprintf("%s answered %s %q, and %s %q", calls[0].Through, what, value(calls[0]), c.Through, value(c))
			}
		}
		return ""
	}
}

// once judges that the name of a request is that of one volume.
func once(as string) func(*Outcome) string {
	return func(o *Outcome) string {
		for _, c := range o.as(as) {
			if n := o.Listed[c.Name]; n != 1 {
				return fmt.Sprintf("%d volumes have the name %s", n, c.Name)
			}
		}
		return ""
	}
}

func volumeOf(c Call) string  { return c.Volume }
func sizeOf(c Call) string    { return fmt.Sprint(c.Size) }
func contextOf(c Call) string { return c.Context }

// beyondLargest is a size above that of the largest volume.
const beyondLargest = fsm.MaxVolumeSize + fsm.VolumeSizeUnit
