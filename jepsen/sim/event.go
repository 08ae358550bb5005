package sim

import (
	"cmp"
	"slices"
	"sync"
)

// eventKind says what faults an event can meet.
type eventKind int

const (
	kindEffect  eventKind = iota // a host's process waits at a boundary
	kindMessage                  // a message is on its way
	kindPropose                  // a command is on its way to the log
	kindApply                    // a member applies what is committed
	kindKernel                   // a kernel does something by itself
	kindClient                   // a caller acts
	kindMachine                  // a machine or a process starts
)

// event is one thing that may happen now. Keys are unique among what may happen, but for events that are equal.
type event struct {
	key  string
	kind eventKind
	do   func()
	// gate is set for an effect.
	gate *waitingGate
	// proposal is set for a command.
	proposal *proposal
	// stale tells whether nobody waits for it any more: then it is forgotten. Nil: never.
	stale func() bool
	// ready tells whether it may happen now; nil: always.
	ready func() bool
}

// pendingEvents is what waits for the driver. Goroutines of the bubble add to it.
type pendingEvents struct {
	mu   sync.Mutex
	all  []*event
	wake chan struct{} // something was added
}

func newPendingEvents() *pendingEvents { return &pendingEvents{wake: make(chan struct{}, 1)} }

func (p *pendingEvents) add(e *event) {
	p.mu.Lock()
	p.all = append(p.all, e)
	p.mu.Unlock()
	p.signal()
}

func (p *pendingEvents) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pendingEvents) remove(e *event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.all, e); i >= 0 {
		p.all = slices.Delete(p.all, i, i+1)
	}
}

// ready lists what may happen now, ordered by key.
func (p *pendingEvents) ready() []*event {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(e *event) bool { return e.stale != nil && e.stale() })
	slices.SortStableFunc(p.all, func(a, b *event) int { return cmp.Compare(a.key, b.key) })
	var ready []*event
	for _, e := range p.all {
		if e.ready == nil || e.ready() {
			ready = append(ready, e)
		}
	}
	return ready
}
