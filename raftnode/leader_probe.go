package raftnode

import (
	"context"
	"slices"

	"github.com/hashicorp/raft"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// leaderDuties is what a leader knows about the members in one term.
type leaderDuties struct {
	*leader
	caughtUpProbes map[string]int // consecutive probes that found a non-voter within maxPromotionLag
}

// probeMembers asks all members for their status: for the clock check, a full disk, promotions and an
// open hash dispute.
func (d *leaderDuties) probeMembers(ctx context.Context) {
	if d.checkpoints.hashDispute.err() != nil {
		d.checkpoints.checkpoint(ctx)
	}
	statuses := d.peers.queryStatuses(ctx, d.cfg.probeInterval(), &raftpb.StatusRequest{DisagreementAt: d.checkpoints.hashDispute.activeIndex()})
	d.checkClock(statuses)
	d.leaveFullDisk(statuses)
	d.promoteCaughtUp(ctx, statuses)
}

// promoteCaughtUp promotes one non-voter that has caught up (S141), but none that an operator demoted.
func (d *leaderDuties) promoteCaughtUp(ctx context.Context, answers map[raft.ServerID]memberStatus) {
	candidates := slices.DeleteFunc(slices.Clone(d.servers()), func(s raft.Server) bool { return d.membership.isNonVoter(s.ID) })
	if s, ok := d.nextVoter(candidates, answers, d.machine.index.Load()); ok {
		d.membership.promoteToVoter(ctx, s)
	}
}

// nextVoter is a non-voter that stayed within maxPromotionLag of an index for promotionProbes
// consecutive probes.
func (d *leaderDuties) nextVoter(servers []raft.Server, answers map[raft.ServerID]memberStatus, index uint64) (raft.Server, bool) {
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			continue
		}
		a, ok := answers[s.ID]
		if !ok || a.GetAppliedIndex()+maxPromotionLag < index || a.GetMemberId() != string(s.ID) {
			d.caughtUpProbes[string(s.ID)] = 0
			continue
		}
		if d.caughtUpProbes[string(s.ID)]++; d.caughtUpProbes[string(s.ID)] >= promotionProbes {
			return s, true
		}
	}
	return raft.Server{}, false
}
