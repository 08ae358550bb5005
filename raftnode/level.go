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

// gated is the leader's answer to a command that must not just go to the log; nil where
// it may. What the cluster's feature level does not know is refused (S72): by a rejection,
// so that nobody asks again in vain. The level itself is raised here.
func (m *Member) gated(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	refused, err := m.tooNewFor(ctx, cmd, m.leaderReads.join)
	if refused != nil || err != nil {
		return refused, err
	}
	if cmd.GetSetFeatureLevel().GetLevel() <= m.machine.cluster().FeatureLevel {
		return nil, nil
	}
	return m.raise(ctx, cmd)
}

// tooNewFor refuses what the cluster's level does not know, on the leader and before a
// command goes there: a leader of an older build would not see all of it. A member that
// would refuse learns first, by a read, how far the log is.
func (m *Member) tooNewFor(ctx context.Context, cmd *fsmpb.Command, read func(context.Context) (uint64, error)) (*fsmpb.Outcome, error) {
	if fsm.TooNew(m.machine.cluster().FeatureLevel, cmd) == nil {
		return nil, nil
	}
	index, err := read(ctx)
	if err == nil {
		err = m.machine.applied.wait(ctx, index)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: learn the cluster's feature level: %w", ErrNotLeader, err)
	}
	at := m.machine.cluster()
	if at.ID == "" {
		return nil, fmt.Errorf("%w: the cluster is not made yet", ErrNotLeader)
	}
	if rej := fsm.TooNew(at.FeatureLevel, cmd); rej != nil {
		return m.refusal(rej), nil
	}
	return nil, nil
}

// refusal is a rejection that is not in the log.
func (m *Member) refusal(rej *fsm.Rejection) *fsmpb.Outcome {
	return &fsmpb.Outcome{
		Index:     m.machine.index.Load(),
		Rejection: &fsmpb.Rejection{Reason: uint32(rej.Reason), Message: rej.Message},
	}
}

// raise has the feature level raised when every member understands it. Until it is
// applied here nobody joins, so that no other member comes in between, whatever becomes of
// the caller.
func (m *Member) raise(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	m.membership.Lock()
	data, rej, err := m.raising(ctx, cmd)
	if rej != nil || err != nil {
		m.membership.Unlock()
		return rej, err
	}
	decided := make(chan applied, 1)
	go func() {
		defer m.membership.Unlock()
		a, err := m.groups.apply(context.WithoutCancel(ctx), m.closing, data)
		decided <- applied{answer: a, err: err}
	}()
	a, err := awaitApplied(ctx, m.closing, decided)
	return a.outcome, err
}

// raising is the entry that raises the level, or why it is refused.
func (m *Member) raising(ctx context.Context, cmd *fsmpb.Command) ([]byte, *fsmpb.Outcome, error) {
	if rej := m.understoodByAll(ctx, cmd.GetSetFeatureLevel().GetLevel()); rej != nil {
		return nil, m.refusal(rej), nil
	}
	data, err := m.prepare(cmd)
	return data, nil, err
}

// understoodByAll asks every member of the configuration, with a vote or without one,
// which level it understands. Who does not answer may be of any build.
func (m *Member) understoodByAll(ctx context.Context, level uint32) *fsm.Rejection {
	if level > m.cfg.understands {
		return fsm.Reject(fsm.Unsupported, "feature level %d is above %d, the highest that the leader understands: upgrade it first", level, m.cfg.understands)
	}
	answers := m.askAll(ctx, m.cfg.patience(), &raftpb.StatusRequest{})
	if missing := missingLevel(m.servers(), raft.ServerID(m.id), answers, level); len(missing) > 0 {
		return fsm.Reject(fsm.Precondition, "raise the feature level to %d: %s", level, strings.Join(missing, "; "))
	}
	return nil
}

// missingLevel says of each member but this one that did not say that it understands
// the level, what is to be done about it.
func missingLevel(servers []raft.Server, self raft.ServerID, answers map[raft.ServerID]seen, level uint32) (missing []string) {
	for _, s := range servers {
		a, answered := answers[s.ID]
		switch {
		case s.ID == self:
		case !answered, a.GetMemberId() != string(s.ID):
			missing = append(missing, fmt.Sprintf("the member at %s does not answer: start it, or remove it", s.Address))
		case a.GetFeatureLevel() < level:
			missing = append(missing, fmt.Sprintf("the member %s at %s understands %d: upgrade it", a.GetName(), s.Address, a.GetFeatureLevel()))
		}
	}
	slices.Sort(missing)
	return missing
}
