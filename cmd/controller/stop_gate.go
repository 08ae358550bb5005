package controller

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/fsm"
)

// askedMembers is what the gate asks.
type askedMembers interface {
	Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error)
	Members(ctx context.Context, hashAt uint64) []admin.Member
}

// stopGate is what a job asks before it stops this controller: whether the voters that are left are a quorum. Without a
// quorum now nobody can tell.
func stopGate(name string, cluster askedMembers) daemon.Gate {
	return daemon.Gate{Path: "/safe-to-stop", Decide: func(ctx context.Context, _ map[string]bool) (daemon.Verdict, error) {
		index, err := cluster.Read(ctx, func(*fsm.State) error { return nil })
		if err != nil {
			return daemon.Verdict{}, fmt.Errorf("read the configuration: %w", err)
		}
		members := cluster.Members(ctx, 0)
		for i := range members {
			if members[i].Self {
				may, why := admin.MayStop(members, &members[i])
				return daemon.Verdict{Safe: may, Subject: "controller " + name, Index: index, Reasons: []string{why}}, nil
			}
		}
		return daemon.Verdict{}, fmt.Errorf("controller %s is no member of the configuration", name)
	}}
}
