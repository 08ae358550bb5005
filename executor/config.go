package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Config is what an executor is made of.
type Config struct {
	// Node is the host's name in the log.
	Node fsm.NodeID
	// Host is the host's identity and data folder, from OpenHost.
	Host *Host
	// Pools are the host's, each with its own id.
	Pools []Backend
	// Mounter mounts on this host.
	Mounter Mounter
	// Freezer, Grower and Throttle may be nil: then nothing that is mounted is cut,
	// filesystems keep their sizes and identities, and limits are refused. Snapshots
	// are offered by pools that are a SnapshotBackend.
	Freezer         Freezer
	FilesystemTools FilesystemTools
	Throttle        Throttle
	// MaxFreeze bounds how long a filesystem is frozen for a cut (S19); 0: 10 s.
	MaxFreeze time.Duration
	// HealthInterval is how often volumes are examined; 0: 10 s.
	HealthInterval time.Duration
	// Replicator keeps replicated volumes; nil: this host holds none. With it go the
	// address that peers replicate to, the public key that they know this host by, and
	// what derives a resource's secret from a peer's key.
	Replicator         Replicator
	ReplicationAddress string
	PublicKey          []byte
	DeriveSecret       func(peerPublic []byte, id fsm.VolumeID) (string, error)
	// VerifyInterval is how often a volume's replicas are compared; 0: never.
	VerifyInterval time.Duration
	// SelfFence restarts the host when a replica that lost could not be torn down for
	// SelfFenceAfter (0: a minute); nil: it stays frozen, and says so (S9).
	SelfFence func()
	// HandlerGrace is how long the kernel's handler has for a freeze before this process
	// ends it; 0: 3 s.
	HandlerGrace   time.Duration
	SelfFenceAfter time.Duration
	// Proposer proposes commands; nil for an executor that only cleans.
	Proposer Proposer
	// Faults is told of every point in FaultPoints; nil in production.
	Faults Faults
	// Logger and Metrics may be nil.
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Workers bounds how many volumes are worked on at once in the background; 0: 16.
	Workers int
	// CatchUpTimeout is how long a call waits for the session to catch up with the log; 0: 5 s.
	CatchUpTimeout time.Duration
	// MapTimeout is how long one page of a block map is looked for; 0: 20 s.
	MapTimeout time.Duration
	// ResyncInterval is how often volumes are looked at that nothing happened to; 0: 30 s.
	ResyncInterval time.Duration

	// What the host registers with beside its identity.
	Labels       []fsm.Label // without the topology key itself
	Site         string
	MaxVolumes   uint32 // 0: unlimited
	Version      string
	FeatureLevel uint32
	// OvercommitPercent is of pools of a kind that OvercommitPercents does not name.
	OvercommitPercent  uint32
	OvercommitPercents map[string]uint32 // by a backend's Kind
	MinFree            int64             // bytes
}

// Executor makes a host what the log says. All methods may be called at once.
type Executor struct {
	*table
	binder          *targetBinder
	calls           *calls
	cleaner         *cleaner
	expander        *expander
	fencePeer       *fencePeer
	freezer         *sourceFreezer
	health          *healthChecker
	intake          *sessionIntake
	keptCopies      *keptScanner
	lister          *lister
	observer        *observer
	outbox          *outbox
	poolSet         *poolSet
	proposer        *proposer
	records         *recorder
	replicaReports  *replicaReporter
	replicaWorker   *replicaWorker
	reports         *reporter
	snapshotReports *snapshotReporter
	snapshotWorker  *snapshotWorker
	stager          *stager
	suspended       *suspendedWatcher
	volumeReports   *volumeReporter
	volumeWorker    *volumeWorker
}

const (
	defaultWorkers   = 16
	defaultResync    = 30 * time.Second
	defaultCatchUp   = 5 * time.Second
	defaultMaxFreeze = 10 * time.Second
	defaultHealth    = 10 * time.Second
	defaultGrace     = 3 * time.Second
)

// New reads the host's records. Nothing is done to the host before Start or Clean.
func New(cfg Config) (*Executor, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Workers = cmp.Or(cfg.Workers, defaultWorkers)
	cfg.CatchUpTimeout = cmp.Or(cfg.CatchUpTimeout, defaultCatchUp)
	cfg.ResyncInterval = cmp.Or(cfg.ResyncInterval, defaultResync)
	cfg.MaxFreeze = cmp.Or(cfg.MaxFreeze, defaultMaxFreeze)
	cfg.HealthInterval = cmp.Or(cfg.HealthInterval, defaultHealth)
	cfg.HandlerGrace = cmp.Or(cfg.HandlerGrace, defaultGrace)
	e := assemble(cfg)
	var err error
	if e.acted, err = openActedEpoch(cfg.Host.Dir()); err != nil {
		return nil, err
	}
	if err := errors.Join(e.records.loadVolumes(), e.records.loadSnapshots()); err != nil {
		return nil, err
	}
	e.metrics.exportGauges(e)
	return e, nil
}

