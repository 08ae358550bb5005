package raftnode

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// duplicateProbes is how many consecutive probes of a member's old address must stay
// unanswered before it counts as the only process on its data: one there may answer slowly.
const duplicateProbes = 3

// duplicateMember is what a member that is at another address than the configuration has for it knows
// of that address. A process that answers there under the same id runs on a copy of the
// same data folder, or this one does, and the two together have two votes (S68).
type duplicateMember struct {
	addr       atomic.Pointer[string] // the address, once another process answered
	unanswered atomic.Uint32          // consecutive probes without an answer
}

// ruledOut tells whether no duplicate runs. One that answered once counts until the
// configuration has this member's address: only the leader decides which of the two is the member.
func (d *duplicateMember) ruledOut() bool {
	return d.addr.Load() == nil && d.unanswered.Load() >= duplicateProbes
}

func (d *duplicateMember) found(addr string) { d.addr.Store(&addr) }

func (d *duplicateMember) noAnswer() { d.unanswered.Add(1) }

func (d *duplicateMember) reset() {
	d.addr.Store(nil)
	d.unanswered.Store(0)
}

// mayCampaign tells whether this member may be elected, and vote: one that the configuration
// has at another address may only when no other process is there. Raft calls this by
// itself, maybe before Open returned: a member that is not open does not campaign.
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
