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
	reclaimer       *reclaimer
	rotator         *keyRotator
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
	cfg.NodeTimeout = cmp.Or(cfg.NodeTimeout, defaultTimeout)
	a := assemble(cfg)
	var err error
	if a.acted, err = records.OpenActedEpoch(cfg.Host.Dir()); err != nil {
		return nil, err
	}
	if a.detached, err = records.OpenDetachedDisks(cfg.Host.Dir(), cfg.Host.BootID); err != nil {
		return nil, err
	}
	if err := errors.Join(a.records.loadVolumes(), a.records.loadSnapshots()); err != nil {
		return nil, err
	}
	a.metrics.exportGauges(a)
	return a, nil
}

// loadVolumes reads the records of volumes that are, or were, up.
func (rc *recorder) loadVolumes() error {
	ids, err := records.RecordedVolumes(rc.Host.Dir())
	if err != nil {
		return err
	}
	for _, id := range ids {
		file, err := records.OpenRecordFile(rc.Host.Dir(), id)
		if err != nil {
			return err
		}
		v := rc.volumeEntry(id)
		v.record, v.replica.detachedAttachment = file, rc.detached.Attachment(id)
		rc.refreshRecordCopy(v)
		rc.acted.Advance(file.Floor, nil)
	}
	return nil
}

// Start thaws what an earlier process left frozen (S19), then works in the background on what
// Update delivers.
func (a *Agent) Start() {
	a.freezer.thawLeftovers()
	for range a.Workers {
		a.wg.Go(a.volumeWorker.run)
		a.wg.Go(a.snapshotWorker.run)
	}
	a.wg.Go(a.resync)
	a.wg.Go(a.health.checkHealthLoop)
	if a.Replicator != nil {
		a.wg.Go(a.suspended.watchSuspended)
		a.wg.Go(a.replicaWorker.watchReplicas)
		a.wg.Go(a.keptCopies.keptScanLoop)
	}
}

// Shutdown stops all work. Mounts and devices of staged volumes stay, other devices are
// deactivated. It waits for the work under way until ctx ends.
func (a *Agent) Shutdown(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.volumeQueue.close()
	a.snapshotQueue.close()
	done := make(chan struct{})
	go func() {
		a.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("stop the executor: work is still under way: %w", ctx.Err())
	}
	return errors.Join(a.freezer.releaseHolds(ctx), a.detachUnstaged(ctx))
}

// detachUnstaged deactivates the devices of volumes that are not staged.
func (a *Agent) detachUnstaged(ctx context.Context) error {
	var errs []error
	for _, pool := range a.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			continue // an absent pool cannot tell its devices from another's
		}
		for _, item := range items {
			if item.Kind != executor.KindDevice || !item.Volume.Valid() || a.isStaged(item.Volume) {
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
