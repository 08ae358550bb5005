package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// The parts of an Agent. A part knows the table, and the parts that its struct names. None has
// state of its own but reporter, whose batches have their own lock, and lister, which reads one header at a time.
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
	// victimKeeper keeps a copy of a victim's data before that is discarded.
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
		space          *spaceWorker
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
	// keyRotator serves EncryptionKeyRotate.
	keyRotator struct {
		*table
		observer *observer
		outbox   *outbox
		proposer *proposer
		records  *recorder
		reports  *reporter
	}
	// reclaimer discards what filesystems do not use.
	reclaimer struct {
		*table
		observer     *observer
		poolSet      *poolSet
		volumeWorker *volumeWorker
	}
	// spaceWorker reclaims the space of volumes that nobody uses.
	spaceWorker struct {
		*table
		calls         *calls
		outbox        *outbox
		reclaimer     *reclaimer
		stager        *stager
		volumeReports *volumeReporter
		volumeWorker  *volumeWorker
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
		reading chan struct{} // holds a token while a header is read
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
	a := &Agent{table: t, records: &recorder{t}, poolSet: &poolSet{t}, proposer: &proposer{t}, intake: &sessionIntake{t}}
	a.calls = &calls{t, a.records}
	a.health = &healthChecker{t, a.poolSet}
	a.lister = &lister{t, a.poolSet, make(chan struct{}, 1)}
	a.observer = &observer{t, a.poolSet, a.records}
	a.assembleReports()
	a.assembleWorkers()
	a.assembleCalls()
	return a
}

func (a *Agent) assembleReports() {
	t := a.table
	a.reports = &reporter{table: t, proposer: a.proposer}
	a.reports.batches.propose = a.reports.proposeReport
	a.outbox = &outbox{t, a.observer, a.records, a.reports}
	a.volumeReports = &volumeReporter{t, a.outbox, a.records, a.reports}
	a.replicaReports = &replicaReporter{t, a.observer, a.volumeReports}
	a.snapshotReports = &snapshotReporter{t, a.reports}
	a.keptCopies = &keptScanner{t, a.reports}
}

// assembleWorkers links the volumes' and the replicas' worker, which need each other: one takes
// the volume down before its replica, the other brings the replica up before its volume.
func (a *Agent) assembleWorkers() {
	t := a.table
	a.freezer = &sourceFreezer{t, a.observer}
	a.fencePeer = &fencePeer{t, a.observer, a.proposer}
	a.suspended = &suspendedWatcher{t, a.fencePeer, a.observer}
	victims := &victimKeeper{t, a.poolSet, a.proposer, a.records, a.reports}
	a.volumeWorker = &volumeWorker{t, a.freezer, a.observer, a.outbox, a.poolSet, a.records, a.replicaReports, nil, a.reports, nil, a.volumeReports}
	a.replicaWorker = &replicaWorker{t, a.observer, a.poolSet, a.proposer, a.records, a.suspended, victims, a.volumeWorker}
	a.volumeWorker.replicaWorker = a.replicaWorker
	a.snapshotWorker = &snapshotWorker{t, a.freezer, a.observer, a.poolSet, a.records, a.reports, a.snapshotReports}
}

func (a *Agent) assembleCalls() {
	t := a.table
	a.stager = &stager{t, a.observer, a.outbox, a.proposer, a.records, a.volumeReports, a.volumeWorker}
	a.binder = &targetBinder{t, a.observer, a.outbox, a.proposer, a.records, a.volumeReports, a.volumeWorker}
	a.expander = &expander{t, a.observer, a.volumeWorker}
	a.rotator = &keyRotator{t, a.observer, a.outbox, a.proposer, a.records, a.reports}
	a.reclaimer = &reclaimer{t, a.observer, a.poolSet, a.volumeWorker}
	a.volumeWorker.space = &spaceWorker{t, a.calls, a.outbox, a.reclaimer, a.stager, a.volumeReports, a.volumeWorker}
	a.cleaner = &cleaner{t, a.observer, a.records, a.volumeWorker}
}
