package controller_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode"
)

const incarnation = "incarnation-0001" // 16 bytes

// fakeCluster is the real state machine in memory, with hosts that report at once
// what they are asked for, unless they are told to be idle.
type fakeCluster struct {
	mu            sync.Mutex
	state         *fsm.State
	index         uint64
	watchers      map[any]map[chan struct{}]bool // by id
	hosts         []*fakeHost
	site          string               // that the endpoint acts for; empty: the default one
	actor         string               // in whose name it proposes; empty: the site's controller
	noQuorum      bool                 // no quorum
	unresponsive  bool                 // no answer at all, until the caller's time ran out
	mutateCommand func(*fsmpb.Command) // changes commands of controllers before they are applied
	proposed      int                  // commands of controllers
	// changeReplicaNow changes what a host says of its replica; nil: nothing.
	changeReplicaNow func(*fsm.ReplicaObservation)
}

func newCluster(t testing.TB) *fakeCluster {
	t.Helper()
	c := &fakeCluster{watchers: map[any]map[chan struct{}]bool{}}
	c.bootstrap(t, fsm.MaxFeatureLevel)
	return c
}

// bootstrap begins an empty state at a feature level.
func (c *fakeCluster) bootstrap(t testing.TB, level uint32) {
	t.Helper()
	c.update(func(c *fakeCluster) { c.state = fsm.New() })
	_, err := c.apply("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster", IncarnationId: []byte(incarnation), FeatureLevel: level,
	}}})
	require.NoError(t, err)
}

// apply folds one command into the state and wakes the watchers.
func (c *fakeCluster) apply(actor string, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	cmd = proto.Clone(cmd).(*fsmpb.Command)
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = make([]byte, 16)
		_, _ = rand.Read(cmd.RequestId)
		cmd.ProposedIndex = c.index - 1
	}
	cmd.Actor, cmd.ProposedAt, cmd.SchemaVersion = actor, time.Now().UnixNano(), fsm.LeastLevel(cmd)
	result := c.state.Apply(c.index, cmd)
	for _, change := range result.Changes {
		for _, id := range []any{change.Volume, change.Snapshot, change.Group} {
			for watcher := range c.watchers[id] {
				select {
				case watcher <- struct{}{}:
				default:
				}
			}
		}
	}
	return result.Outcome, fsm.Err(result.Outcome)
}

func (c *fakeCluster) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if err := c.checkReachable(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.proposed++
	mutate := c.mutateCommand
	c.mu.Unlock()
	cmd.Actor = c.Actor()
	applied := proto.Clone(cmd).(*fsmpb.Command)
	if mutate != nil {
		mutate(applied)
	}
	out, err := c.apply(cmd.Actor, applied)
	c.reconcileHosts()
	return out, err
}

// reconcileHosts has all hosts do what is desired of them; what one did may ask more of another.
func (c *fakeCluster) reconcileHosts() {
	for range c.reconcileRounds() {
		for _, h := range c.hosts {
			h.reconcile()
		}
	}
	for range 3 {
		for _, h := range c.hosts {
			h.reconcileSnapshots()
		}
	}
}

// reconcileRounds are more where what one host did asks more of its peer.
func (c *fakeCluster) reconcileRounds() int {
	for _, h := range c.hosts {
		if h.address != "" {
			return 6
		}
	}
	return 1
}

// checkReachable is what a member says while there is no quorum.
func (c *fakeCluster) checkReachable(ctx context.Context) error {
	c.mu.Lock()
	noQuorum, unresponsive := c.noQuorum, c.unresponsive
	c.mu.Unlock()
	if unresponsive {
		<-ctx.Done()
		return ctx.Err()
	}
	if noQuorum {
		return raftnode.ErrNotLeader
	}
	return ctx.Err()
}

func (c *fakeCluster) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	if err := c.checkReachable(ctx); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index, fn(c.state)
}

func (c *fakeCluster) View(fn func(*fsm.State) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fn(c.state)
}

func (c *fakeCluster) WatchSnapshot(id fsm.SnapshotID) (<-chan struct{}, func()) { return c.watch(id) }
func (c *fakeCluster) Site() string                                              { return cmp.Or(c.site, fsm.DefaultSite) }
func (c *fakeCluster) Actor() string                                             { return cmp.Or(c.actor, "controller/c"+cmp.Or(c.site, "1")) }

// actAs has the endpoint be one of another site from now on.
func (c *fakeCluster) actAs(t testing.TB, site string) {
	t.Helper()
	c.site = site
	_, err := c.apply("controller/c"+site, &fsmpb.Command{Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{
		Name: "c" + site, MemberId: "member of " + site, Site: site,
	}}})
	require.NoError(t, err)
}

func (c *fakeCluster) WatchGroup(id fsm.GroupSnapshotID) (<-chan struct{}, func()) {
	return c.watch(id)
}

// WatchVolumes is of one volume, or of many.
func (c *fakeCluster) WatchVolumes(ids ...fsm.VolumeID) (<-chan struct{}, func()) {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return c.watch(all...)
}

func (c *fakeCluster) watch(ids ...any) (<-chan struct{}, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wake := make(chan struct{}, 1)
	for _, id := range ids {
		if c.watchers[id] == nil {
			c.watchers[id] = map[chan struct{}]bool{}
		}
		c.watchers[id][wake] = true
	}
	return wake, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range ids {
			delete(c.watchers[id], wake)
		}
	}
}

// update changes how the cluster behaves.
func (c *fakeCluster) update(change func(*fakeCluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// volumes are the ids in the state, in any phase.
func (c *fakeCluster) volumes() (ids []fsm.VolumeID) {
	_ = c.View(func(s *fsm.State) error {
		for v := range s.Volumes("") {
			ids = append(ids, v.ID)
		}
		return nil
	})
	return ids
}

// proposedCount is how many commands controllers had applied.
func (c *fakeCluster) proposedCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proposed
}

func (c *fakeCluster) watcherCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, watchers := range c.watchers {
		n += len(watchers)
	}
	return n
}

// changeLeader has another member lead, which read all that it knows from a dump.
func (c *fakeCluster) changeLeader(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var dump bytes.Buffer
	require.NoError(t, c.state.WriteDump(&dump, 1))
	state, _, err := fsm.ReadDump(&dump)
	require.NoError(t, err)
	require.Equal(t, c.state.Hash(), state.Hash())
	c.state = state
}
