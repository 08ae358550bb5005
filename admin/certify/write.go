package certify

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// BlockSize is that of one block that is written and made durable on a host.
const BlockSize = 4096

// Bounds of what is written on hosts.
const (
	MinWriteSize  = 16 << 20 // bytes, of a claim
	MaxWriteHosts = 32
	maxBlocks     = 16384 // that a file has before the first is overwritten
)

// WritePlan is what pods write on hosts, from before leadership is handed over until afterwards.
type WritePlan struct {
	Namespace  string   `json:"namespace"`
	Class      string   `json:"storage_class"`
	Replicated bool     `json:"replicated"` // what one host wrote is read by another one
	Image      string   `json:"image"`
	SizeBytes  int64    `json:"size_bytes"` // of each claim
	Hosts      []string `json:"hosts"`
	LeftOut    []string `json:"left_out,omitempty"`  // hosts on which nothing is written, and why
	Leftovers  []string `json:"leftovers,omitempty"` // of killed runs, which are removed first, as KIND NAMESPACE/NAME
}

// Write adds it to the plan, on so many of the plan's hosts at most. Another host may not be used, why says for which reason; empty: it
// may.
func (p *Plan) Write(w WritePlan, most int, why func(host string) string) error {
	for _, host := range p.Hosts {
		reason := why(host)
		if reason == "" && len(w.Hosts) == most {
			reason = fmt.Sprintf("%d are enough", most)
		}
		if reason != "" {
			w.LeftOut = append(w.LeftOut, host+": "+reason)
			continue
		}
		w.Hosts = append(w.Hosts, host)
	}
	if len(w.Hosts) == 0 {
		return errors.New("blocks can be written on no host: " + strings.Join(w.LeftOut, "; "))
	}
	p.Writes = &w
	return nil
}

// Blocks are how many different ones a writer has: half of a claim, as a filesystem takes room too.
func (w *WritePlan) Blocks() uint64 { return min(uint64(w.SizeBytes)/2/BlockSize, maxBlocks) }

// text is the plan for people.
func (w *WritePlan) text(b *strings.Builder) {
	for _, one := range w.Leftovers {
		fmt.Fprintf(b, "first %s is removed, which a killed run left\n", one)
	}
	fmt.Fprintf(b, "meanwhile a pod on each of the hosts %s writes blocks, each durable before the next, to a claim of %d bytes of the class %s in the namespace %s; the pods run %s\n",
		strings.Join(w.Hosts, ", "), w.SizeBytes, w.Class, w.Namespace, w.Image)
	for _, why := range w.LeftOut {
		fmt.Fprintf(b, "nothing is written on host %s\n", why)
	}
	where := "the same host"
	if w.Replicated {
		where = "another host with a copy"
	}
	fmt.Fprintf(b, "afterwards each of these volumes is unmounted, and a second pod on %s reads every acknowledged block back; claims and pods are removed\n", where)
}

// Acknowledged is what a writer says of itself: all blocks up to the number are durable.
type Acknowledged struct {
	Number       uint64        `json:"acknowledged"`
	Longest      time.Duration `json:"longest_pause"`       // between two of them, in nanoseconds
	LongestAfter uint64        `json:"longest_pause_after"` // the number of the first of the two
}

// ReadBack is what a reader says that it found.
type ReadBack struct {
	Read    uint64   `json:"read"`    // blocks that are whole, and no older than what was acknowledged last in their place
	Highest uint64   `json:"highest"` // number that it found
	Missing uint64   `json:"missing"` // acknowledged blocks that are not there
	Says    []string `json:"says,omitempty"`
}

// Write is what was written on one host, and what of it was there afterwards.
type Write struct {
	Host   string    `json:"host"`
	Class  string    `json:"storage_class"`
	Claim  string    `json:"claim"` // as NAMESPACE/NAME
	Volume string    `json:"volume"`
	Copies []string  `json:"copies"` // hosts that have the volume's data
	Begun  time.Time `json:"begun"`
	Ended  time.Time `json:"ended"`

	Acknowledged

	ReadOn   string   `json:"read_on"` // the host where a second pod read it back, after nobody had it mounted
	ReadBack ReadBack `json:"read_back"`
	Verified bool     `json:"verified"`
	Why      string   `json:"why,omitempty"` // it is not verified
}

// Judge says whether every acknowledged block was there, as far as no later one was written in its place, of so many places.
func (w *Write) Judge(blocks uint64) {
	r := &w.ReadBack
	switch {
	case w.Number == 0:
		w.Why = "no block was acknowledged"
	case r.Missing > 0:
		w.Why = fmt.Sprintf("%d acknowledged blocks are missing: %s", r.Missing, strings.Join(r.Says, "; "))
	case r.Read < min(w.Number, blocks) || r.Highest < w.Number:
		w.Why = fmt.Sprintf("%d blocks up to %d were read back, of %d that were acknowledged", r.Read, r.Highest, w.Number)
	}
	w.Verified = w.Why == ""
}

// writesTrouble says what the writes leave to be shown; empty: nothing.
func (r *Report) writesTrouble() string {
	switch {
	case r.Plan == nil || r.Plan.Writes == nil:
		return ""
	case len(r.Writes) < len(r.Plan.Writes.Hosts):
		return fmt.Sprintf("blocks were read back on %d hosts, of %d", len(r.Writes), len(r.Plan.Writes.Hosts))
	}
	for i := range r.Writes {
		if w := &r.Writes[i]; !w.Verified {
			return "host " + w.Host + ": " + w.Why
		}
	}
	return ""
}

// writesText are the writes for people.
func (r *Report) writesText(b *strings.Builder) {
	if r.Plan == nil || r.Plan.Writes == nil {
		return
	}
	var acknowledged, verified uint64
	var longest time.Duration
	for i := range r.Writes {
		w := &r.Writes[i]
		acknowledged, longest = acknowledged+w.Number, max(longest, w.Longest)
		outcome := "verified on host " + w.ReadOn
		if w.Verified {
			verified++
		} else {
			outcome = "NOT VERIFIED: " + w.Why
		}
		fmt.Fprintf(b, "host %s, class %s, volume %s: %d writes acknowledged, longest pause %s, %s\n", w.Host, w.Class, w.Volume, w.Number, round(w.Longest), outcome)
	}
	fmt.Fprintf(b, "pods wrote on %d hosts meanwhile: %d writes were acknowledged, with pauses of up to %s, and %d of %d volumes had all of theirs afterwards\n",
		len(r.Writes), acknowledged, round(longest), verified, len(r.Plan.Writes.Hosts))
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
