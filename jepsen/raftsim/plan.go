package raftsim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// Plan is what a seed decides: how large the cluster is, which log store it has, and which faults happen
// when and for how long.
type Plan struct {
	Seed              uint64
	Kind              string // of log store
	Members           int
	SnapshotThreshold uint64
	Steps             []Step
}

// Step is one fault of a plan.
type Step struct {
	Fault catalog.Fault
	After time.Duration // of peace
	For   time.Duration
	draw  *rand.Rand // what the fault is about
}

// steps is how many faults a plan has.
const steps = 5

// NewPlan makes the plan of a seed. Seeds in a row have all faults with both log stores and both sizes in turn.
func NewPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 5))
	p := Plan{Seed: seed, Kind: []string{store.WAL, store.BoltDB}[seed%2], Members: 3, SnapshotThreshold: 16}
	if seed%4 >= 2 {
		p.Members = 5
	}
	kinds := Faults()
	for i := range steps {
		p.Steps = append(p.Steps, Step{
			Fault: kinds[(int(seed%uint64(len(kinds)))*steps+i)%len(kinds)],
			After: time.Duration(r.Int64N(int64(2 * time.Second))),
			For:   time.Second + time.Duration(r.Int64N(int64(6*time.Second))),
			draw:  rand.New(rand.NewPCG(seed, uint64(100+i))),
		})
	}
	return p
}

// String is the plan in one line.
func (p Plan) String() string {
	text := fmt.Sprintf("seed %d: %d members on %s", p.Seed, p.Members, p.Kind)
	for _, s := range p.Steps {
		text += fmt.Sprintf("; %s for %.1fs", s.Fault, s.For.Seconds())
	}
	return text
}
