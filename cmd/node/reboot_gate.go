package node

import (
	"context"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
)

// rebootGate is what a job asks before it reboots this host. With claim=1 the host is recorded as in maintenance where it
// may be rebooted, until its next boot, so that no other host of the same volumes is told yes meanwhile; release=1 ends that.
func (n *node) rebootGate() daemon.Gate { return rebootGate(n.id, n.client.RebootSafe) }

func rebootGate(id string, ask func(context.Context, session.RebootQuestion) (fsm.StopAnswer, error)) daemon.Gate {
	return daemon.Gate{Path: "/safe-to-reboot", Parameters: []string{"allow-unused"}, Changes: []string{"claim", "release"},
		Decide: func(ctx context.Context, asked map[string]bool) (daemon.Verdict, error) {
			answer, err := ask(ctx, session.RebootQuestion{Claim: asked["claim"], Release: asked["release"], AllowUnused: asked["allow-unused"]})
			if err != nil {
				return daemon.Verdict{}, err
			}
			return daemon.Verdict{Safe: answer.Safe, Subject: "node " + id, Index: answer.Index, Reasons: answer.Reasons,
				InMaintenance: answer.InMaintenance, Claimed: answer.Claimed}, nil
		}}
}