// loadVolumes reads what the host keeps of volumes that are, or were, up.
func (rc *recorder) loadVolumes() error {
	ids, err := recordedVolumes(rc.Host.Dir())
	if err != nil {
		return err
	}
	for _, id := range ids {
		j, err := openRecordFile(rc.Host.Dir(), id)
		if err != nil {
			return err
		}
		v := rc.volumeEntry(id)
		v.record = j
		rc.refreshRecordCopy(v)
		rc.acted.advance(j.Floor, nil)
	}
	return nil
}

// Start thaws what an earlier process left frozen (S19), then begins to work in the
// background, on what Update brings.
func (e *Executor) Start() {
	e.freezer.thawLeftovers()
	for range e.Workers {
		e.wg.Go(e.volumeWorker.run)
		e.wg.Go(e.snapshotWorker.run)
	}
	e.wg.Go(e.resync)
	e.wg.Go(e.health.checkHealthLoop)
	if e.Replicator != nil {
		e.wg.Go(e.suspended.watchSuspended)
		e.wg.Go(e.replicaWorker.watchReplicas)
		e.wg.Go(e.keptCopies.keptScanLoop)
	}
}

// ActedEpoch is the highest epoch of wishes that this host acted on, with the id of its
// incarnation: a controller that has not applied as much must wait (S14).
func (e *Executor) ActedEpoch() (fsm.Epoch, []byte) { return e.acted.current() }

// Register is what the host says of itself to a controller. It measures the pools.
func (e *Executor) Register() *fsmpb.RegisterNode {
	at, _ := e.ActedEpoch()
	r := &fsmpb.RegisterNode{
		NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.BootID,
		Site: e.Site, MaxVolumes: e.MaxVolumes, Version: e.Version, FeatureLevel: e.FeatureLevel, Incarnation: at.Incarnation,
	}
	r.Replication = e.replicationOffer()
	for _, l := range e.Labels {
		r.Labels = append(r.Labels, &fsmpb.Label{Key: l.Key, Value: l.Value})
	}
	for _, pool := range e.Pools {
		facts := pool.Facts(e.ctx)
		r.Pools = append(r.Pools, &fsmpb.Pool{
			PoolId: string(pool.ID()), Backend: pool.Kind(), CapacityBytes: e.capacity(facts),
			OvercommitPercent: cmp.Or(e.OvercommitPercents[pool.Kind()], e.OvercommitPercent), MinFreeBytes: e.MinFree,
		})
	}
	return r
}

func (e *Executor) capacity(facts PoolFacts) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Host.capacity(facts)
}

// PoolFacts measures the pools.
func (e *Executor) PoolFacts(ctx context.Context) []PoolFacts {
	var all []PoolFacts
	for _, pool := range e.Pools {
		facts := pool.Facts(ctx)
		b, snapshots := pool.(SnapshotBackend)
		facts.FullCopies = snapshots && !facts.Absent && !b.SharesBlocks()
		all = append(all, facts)
	}
	return all
}

// Shutdown stops all work. Mounts and devices of staged volumes stay, others are
// detached. It waits for what is under way until ctx ends.
func (e *Executor) Shutdown(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.volumeQueue.close()
	e.snapshotQueue.close()
	done := make(chan struct{})
	go func() {
		e.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("stop the executor: work is still under way: %w", ctx.Err())
	}
	return errors.Join(e.freezer.releaseHolds(ctx), e.detachUnstaged(ctx))
}

// detachUnstaged takes down the devices that nothing is staged on.
func (e *Executor) detachUnstaged(ctx context.Context) error {
	var errs []error
	for _, pool := range e.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			continue // an absent pool has no device that could be told from another's
		}
		for _, item := range items {
			if item.Kind != KindDevice || !item.Volume.Valid() || e.isStaged(item.Volume) {
				continue
			}
			if err := pool.Deactivate(ctx, item.Volume); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (t *table) isStaged(id fsm.VolumeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.volumes[id]
	return v != nil && (v.recordCopy.Staging != nil || v.recordCopy.Replica != nil)
}
