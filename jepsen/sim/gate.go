package sim

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
)

// waitingGate is a goroutine of a host's process that waits at a boundary of an effect.
type waitingGate struct {
	process *process
	name    string
	before  bool
	aimed   *aim // nil: no crash is aimed here
	effect  bool // of the world: it may fail, lie or hang
	go_     chan backendtest.Answer
}

// gates hold the effects of all hosts back. It is backendtest's Gate.
type gates struct{ s *Sim }

// Pass holds an effect back until the driver lets it go on. A process that is gone never goes on.
func (g gates) Pass(ctx context.Context, at backendtest.Boundary) backendtest.Answer {
	h := g.s.hostNamed(string(at.Host))
	if h == nil || h.process == nil || h.process.world.Gone() != at.Gone {
		runtime.Goexit()
	}
	if at.Read {
		return backendtest.Answer{}
	}
	about := shortID(string(at.Volume) + string(at.Snapshot))
	return h.process.wait(ctx, at.Name(), about, !at.After, true)
}

// wait waits at a boundary. Behind an effect, and where only the process itself does something, it
// waits only where the crash is aimed at.
func (p *process) wait(ctx context.Context, name, about string, before, effect bool) backendtest.Answer {
	s := p.host.s
	if p.isGone() {
		runtime.Goexit()
	}
	s.mu.Lock()
	s.hits[name]++
	s.mu.Unlock()
	aimed := s.aimedAt(name)
	if aimed == nil && (!before || !effect) {
		return backendtest.Answer{}
	}
	w := &waitingGate{process: p, name: name, before: before, aimed: aimed, effect: effect, go_: make(chan backendtest.Answer, 1)}
	e := &event{key: "effect " + p.host.name + " " + name + " " + about, kind: kindEffect, gate: w, do: func() { w.go_ <- backendtest.Answer{} }}
	s.pending.add(e)
	select {
	case answer := <-w.go_:
		return answer
	case <-p.gone:
		s.pending.remove(e)
		runtime.Goexit()
	case <-ctx.Done():
		s.pending.remove(e)
		select {
		case answer := <-w.go_:
			return answer
		default:
		}
	}
	return backendtest.Answer{}
}

// Hit is agent.Faults: the boundaries between the effects.
func (p *process) Hit(point string) {
	p.wait(context.Background(), "agent."+point, "", strings.HasSuffix(point, ".before"), false)
}

// cryptBoundaries are those of encrypted volumes.
func cryptBoundaries() []string {
	return slices.Concat(named("agent.", agent.CryptFaultPoints), named("agent.", agent.RotationFaultPoints), backendtest.CryptBoundaries())
}

// boundaries are all names at which a host may crash, but for those of encrypted volumes.
func boundaries() []string {
	var all []string
	for _, point := range append(agent.FaultPoints, agent.ReplicaFaultPoints...) {
		all = append(all, "agent."+point)
	}
	return append(all, backendtest.Boundaries()...)
}
