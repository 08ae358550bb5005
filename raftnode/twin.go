package raftnode

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// asksForTwin is how often in a row nobody has to answer at a member's old address before
// it takes itself for the only process on its data: the one there may be slow to answer.
const asksForTwin = 3

// twin is what a member that is at another address than the configuration has for it knows
// of that address. A process that answers there under the same id runs on a copy of the
// same data folder, or this one does, and the two together have two votes (S68).
type twin struct {
	at       atomic.Pointer[string] // the address, once another process answered
	silences atomic.Uint32          // asks in a row that nobody answered
}

// gone tells whether nobody is there. A process that answered once is there until the
// configuration has this member's address: only the leader can say which of the two counts.
func (t *twin) gone() bool { return t.at.Load() == nil && t.silences.Load() >= asksForTwin }

func (t *twin) answered(at string) { t.at.Store(&at) }

func (t *twin) silent() { t.silences.Add(1) }

func (t *twin) forget() {
	t.at.Store(nil)
	t.silences.Store(0)
}

// inPlace tells whether the configuration has this member at its own address.
func (m *Member) inPlace() bool {
	self, in := m.serverOf(m.id)
	return in && string(self.Address) == m.cfg.Advertise
}

// stands tells whether this member may be elected, and vote: one that the configuration
// has at another address may only when no other process is there. Raft asks by itself,
// maybe before Open has it: until all is there nobody stands.
func (m *Member) stands() bool {
	select {
	case <-m.started:
		return m.inPlace() || m.twin.gone()
	default:
		return false
	}
}

// lookForTwin asks at the address that the configuration has for this member.
func (m *Member) lookForTwin(ctx context.Context, self raft.Server) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.patience())
	defer cancel()
	a, err := m.askOne(ctx, self, &raftpb.StatusRequest{})
	switch {
	case err != nil:
		m.twin.silent()
	case a.GetProcessId() != "" && a.GetProcessId() != m.process:
		m.twin.answered(string(self.Address))
	default:
		m.twin.silent() // it is this process, or a build that does not say which it is
	}
}
