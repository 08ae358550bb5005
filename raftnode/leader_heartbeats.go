package raftnode

import (
	"context"

	"github.com/hashicorp/raft"
)

// maxHeartbeatMisses is for how many heartbeat timeouts a quorum may leave heartbeats unanswered; 3 s by default.
const maxHeartbeatMisses = 6

// watchHeartbeats has a leader give up its term when no quorum answers its heartbeats (S143). Raft's own lease takes every answer
// for contact, also one on the connection that entries are sent on. That connection stays open where a new one fails, as
// with a certificate that has expired meanwhile: such a leader goes on, and confirms no read.
func (l *leader) watchHeartbeats(ctx context.Context, term uint64) {
	h := newHeartbeatWatch(l.transport, raft.ServerID(l.id), term)
	runEvery(ctx, l.cfg.HeartbeatTimeout, func() {
		if h.lost(l.servers()) {
			l.giveUp("no quorum answers its heartbeats")
		}
	})
}

// heartbeatWatch counts its own looks: a process that stood still has missed nothing.
type heartbeatWatch struct {
	transport *transport
	self      raft.ServerID
	term      uint64
	tick      uint64 // of the last look at which a quorum had answered
	misses    int
}

func newHeartbeatWatch(t *transport, self raft.ServerID, term uint64) *heartbeatWatch {
	return &heartbeatWatch{transport: t, self: self, term: term, tick: t.heartbeatClock.Load()}
}

// lost looks whether a quorum answers, and tells whether none has for too long.
func (h *heartbeatWatch) lost(servers []raft.Server) bool {
	now := h.transport.heartbeatClock.Load()
	if answered, _ := h.transport.countAcks(h.self, h.term, h.tick, servers); answered {
		h.tick, h.misses = now, 0
		return false
	}
	h.misses++
	return h.misses >= maxHeartbeatMisses
}
