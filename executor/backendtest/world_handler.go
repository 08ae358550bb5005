package backendtest

import (
	"slices"

	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// HandlerCall is a fence-peer handler that a kernel waits for: whoever drives the world asks the
// host's process, and answers.
type HandlerCall struct {
	Host   fsm.NodeID
	Volume fsm.VolumeID
	// Promoting: it is for a replica that is to become primary, not for one that lost its peer.
	Promoting bool

	world       *World
	loss, downs int // what it is about
	started     bool
	answer      func(fsmpb.Verdict) // of a promotion, which waits for it
}

// Handlers lists the handlers that were called and have not answered, in the order of the calls.
func (w *World) Handlers() []*HandlerCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.handlers)
}

// Start notes that somebody takes care of the call.
func (c *HandlerCall) Start() { c.world.change(func() { c.started = true }) }

// Started reports whether Start was called.
func (c *HandlerCall) Started() bool {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.started
}

// Answer ends the handler with a verdict. It has no effect once the loss is over that it was
// called for, or its host is.
func (c *HandlerCall) Answer(verdict fsmpb.Verdict) {
	c.world.change(func() {
		if i := slices.Index(c.world.handlers, c); i >= 0 {
			c.world.handlers = slices.Delete(c.world.handlers, i, i+1)
			c.end(verdict)
		}
	})
}

// Die ends the handler without a verdict: I/O stays suspended.
func (c *HandlerCall) Die() { c.Answer(fsmpb.Verdict_VERDICT_UNKNOWN) }

func (c *HandlerCall) end(verdict fsmpb.Verdict) {
	if c.answer != nil {
		c.answer(verdict)
		return
	}
	r := c.world.resources[c.Volume]
	b, side := r.bondOf(c.Host)
	if s := b.pair.Observe(side); verdict == fsmpb.Verdict_VERDICT_PEER_OUTDATED && s.Disconnects == c.loss && r.seats[c.Host].downs == c.downs {
		r.change(b, func(p *drbdmodel.Pair) { p.Resume(side, true) })
	}
}

// callHandler is a kernel that begins to wait for its handler. The lock is held.
func (w *World) callHandler(c *HandlerCall) {
	c.world = w
	w.handlers = append(w.handlers, c)
}

// dropHandlers ends the handlers of a host that loses its power. The lock is held.
func (w *World) dropHandlers(h *Host) {
	w.handlers = slices.DeleteFunc(w.handlers, func(c *HandlerCall) bool { return c.Host == h.node })
}
