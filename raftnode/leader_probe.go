package raftnode

import (
	"context"

	"github.com/hashicorp/raft"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// leaderDuties is what a leader knows of its members in one term.
type leaderDuties struct {
	*leader
	caughtUpProbes map[string]int // how many looks found a non-voter close behind
}

// probeMembers asks all members how they are, and does what follows from it.
func (d *leaderDuties) probeMembers(ctx context.Context) {
	if d.checkpoints.hashDispute.err() != nil {
		d.checkpoints.checkpoint(ctx)
	}
	statuses := d.peers.queryStatuses(ctx, d.cfg.probeInterval(), &raftpb.StatusRequest{DisagreementAt: d.checkpoints.hashDispute.activeIndex()})
	d.checkClock(statuses)
	d.promoteCaughtUp(ctx, statuses)
}

// promoteCaughtUp gives a vote to one non-voter that has been close behind for a while (S141).
func (d *leaderDuties) promoteCaughtUp(ctx context.Context, answers map[raft.ServerID]memberStatus) {
	for _, s := range d.servers() {
		if s.Suffrage == raft.Voter {
			continue
		}
		a, ok := answers[s.ID]
		if !ok || a.GetAppliedIndex()+maxPromotionLag < d.machine.index.Load() || a.GetMemberId() != string(s.ID) {
			d.caughtUpProbes[string(s.ID)] = 0
			continue
		}
		if d.caughtUpProbes[string(s.ID)]++; d.caughtUpProbes[string(s.ID)] >= promotionProbes {
			d.membership.promoteToVoter(ctx, s)
			return
		}
	}
}
