package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// The parts of an Agent. A part knows the table, and the parts that its struct names. None has
// state of its own but reporter, whose batches have their own lock.
type (
	// recorder writes the records of volumes and snapshots.
	recorder struct{ *table }
	// poolSet finds the backend of a volume or a snapshot.
	poolSet struct{ *table }
	// proposer proposes commands.
	proposer struct{ *table }
	// observer observes the host.
	observer struct {
		*table
		poolSet *poolSet
		records *recorder
	}
	// outbox has teardowns reported, in their order.
	outbox struct {
		*table
		observer *observer
		records  *recorder
		reports  *reporter
	}
	// volumeReporter reports what the log does not have of a volume.
	volumeReporter struct {
		*table
		outbox  *outbox
		records *recorder
		reports *reporter
	}
	// replicaReporter reports what the log does not have of a replica.
	replicaReporter struct {
		*table
		observer      *observer
		volumeReports *volumeReporter
	}
	// snapshotReporter reports what the log does not have of a snapshot.
	snapshotReporter struct {
		*table
		reports *reporter
	}
	// sourceFreezer keeps a volume unchanged while a snapshot of it is taken.
	sourceFreezer struct {
		*table
		observer *observer
	}
	// victimKeeper keeps a copy of a victim's data before they are discarded.
	victimKeeper struct {
		*table
		poolSet  *poolSet
		proposer *proposer
		records  *recorder
		reports  *reporter
	}
	// keptScanner reports kept copies that the log does not have.
	keptScanner struct {
		*table
		reports *reporter
	}
	// fencePeer asks the log whether a primary may continue without its peer.
	fencePeer struct {
		*table
		observer *observer
		proposer *proposer
	}
	// suspendedWatcher ends suspended I/O as the log decides.
	suspendedWatcher struct {
		*table
		fencePeer *fencePeer
		observer  *observer
	}
	// replicaWorker brings replicas to their desired state.
	replicaWorker struct {
		*table
		observer     *observer
		poolSet      *poolSet
		proposer     *proposer
		records      *recorder
		suspended    *suspendedWatcher
		victims      *victimKeeper
		volumeWorker *volumeWorker
	}
	// volumeWorker brings volumes to their desired state.
	volumeWorker struct {
		*table
		freezer        *sourceFreezer
		observer       *observer
		outbox         *outbox
		poolSet        *poolSet
		records        *recorder
		replicaReports *replicaReporter
		replicaWorker  *replicaWorker
		reports        *reporter
		volumeReports  *volumeReporter
	}
	// snapshotWorker brings snapshots to their desired state.
	snapshotWorker struct {
		*table
		freezer         *sourceFreezer
		observer        *observer
		poolSet         *poolSet
		records         *recorder
		reports         *reporter
		snapshotReports *snapshotReporter
	}
	// calls runs one call on a volume at a time.
	calls struct {
		*table
		records *recorder
	}
	// stager serves NodeStageVolume and NodeUnstageVolume.
	stager struct {
		*table
		observer      *observer
		outbox        *outbox
		proposer      *proposer
		records       *recorder
		volumeReports *volumeReporter
		volumeWorker  *volumeWorker
	}
	// targetBinder serves NodePublishVolume and NodeUnpublishVolume.
	targetBinder struct {
		*table
		observer      *observer
		outbox        *outbox
		proposer      *proposer
		records       *recorder
		volumeReports *volumeReporter
		volumeWorker  *volumeWorker
	}
	// expander serves NodeExpandVolume.
	expander struct {
		*table
		observer     *observer
		volumeWorker *volumeWorker
	}
	// healthChecker checks the volumes' health.
	healthChecker struct {
		*table
		poolSet *poolSet
	}
	// sessionIntake takes in the updates of the session.
	sessionIntake struct{ *table }
	// cleaner takes everything down.
	cleaner struct {
		*table
		observer     *observer
		records      *recorder
		volumeWorker *volumeWorker
	}
	// lister lists what is on the host.
	lister struct {
		*table
		poolSet *poolSet
	}
)

// assemble makes an Agent of its parts; it reads no records.
func assemble(cfg Config) *Agent {
	t := &table{
		env:         &env{Config: cfg, pools: map[fsm.PoolID]executor.Backend{}, metrics: newMetrics(cfg.Metrics)},
		volumeQueue: newWorkQueue[fsm.VolumeID](), snapshotQueue: newWorkQueue[fsm.SnapshotID](),
		volumes: map[fsm.VolumeID]*volume{}, targetOwners: map[string]fsm.VolumeID{}, snapshots: map[fsm.SnapshotID]*snapshotState{},
		awaitingSession: map[fsm.VolumeID]struct{}{}, keptScan: make(chan struct{}, 1),
	}
	for _, pool := range cfg.Pools {
		t.pools[pool.ID()] = pool
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	e := &Agent{table: t, records: &recorder{t}, poolSet: &poolSet{t}, proposer: &proposer{t}, intake: &sessionIntake{t}}
	e.calls = &calls{t, e.records}
	e.health = &healthChecker{t, e.poolSet}
	e.lister = &lister{t, e.poolSet}
	e.observer = &observer{t, e.poolSet, e.records}
	e.assembleReports()
	e.assembleWorkers()
	e.assembleCalls()
	return e
}

func (e *Agent) assembleReports() {
	t := e.table
	e.reports = &reporter{table: t, proposer: e.proposer}
	e.reports.batches.propose = e.reports.proposeReport
	e.outbox = &outbox{t, e.observer, e.records, e.reports}
	e.volumeReports = &volumeReporter{t, e.outbox, e.records, e.reports}
	e.replicaReports = &replicaReporter{t, e.observer, e.volumeReports}
	e.snapshotReports = &snapshotReporter{t, e.reports}
	e.keptCopies = &keptScanner{t, e.reports}
}

// assembleWorkers links the volumes' and the replicas' worker, which need each other: one takes
// the volume down before its replica, the other brings the replica up before its volume.
func (e *Agent) assembleWorkers() {
	t := e.table
	e.freezer = &sourceFreezer{t, e.observer}
	e.fencePeer = &fencePeer{t, e.observer, e.proposer}
	e.suspended = &suspendedWatcher{t, e.fencePeer, e.observer}
	victims := &victimKeeper{t, e.poolSet, e.proposer, e.records, e.reports}
	e.volumeWorker = &volumeWorker{t, e.freezer, e.observer, e.outbox, e.poolSet, e.records, e.replicaReports, nil, e.reports, e.volumeReports}
	e.replicaWorker = &replicaWorker{t, e.observer, e.poolSet, e.proposer, e.records, e.suspended, victims, e.volumeWorker}
	e.volumeWorker.replicaWorker = e.replicaWorker
	e.snapshotWorker = &snapshotWorker{t, e.freezer, e.observer, e.poolSet, e.records, e.reports, e.snapshotReports}
}

func (e *Agent) assembleCalls() {
	t := e.table
	e.stager = &stager{t, e.observer, e.outbox, e.proposer, e.records, e.volumeReports, e.volumeWorker}
	e.binder = &targetBinder{t, e.observer, e.outbox, e.proposer, e.records, e.volumeReports, e.volumeWorker}
	e.expander = &expander{t, e.observer, e.volumeWorker}
	e.cleaner = &cleaner{t, e.observer, e.records, e.volumeWorker}
}
