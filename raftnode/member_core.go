package raftnode

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// core is what every part of a member needs. Its fields are set in Open, before the
// part that uses them runs.
type core struct {
	cfg Config
	log *slog.Logger
	id  string // Raft's
	// processID is random, new at each start of the process: it tells it from one that
	// runs on a copy of the data directory.
	processID string

	storage   *storage
	machine   *machine
	transport *transport
	raft      *raft.Raft
	raftCalls raftCalls
	tracker   *leaderTracker
	peers     *peers

	started  chan struct{}   // closed when every part runs
	lifetime context.Context // done when the member closes
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	fatalOnce   sync.Once
	fatalReason atomic.Pointer[string] // why this process exits
	onFatal     func()                 // stops the member without a transfer of leadership
}

func newCore(cfg Config) *core {
	c := &core{cfg: cfg, processID: uuid.NewString(), started: make(chan struct{})}
	c.log = cfg.Logger.With("member", cfg.Name)
	c.lifetime, c.cancel = context.WithCancel(context.Background())
	return c
}

// atConfiguredAddress tells whether the configuration has this member at its own address.
func (c *core) atConfiguredAddress() bool {
	self, configured := c.serverOf(c.id)
	return configured && string(self.Address) == c.cfg.Advertise
}

// spawn runs something until the member closes.
func (c *core) spawn(fn func(context.Context)) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		fn(c.lifetime)
	}()
}

// runEvery calls fn at an interval until the context is done.
func runEvery(ctx context.Context, interval time.Duration, fn func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fn()
		case <-ctx.Done():
			return
		}
	}
}

// fatal exits the process, because going on could do harm. It returns only in tests.
func (c *core) fatal(code int, reason string) {
	c.fatalOnce.Do(func() {
		c.fatalReason.Store(&reason)
		c.log.Error("exiting", "code", code, "why", reason)
		c.cfg.Exit(code)
		go func() {
			<-c.started
			c.machine.halted.Store(true)
			c.onFatal()
		}()
	})
}

// servers is the latest configuration; it must not be changed.
func (c *core) servers() []raft.Server {
	return c.raft.GetConfiguration().Configuration().Servers
}

func (c *core) voters() []raft.Server {
	return votersOf(c.raft)
}

func votersOf(r *raft.Raft) []raft.Server {
	servers := r.GetConfiguration().Configuration().Servers
	return slices.DeleteFunc(slices.Clone(servers), func(s raft.Server) bool { return s.Suffrage != raft.Voter })
}

func (c *core) serverOf(id string) (raft.Server, bool) {
	servers := c.servers()
	if i := slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.ID) == id }); i >= 0 {
		return servers[i], true
	}
	return raft.Server{}, false
}

// recordClusterID records which cluster the data directory belongs to (S21).
func (c *core) recordClusterID(cluster string) error {
	if c.storage.clusterID() == cluster {
		return nil
	}
	return c.storage.setClusterID(cluster)
}

// inConfiguration tells whether the newest configuration here, committed or not, has this member.
func (c *core) inConfiguration() bool {
	_, in := c.serverOf(c.id)
	return in
}

// targetFor is the target of connections to a member of this cluster.
func (c *core) targetFor(id string) *raftpb.Target {
	return &raftpb.Target{ClusterId: c.storage.clusterID(), MemberId: id}
}

// dialsUntargeted tells whether a member may still be of a build that knows no targets.
func (c *core) dialsUntargeted() bool { return c.machine.cluster().FeatureLevel < fsm.Level2 }

// waitApplied waits until the machine was given the entry at index, or the member closes. Raft
// gives it commands and configurations only; waitIndex takes any index.
func (c *core) waitApplied(ctx context.Context, index uint64) error {
	if c.machine.applied.reached.Load() >= index {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.lifetime, func() { cancel(ErrShutdown) })
	defer stop()
	return c.machine.applied.wait(ctx, index)
}
