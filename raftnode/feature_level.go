package raftnode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// gateFeatureLevel is the leader's answer to a command that must not just go to the log; nil where
// it may. What the cluster's feature level does not know is refused (S72): by a rejection,
// so that nobody asks again in vain. The level itself is raised here.
func (p *proposer) gateFeatureLevel(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	rejected, err := p.rejectUnsupported(ctx, cmd, p.reader.leaderReads.wait)
	if rejected != nil || err != nil {
		return rejected, err
	}
	if cmd.GetSetFeatureLevel().GetLevel() <= p.machine.cluster().FeatureLevel {
		return nil, nil
	}
	return p.raiseFeatureLevel(ctx, cmd)
}

// rejectUnsupported refuses what the cluster's level does not know, on the leader and before a
// command goes there: a leader of an older build would not see all of it. A member that
// would refuse learns first, by a read, how far the log is.
func (p *proposer) rejectUnsupported(ctx context.Context, cmd *fsmpb.Command, readIndex func(context.Context) (uint64, error)) (*fsmpb.Outcome, error) {
	if fsm.TooNew(p.machine.cluster().FeatureLevel, cmd) == nil {
		return nil, nil
	}
	index, err := readIndex(ctx)
	if err == nil {
		err = p.machine.applied.wait(ctx, index)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: learn the cluster's feature level: %w", ErrNotLeader, err)
	}
	cluster := p.machine.cluster()
	if cluster.ID == "" {
		return nil, fmt.Errorf("%w: the cluster is not made yet", ErrNotLeader)
	}
	if rej := fsm.TooNew(cluster.FeatureLevel, cmd); rej != nil {
		return p.unloggedRejection(rej), nil
	}
	return nil, nil
}

// refusal is a rejection that is not in the log.
func (p *proposer) unloggedRejection(rej *fsm.Rejection) *fsmpb.Outcome {
	return &fsmpb.Outcome{
		Index:     p.machine.index.Load(),
		Rejection: &fsmpb.Rejection{Reason: uint32(rej.Reason), Message: rej.Message},
	}
}

// raiseFeatureLevel has the feature level raised when every member understands it. Until it is
// applied here nobody joins, so that no other member comes in between, whatever becomes of
// the caller.
func (p *proposer) raiseFeatureLevel(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	p.membershipChange.Lock()
	data, rej, err := p.prepareLevelRaise(ctx, cmd)
	if rej != nil || err != nil {
		p.membershipChange.Unlock()
		return rej, err
	}
	result := make(chan proposalResult, 1)
	go func() {
		defer p.membershipChange.Unlock()
		a, err := p.proposals.apply(context.WithoutCancel(ctx), p.lifetime, data)
		result <- proposalResult{commandResult: a, err: err}
	}()
	a, err := awaitResult(ctx, p.lifetime, result)
	return a.outcome, err
}

// prepareLevelRaise is the entry that raises the level, or why it is refused.
func (p *proposer) prepareLevelRaise(ctx context.Context, cmd *fsmpb.Command) ([]byte, *fsmpb.Outcome, error) {
	if rej := p.checkAllSupport(ctx, cmd.GetSetFeatureLevel().GetLevel()); rej != nil {
		return nil, p.unloggedRejection(rej), nil
	}
	data, err := p.encodeProposal(cmd)
	return data, nil, err
}

// checkAllSupport asks every member of the configuration, with a vote or without one,
// which level it understands. Who does not answer may be of any build.
func (p *proposer) checkAllSupport(ctx context.Context, level uint32) *fsm.Rejection {
	if level > p.cfg.maxFeatureLevel {
		return fsm.Reject(fsm.Unsupported, "feature level %d is above %d, the highest that the leader understands: upgrade it first", level, p.cfg.maxFeatureLevel)
	}
	answers := p.peers.queryStatuses(ctx, p.cfg.leaderlessTimeout(), &raftpb.StatusRequest{})
	if lacking := membersLackingLevel(p.servers(), raft.ServerID(p.id), answers, level); len(lacking) > 0 {
		return fsm.Reject(fsm.Precondition, "raise the feature level to %d: %s", level, strings.Join(lacking, "; "))
	}
	return nil
}

// membersLackingLevel says of each member but this one that did not say that it understands
// the level, what is to be done about it.
func membersLackingLevel(servers []raft.Server, self raft.ServerID, answers map[raft.ServerID]memberStatus, level uint32) (lacking []string) {
	for _, s := range servers {
		a, answered := answers[s.ID]
		switch {
		case s.ID == self:
		case !answered, a.GetMemberId() != string(s.ID):
			lacking = append(lacking, fmt.Sprintf("the member at %s does not answer: start it, or remove it", s.Address))
		case a.GetFeatureLevel() < level:
			lacking = append(lacking, fmt.Sprintf("the member %s at %s understands %d: upgrade it", a.GetName(), s.Address, a.GetFeatureLevel()))
		}
	}
	slices.Sort(lacking)
	return lacking
}
