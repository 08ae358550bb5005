package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Agent makes a host what the log desires of it. All methods may be called concurrently.
type Agent struct {
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

// New reads the host's records. It changes nothing on the host before Start or Clean.
func New(cfg Config) (*Agent, error) {
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
	if e.acted, err = records.OpenActedEpoch(cfg.Host.Dir()); err != nil {
		return nil, err
	}
	if err := errors.Join(e.records.loadVolumes(), e.records.loadSnapshots()); err != nil {
		return nil, err
	}
	e.metrics.exportGauges(e)
	return e, nil
}

// loadVolumes reads the records of volumes that are, or were, up.
func (rc *recorder) loadVolumes() error {
	ids, err := records.RecordedVolumes(rc.Host.Dir())
	if err != nil {
		return err
	}
	for _, id := range ids {
		j, err := records.OpenRecordFile(rc.Host.Dir(), id)
		if err != nil {
			return err
		}
		v := rc.volumeEntry(id)
		v.record = j
		rc.refreshRecordCopy(v)
		rc.acted.Advance(j.Floor, nil)
	}
	return nil
}

// Start thaws what an earlier process left frozen (S19), then works in the background on what
// Update delivers.
func (e *Agent) Start() {
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

// Shutdown stops all work. Mounts and devices of staged volumes stay, other devices are
// deactivated. It waits for the work under way until ctx ends.
func (e *Agent) Shutdown(ctx context.Context) error {
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

// detachUnstaged deactivates the devices of volumes that are not staged.
func (e *Agent) detachUnstaged(ctx context.Context) error {
	var errs []error
	for _, pool := range e.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			continue // an absent pool cannot tell its devices from another's
		}
		for _, item := range items {
			if item.Kind != executor.KindDevice || !item.Volume.Valid() || e.isStaged(item.Volume) {
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
