package policy

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// proposeReachability proposes the changes. One that fails is proposed again after the next poll.
func (m *Monitor) proposeReachability(ctx context.Context, changes []reachabilityChange) {
	ctx, cancel := context.WithTimeout(ctx, 2*m.Interval)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(16)
	for _, c := range changes {
		group.Go(func() error {
			m.proposeReachabilityChange(ctx, c)
			return nil
		})
	}
	_ = group.Wait() // each logs what failed
}

func (m *Monitor) proposeReachabilityChange(ctx context.Context, c reachabilityChange) {
	if !c.reachable && m.registeredSince(c) {
		return // the next poll shows it
	}
	_, err := m.Member.Propose(ctx, &fsmpb.Command{
		Actor: "controller/" + m.Name,
		Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{
			NodeId: string(c.node), HostId: string(c.host), Reachable: c.reachable,
		}},
	})
	log := m.Logger.With("node", c.node, "host", c.host, "reachable", c.reachable)
	var rejection *fsm.Rejection
	switch {
	case err == nil:
		log.Info("recorded whether a node can be reached")
	case errors.As(err, &rejection):
		log.Info("the state refuses a change of reachability", "error", err)
	default:
		log.Warn("cannot record whether a node can be reached", "error", err)
	}
}

// registeredSince tells whether a host registered after the poll that found no session of it:
// with many changes the proposal for it waits for its turn.
func (m *Monitor) registeredSince(c reachabilityChange) (is bool) {
	_ = m.Member.View(func(state *fsm.State) error { // without a state nothing is proposed either
		n, ok := state.Node(c.node)
		is = ok && n.Registered != m.detector.outages[c.node].registered
		return nil
	})
	return is
}
