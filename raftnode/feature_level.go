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

// gateFeatureLevel returns the leader's immediate outcome for a command that must not simply go
// to the log, nil for all others. A command above the cluster's feature level is rejected (S72),
// so that the caller does not retry it. The level itself is raised here.
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

// rejectUnsupported rejects commands above the cluster's level, on the leader and before a
// command is forwarded: a leader of an older build would drop fields that it does not know.
// Before it rejects, the member catches up with the log by a linearizable read.
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

// unloggedRejection is a rejection without an entry in the log.
func (p *proposer) unloggedRejection(rej *fsm.Rejection) *fsmpb.Outcome {
	return &fsmpb.Outcome{
		Index:     p.machine.index.Load(),
		Rejection: &fsmpb.Rejection{Reason: uint32(rej.Reason), Message: rej.Message},
	}
}

// raiseFeatureLevel raises the feature level when every member understands it. Until the entry
// is applied here no member is added, also when the caller's context ends before that.
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

// checkAllSupport asks every member of the configuration, voter or not, which level it
// understands. One that does not answer may be of any build, so it counts as lacking.
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

// membersLackingLevel lists the other members that did not confirm that they understand the
// level, each with its remedy.
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
