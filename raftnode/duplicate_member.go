package raftnode

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// duplicateProbes is how often in a row nobody has to answer at a member's old address before
// it takes itself for the only process on its data: the one there may be slow to answer.
const duplicateProbes = 3

// twin is what a member that is at another address than the configuration has for it knows
// of that address. A process that answers there under the same id runs on a copy of the
// same data folder, or this one does, and the two together have two votes (S68).
type duplicateMember struct {
	addr       atomic.Pointer[string] // the address, once another process answered
	unanswered atomic.Uint32          // asks in a row that nobody answered
}

// ruledOut tells whether nobody is there. A process that answered once is there until the
// configuration has this member's address: only the leader can say which of the two counts.
func (t *duplicateMember) ruledOut() bool {
	return t.addr.Load() == nil && t.unanswered.Load() >= duplicateProbes
}

func (t *duplicateMember) found(addr string) { t.addr.Store(&addr) }

func (t *duplicateMember) noAnswer() { t.unanswered.Add(1) }

func (t *duplicateMember) reset() {
	t.addr.Store(nil)
	t.unanswered.Store(0)
}

// mayCampaign tells whether this member may be elected, and vote: one that the configuration
// has at another address may only when no other process is there. Raft asks by itself,
// maybe before Open has it: until all is there nobody stands.
func (j *joiner) mayCampaign() bool {
	select {
	case <-j.started:
		return j.atConfiguredAddress() || j.duplicate.ruledOut()
	default:
		return false
	}
}

// probeDuplicate asks at the address that the configuration has for this member.
func (j *joiner) probeDuplicate(ctx context.Context, self raft.Server) {
	ctx, cancel := context.WithTimeout(ctx, j.cfg.leaderlessTimeout())
	defer cancel()
	a, err := j.peers.queryStatus(ctx, self, &raftpb.StatusRequest{})
	switch {
	case err != nil:
		j.duplicate.noAnswer()
	case a.GetProcessId() != "" && a.GetProcessId() != j.processID:
		j.duplicate.found(string(self.Address))
	default:
		j.duplicate.noAnswer() // it is this process, or a build that does not say which it is
	}
}
