package policy

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// pollsPerScan is how many polls pass between two scans of the volumes.
const pollsPerScan = 10

// replaceReplicas replaces the replicas of hosts that were unreachable for
// --replace-after. What fails is decided again at a later scan.
func (m *Monitor) replaceReplicas(ctx context.Context, x pollResult) {
	if m.leaderPolls++; m.ReplaceAfter == 0 || m.leaderPolls%pollsPerScan != 0 {
		return
	}
	state, err := m.Member.Fork() // long work holds no lock
	if err != nil {
		m.Logger.Warn("cannot read the replicated volumes", "error", err)
		return
	}
	volumes, resyncing := degradedVolumes(state)
	var fault error // ends the scan: the fork may hold half of a command
	commands := m.replacer.decide(x, volumes, resyncing, func(commands ...*fsmpb.Command) error {
		if fault != nil {
			return fault
		}
		err := m.dryRun(state, commands)
		if errors.Is(err, fsm.ErrFault) {
			fault = err
		}
		return err
	})
	if fault != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*m.Interval)
	defer cancel()
	for _, cmd := range commands {
		m.proposeReplacement(ctx, cmd)
	}
}

// dryRun applies commands to a copy of the state, with what the leader would add to them.
func (m *Monitor) dryRun(state *fsm.State, commands []*fsmpb.Command) error {
	run := fsm.DryRun{Fork: state, Actor: "controller/" + m.Name, AttachFacts: m.facts.Attach}
	for _, cmd := range commands {
		out, err := run.Apply(cmd)
		if errors.Is(err, fsm.ErrFault) {
			m.Logger.Error("a dry run met a bug; nothing is proposed", "command", cmd.String(), "error", err)
			return err
		}
		if err := fsm.Err(out); err != nil {
			m.Logger.Info("a replica cannot be replaced now", "error", err)
			return err
		}
	}
	return nil
}

func (m *Monitor) proposeReplacement(ctx context.Context, cmd *fsmpb.Command) {
	cmd.Actor, cmd.SchemaVersion = "controller/"+m.Name, fsm.LeastLevel(cmd)
	_, err := m.Member.Propose(ctx, cmd)
	log := m.Logger.With("volume", cmd.GetRemoveReplica().GetVolumeId()+cmd.GetAddReplica().GetVolumeId(),
		"removes_from", cmd.GetRemoveReplica().GetNodeId())
	var rejection *fsm.Rejection
	switch {
	case err == nil:
		log.Info("a replica is replaced: its host was unreachable for longer than --replace-after")
	case errors.As(err, &rejection):
		log.Info("the state refuses the replacement of a replica", "error", err)
	default:
		log.Warn("cannot propose the replacement of a replica", "error", err)
	}
}
