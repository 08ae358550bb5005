package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// cluster is the Raft member as the services see it. It exists before the member
// does, because the member's listener serves the sessions' queries.
type cluster struct {
	openMember atomic.Pointer[raftnode.Member]
	draining   atomic.Bool
	refused    atomic.Pointer[error] // why the member does not start, for as long as the process runs
}

var errDraining = errors.New("this controller is stopping")

// member is nil-safe: until the member runs, no leader is known.
func (c *cluster) member() (*raftnode.Member, error) {
	if m := c.openMember.Load(); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%w: this member is starting", raftnode.ErrNotLeader)
}

// Propose returns when a command is applied, with the actor that the command names.
func (c *cluster) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	m, err := c.member()
	if err != nil {
		return nil, err
	}
	return m.Propose(ctx, cmd)
}

// Read is linearizable.
func (c *cluster) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	m, err := c.member()
	if err != nil {
		return 0, err
	}
	return m.Read(ctx, fn)
}

// View reads the member's own state.
func (c *cluster) View(fn func(*fsm.State) error) error {
	m, err := c.member()
	if err != nil {
		return err
	}
	return m.View(fn)
}

// Fork copies the member's own state.
func (c *cluster) Fork() (*fsm.State, error) {
	m, err := c.member()
	if err != nil {
		return nil, err
	}
	return m.Fork(), nil
}

// WaitIndex returns when the member has applied the index.
func (c *cluster) WaitIndex(ctx context.Context, index uint64) error {
	m, err := c.member()
	if err != nil {
		return err
	}
	return m.WaitIndex(ctx, index)
}

// Ready says why this controller does not serve.
func (c *cluster) Ready() error {
	if c.draining.Load() {
		return errDraining
	}
	if why := c.refused.Load(); why != nil {
		return *why
	}
	m, err := c.member()
	if err != nil {
		return err
	}
	return m.Ready()
}

// Leading tells whether the member leads.
func (c *cluster) Leading() (term uint64, leading bool) {
	m, err := c.member()
	if err != nil {
		return 0, false
	}
	leading, term, _ = m.Leadership()
	return term, leading
}

// WatchNode watches a node's volumes, its snapshots and its own record.
func (c *cluster) WatchNode(node fsm.NodeID) (wake <-chan struct{}, take func() ([]fsm.Change, bool), stop func()) {
	m, err := c.member()
	if err != nil {
		return nil, func() ([]fsm.Change, bool) { return nil, true }, func() {}
	}
	w := m.Watch(raftnode.Interest{Node: node})
	return w.C, w.TakeChanges, w.Close
}

// Peers are the other members. One that cannot be dialled counts as unanswered.
func (c *cluster) Peers(context.Context) ([]session.Peer, error) {
	m, err := c.member()
	if err != nil {
		return nil, err
	}
	var peers []session.Peer
	for _, p := range m.Peers() {
		if p.Self {
			continue
		}
		peer := session.Peer{ID: p.ID, Voter: p.Voter}
		if conn, err := m.Dial(p.ID); err == nil {
			peer.Conn = conn
		}
		peers = append(peers, peer)
	}
	return peers, nil
}

// csiCluster is the cluster as the CSI services see it: their commands have this controller
// as their actor, whose socket only the CO on this host reaches.
type csiCluster struct {
	*cluster
	actor, site string
}

// Site is the site that this controller's endpoint acts for.
func (c csiCluster) Site() string { return c.site }

// Actor is this controller, or the operator in whose name the call is made.
func (c csiCluster) Actor() string { return c.actor }

// Propose has a command applied in the actor's name.
func (c csiCluster) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	cmd.Actor = c.actor
	return c.cluster.Propose(ctx, cmd)
}

// WatchVolumes wakes when one of the volumes may have changed.
func (c csiCluster) WatchVolumes(ids ...fsm.VolumeID) (wake <-chan struct{}, stop func()) {
	return c.watch(raftnode.Interest{Volumes: ids})
}

// WatchSnapshot wakes when the snapshot may have changed.
func (c csiCluster) WatchSnapshot(id fsm.SnapshotID) (wake <-chan struct{}, stop func()) {
	return c.watch(raftnode.Interest{Snapshot: id})
}

// WatchGroup wakes when the group, or a member of it, may have changed.
func (c csiCluster) WatchGroup(id fsm.GroupSnapshotID) (wake <-chan struct{}, stop func()) {
	return c.watch(raftnode.Interest{Group: id})
}

func (c csiCluster) watch(i raftnode.Interest) (wake <-chan struct{}, stop func()) {
	m, err := c.member()
	if err != nil {
		return nil, func() {}
	}
	w := m.Watch(i)
	return w.C, w.Close
}
