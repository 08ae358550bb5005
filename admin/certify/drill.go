package certify

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Handover is leadership that was handed over in the middle of creations, on request or because the one who had it was restarted.
type Handover struct {
	From       string    `json:"from"`
	To         string    `json:"to"` // empty: whoever was elected
	Restarted  string    `json:"restarted,omitempty"`
	Plugin     string    `json:"node_plugin,omitempty"` // the host whose node plugin was restarted, and nobody's leadership asked for
	TermBefore uint64    `json:"term_before"`
	TermAfter  uint64    `json:"term_after"`
	Begun      time.Time `json:"begun"`
	Ended      time.Time `json:"ended"`
	Created    []Created `json:"created"`
	Context    string    `json:"publish_context"` // of the volume that stays published throughout
	Problems   []string  `json:"problems,omitempty"`
}

// Created is a volume that was acknowledged while leadership moved.
type Created struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	At       string   `json:"at"`       // where in the log it was made
	Term     uint64   `json:"term"`     // of the leader that made it; 0: the journal does not have the entry any more
	Through  []string `json:"through"`  // controllers that were asked until one acknowledged it, the last
	Repeated []Call   `json:"repeated"` // the same request through every other controller afterwards
}

// Judge says what is wrong, by the volumes that the log has afterwards.
func (h *Handover) Judge(run Run, volumes []*adminpb.Volume, context string) {
	ids := map[string][]string{}
	for _, v := range volumes {
		if run.Owns(v.GetName()) {
			ids[v.GetName()] = append(ids[v.GetName()], v.GetId())
		}
	}
	for i := range h.Created {
		if why := h.Created[i].judge(ids[h.Created[i].Name]); why != "" {
			h.Problems = append(h.Problems, why)
		}
	}
	if context != h.Context {
		h.Problems = append(h.Problems, fmt.Sprintf("the context of a publication was %q before and %q after", context, h.Context))
	}
	if h.TermAfter <= h.TermBefore && h.Plugin == "" && (h.Restarted == "" || h.Restarted == h.From) {
		h.Problems = append(h.Problems, fmt.Sprintf("the term was %d before and %d after", h.TermBefore, h.TermAfter))
	}
}

func (c *Created) judge(ids []string) string {
	switch {
	case len(ids) == 0:
		return fmt.Sprintf("volume %s was acknowledged as %s, and the log does not have it", c.Name, c.ID)
	case len(ids) > 1:
		return fmt.Sprintf("%d volumes have the name %s: %v", len(ids), c.Name, ids)
	case ids[0] != c.ID:
		return fmt.Sprintf("volume %s was acknowledged as %s, and the log has %s", c.Name, c.ID, ids[0])
	}
	i := slices.IndexFunc(c.Repeated, func(r Call) bool { return r.Code != "OK" || r.Volume != c.ID })
	if i < 0 {
		return ""
	}
	r := c.Repeated[i]
	return fmt.Sprintf("volume %s is %s, and controller %s answered the same request with %s %s %s", c.Name, c.ID, r.Through, r.Code, r.Volume, r.Message)
}

// TermOf takes in one message of a volume's history: the term of the entry that made it, 0 until it came.
func TermOf(before uint64, id string, m *adminpb.HistoryResponse) uint64 {
	if o := OriginOf(Origin{}, id, m); before == 0 && o.Known {
		return m.GetEntry().GetTerm()
	}
	return before
}

// what names it for people.
func (h *Handover) what() string {
	switch {
	case h.Restarted != "":
		return "the restart of " + h.Restarted
	case h.Plugin != "":
		return "the restart of the node plugin of " + h.Plugin
	}
	return "leadership went to " + h.To
}

// byFormer counts the volumes that were made in the term before the handover.
func (h *Handover) byFormer() (n int) {
	for i := range h.Created {
		if term := h.Created[i].Term; term != 0 && term <= h.TermBefore {
			n++
		}
	}
	return n
}

// contextRow is the row that the handovers show, together.
const contextRow = "CSI-CTRL-ControllerPublishVolume-13"

// JudgeContext judges that a publication's context stayed the same through all handovers.
func JudgeContext(context string, handovers []Handover) Row {
	row := Row{ID: contextRow, Says: "the context of a publication is the same after every handover of leadership", Result: Passed}
	if context == "" || len(handovers) == 0 {
		row.Result, row.Why = Failed, "nothing was published through a handover"
	}
	for i := range handovers {
		if h := &handovers[i]; h.Context != context {
			row.Result, row.Why = Failed, fmt.Sprintf("it was %q, and %q after %s", context, h.Context, h.what())
		}
	}
	return row
}
