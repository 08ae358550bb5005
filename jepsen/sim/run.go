package sim

import (
	"time"
)

// Config is what one run is made of beside its tape.
type Config struct {
	Dir   string   // for the hosts' records; it is removed
	Steps int      // of the phase with faults
	Aims  []string // the boundaries at which a crash is aimed; the first one chooses the scene
	Round int      // of the seeds that have the same first aim: where several scenes lead there, it chooses
	Story bool     // what happens is kept as text
	Extras
	// Reseed begins the random numbers of a step anew, so that they do not depend on how many were
	// drawn before.
	Reseed func(step int)
}

// Result is what a run was.
type Result struct {
	Failure   string // empty: all held
	Hash      uint64 // of the trace
	Disturbed bool   // the machine interrupted the run: another of the same tape may differ
	Steps     int
	Simulated time.Duration
	Choices   []uint32
	Story     []string
	Counts    map[string]int // of faults, calls and answers
	CrashedAt map[string]int // by boundary
	Hits      map[string]int // boundaries that were passed
}

// play plays a tape in this bubble.
func play(t *tape, c Config) *Result {
	s := newSim(t, c)
	s.begin()
	for range s.playScene() {
		if s.failed() {
			break
		}
		s.step()
	}
	if !s.failed() {
		s.heal()
	}
	s.settle()
	if s.failed() {
		s.noteReplicas()
	}
	s.note("the end")
	r := &Result{
		Failure: s.failure, Hash: s.trace.hash(), Disturbed: s.trace.disturbed, Steps: s.trace.steps, Simulated: time.Since(s.began), Choices: t.choices,
		Story: s.trace.lines, Counts: s.counts, CrashedAt: s.crashedAt, Hits: s.hits,
	}
	s.close()
	return r
}

// noteReplicas ends a failure's story with what the log says of the replicated volumes.
func (s *Sim) noteReplicas() {
	for v := range s.log.state.Volumes("") {
		if !v.Replicated() {
			continue
		}
		for _, r := range v.ActiveReplicas() {
			s.note("the log says of %s on %s: %s, %+v", v.Name, r.Node, r.State, *r.ReplicaSync)
		}
		r := v.Replication
		s.note("the log says of %s: generation %d, last grant %d, primary %+v, forced %+v, %d teardowns", v.Name, r.Generation, r.LastGrantIndex, r.Primary, r.Forced, len(v.Teardowns))
	}
}

// begin lets the hosts register before anybody calls, in most seeds.
func (s *Sim) begin() {
	if s.tape.pick(4) == 3 {
		return
	}
	for range warmUpSteps {
		s.settle()
		ready := s.readyEvents()
		if len(ready) == 0 {
			s.sleep(100 * time.Millisecond)
			continue
		}
		s.trace.steps++
		s.release(ready[s.tape.pick(len(ready))], false)
	}
}

// warmUpSteps are enough for the first sessions.
const warmUpSteps = 60
