package controller

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// registerInterval is how often the log is asked whether it knows this controller's site.
const registerInterval = time.Second

// registerMember has the log record the site that this controller acts for, as soon as the cluster's
// feature level knows sites. The error ends the process: the log has this controller at another site (S32).
func (c *controller) registerMember(ctx context.Context) error {
	tick := time.NewTicker(registerInterval)
	defer tick.Stop()
	for {
		switch done, err := c.tryRegisterMember(ctx); {
		case err != nil:
			return exit.Refusedf("act for site %s: %w", c.site, err)
		case done:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tryRegisterMember says whether the log has the site. Only a refusal is an error.
func (c *controller) tryRegisterMember(ctx context.Context) (done bool, err error) {
	state := csiCluster{c.cluster, "controller/" + c.name, c.site}
	sites := false
	_ = state.View(func(s *fsm.State) error {
		sites = s.Cluster().FeatureLevel >= fsm.Level2
		return nil
	}) // before the member runs there is no state
	if !sites {
		return false, nil
	}
	id := ""
	for _, p := range c.member.Peers() {
		if p.Self {
			id = p.ID
		}
	}
	if id == "" { // it has not joined yet
		return false, nil
	}
	_, err = state.Propose(ctx, &fsmpb.Command{SchemaVersion: fsm.Level2, Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{
		Name: c.name, MemberId: id, Site: c.site,
	}}})
	var refused *fsm.Rejection
	if errors.As(err, &refused) && refused.Reason == fsm.Precondition {
		return false, refused
	}
	return err == nil, nil
}
