package executor

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportRetry is how long to wait with a report that the log did not take.
const reportRetry = 500 * time.Millisecond

// run looks at one queued volume after the other.
func (w *volumeWorker) run() {
	work(w.volumeQueue, w.take, w.reconcile, w.unlock)
}

// take locks a volume that nobody has, nil of another.
func (w *volumeWorker) take(id fsm.VolumeID) *volume {
	w.mu.Lock()
	v := w.volumes[id]
	w.mu.Unlock()
	if v != nil && w.tryLock(v) {
		return v
	}
	return nil
}

// resync looks at every volume from time to time: what people do to a host's
// images and mounts wakes nobody.
func (e *Executor) resync() {
	ticker := time.NewTicker(e.ResyncInterval)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
			e.mu.Lock()
			for id := range e.volumes {
				e.volumeQueue.add(id)
			}
			for id := range e.snapshots {
				e.snapshotQueue.add(id)
			}
			e.mu.Unlock()
		}
	}
}

// reconcile looks at the volume once; a failure is tried again later, and told
// where an operation waits for it. The caller holds the lock.
func (w *volumeWorker) reconcile(v *volume) {
	w.resetBackoff(v)
	w.look(looked{
		open:     func() error { return w.records.openRecord(v) },
		converge: func(ctx context.Context) error { return w.converge(ctx, v) },
		done: func() {
			v.failures = 0
			w.forgetVolume(v)
		},
		failed: func(err error) {
			w.parkVolume(v, err)
			w.volumeReports.reportFailure(v, err)
			v.failures++
			w.volumeQueue.addAfter(v.id, retryDelay(v.failures))
		},
	})
}

// resetBackoff starts counting failures anew when an operator asked for a retry.
func (w *volumeWorker) resetBackoff(v *volume) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v.limitsStep = false
	if v.desired == nil {
		return
	}
	v.lastTried = v.desired
	if now := (attempt{v.desired.Operation, v.desired.Attempt}); now != v.failedAttempt {
		v.failedAttempt, v.failures = now, 0
	}
}

// maxConvergeRounds bounds how often one look at a volume acts and looks again.
const maxConvergeRounds = 4

// converge brings the volume to where it must be without a call, and says what the
// log does not know of it.
func (w *volumeWorker) converge(ctx context.Context, v *volume) error {
	for range maxConvergeRounds {
		replicaErr := w.replicaWorker.driveReplica(ctx, v) // what it cannot do yet keeps nothing from being told
		s, at, err := w.observer.view(ctx, v)
		if err != nil {
			return errors.Join(err, replicaErr)
		}
		if unkillableDone(replicaErr) != nil { // a child that cannot be killed has the device
			return errors.Join(replicaErr, w.replicaReports.reportReplica(ctx, v, s))
		}
		want := backgroundSpec(s)
		acted, err := w.runBackground(ctx, v, &want, at, s.incarnationID)
		if err != nil {
			return errors.Join(err, w.replicaReports.reportReplica(ctx, v, s), replicaErr)
		}
		if !acted {
			return errors.Join(w.reportConverged(ctx, v, s), replicaErr)
		}
	}
	return fmt.Errorf("volume %s does not stay as it is made", v.id)
}

// settled says what the log does not know of a volume of which nothing is to be done.
func (w *volumeWorker) reportConverged(ctx context.Context, v *volume, s *volumeView) error {
	if teardowns := w.outbox.unackedTeardowns(v, missedTeardowns(s)); len(teardowns) > 0 {
		if err := w.outbox.queueTeardowns(v, teardowns...); err != nil {
			return err
		}
	}
	if err := errors.Join(w.replicaReports.reportReplica(ctx, v, s), w.volumeReports.reportChanges(v, s)); err != nil {
		return err
	}
	return w.volumeReports.reportHealth(v)
}

// runBackground does what background found, and says whether there was anything to do.
func (w *volumeWorker) runBackground(ctx context.Context, v *volume, want *volumeSpec, at fsm.Epoch, incarnationID []byte) (bool, error) {
	j := &job{volumeWorker: w, v: v, want: want, at: at, incarnationID: incarnationID}
	switch {
	case want.takeDown, want.goal == fsm.GoalRemove && v.record.Staging != nil:
		return true, j.takeDown(ctx)
	case len(want.dropTargets) > 0:
		return true, j.dropTargets(ctx)
	}
	err := j.drive(ctx)
	return j.steps > 0, err
}

// tell sends what is owed and what is new, and does not wait for the log: tearing
// down must find the volume unlocked (S28).
func (r *volumeReporter) reportChanges(v *volume, s *volumeView) error {
	r.outbox.sendOutbox(r.ctx, v)
	for _, f := range unreportedFacts(s) {
		if r.isAcked(v, f) {
			continue
		}
		ob := &fsmpb.Observation{VolumeId: string(v.id), Epoch: epochProto(f.epoch)}
		f.fillObservation(ob, s)
		if !f.epoch.IsZero() && f.name != factLimitsApplied {
			number, err := r.records.reserveSequence(v)
			if err != nil {
				return err
			}
			ob.Sequence = number
		}
		r.sendFact(v, f, ob)
	}
	return nil
}

// put makes the fact the observation's. Facts of devices carry no number: they are
// taken only in the one phase of a volume's life that they belong to.
func (f fact) fillObservation(ob *fsmpb.Observation, s *volumeView) {
	size := s.have.Size
	switch f.name {
	case factDeviceExpanded:
		ob.Fact = &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: size}}
	case factLimitsApplied:
		ob.Fact = &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: s.desired.Limits.Proto()}}
	case factDeviceCreated:
		ob.Fact = &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: size}}
	case factDeviceGone:
		ob.Fact = &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}
	case factDeviceMissing:
		ob.Fact = &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: "its image is not in the pool"}}
	case factDevicePresent:
		ob.Fact = &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{SizeBytes: size}}
	case factStaged:
		ob.Fact = &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: f.path}}
	case factTargetBound:
		ob.Fact = &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: f.path}}
	}
}

// isAcked says so of a volume's fact.
func (t *table) isAcked(v *volume, f fact) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.reportedFacts.isAcked(f)
}

// noteAcked notes that the log took a volume's fact. The caller holds mu.
func (t *table) noteAcked(v *volume, f fact, at fsm.Epoch) {
	times := v.acked[f].count
	if f.name == factTornDown {
		times = 0 // somebody may wait for the end
	}
	t.volumeQueue.addAfter(v.id, v.noteAcked(f, at, times))
}

// send has one observation reported, unless it is under way.
func (r *volumeReporter) sendFact(v *volume, f fact, ob *fsmpb.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.reportedFacts.beginReport(f) {
		return
	}
	r.reports.send(reportBatch{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { r.onFactAnswer(v, f, at, err) }})
}

// onFactAnswer is the answer to send: what was not taken is looked at again.
func (r *volumeReporter) onFactAnswer(v *volume, f fact, at fsm.Epoch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unsaid := v.reportedFacts.endReport(f)
	if v.desired == nil {
		r.volumeQueue.add(v.id) // it may be dropped now
	}
	if f.name == factReplicaObserved || unsaid { // it may be otherwise by now, or not have counted
		r.volumeQueue.add(v.id)
	}
	switch {
	case err != nil && !errors.Is(err, errSuperseded):
		r.volumeQueue.addAfter(v.id, reportRetry)
	case at.Incarnation != r.session.at.Incarnation:
		r.volumeQueue.add(v.id) // a restored log may not have it (S1)
	case f.name == factCondition:
		v.ackedHealth = &f.path
		r.volumeQueue.add(v.id)
	case f.name == factLimitsApplied && v.desired != nil && f.path == fmt.Sprint(v.desired.Limits):
		v.ackedLimits = &v.desired.Limits
	case v.desiredAt.Compare(at) < 0:
		r.noteAcked(v, f, at)
	}
}

// failed says why an operation does not get on: at first each time, then ever
// more seldom.
func (r *volumeReporter) reportFailure(v *volume, err error) {
	r.logger(v).Warn("the volume is not as the log wants it", "error", err, "failures", v.failures+1)
	if v.record == nil {
		return
	}
	r.mu.Lock()
	w, actionable := v.desired, r.isActionable(v)
	r.mu.Unlock()
	if actionable {
		r.reportInUse(v, w, err)
	}
	if v.lastTried == nil { // the log began to want something of it only after it was looked at
		return
	}
	if w == nil || w.Operation == 0 || !actionable || isUnavailable(err) || isReplicaWait(w, err) || v.failures > 3 && v.failures&(v.failures-1) != 0 {
		return
	}
	failure := failureOf(operationStep(w), err)
	failure.Final = endsOperation(w, err, failure.Final)
	if r.atLevel2() {
		id, number := v.currentOperation()
		failure.OperationId, failure.Attempt = uint64(id), number
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_StepFailed{StepFailed: failure}}
	r.sendFact(v, fact{name: factStepFailed}, ob)
}

// currentOperation is the operation that the last look at the volume worked on.
func (v *volume) currentOperation() (fsm.OperationID, uint32) {
	w := v.lastTried
	if v.limitsStep && w.ModifyOperation != 0 {
		return w.ModifyOperation, w.ModifyAttempt
	}
	return w.Operation, w.Attempt
}

// reportInUse says what keeps a publication from ending whose end was asked for (S31), until
// the log has it.
func (r *volumeReporter) reportInUse(v *volume, w *fsm.DesiredVolume, err error) {
	if w == nil || w.Publication == nil || !w.Publication.Ending {
		return
	}
	f := fact{name: factStagingInUse, path: clipText(err.Error()), epoch: w.Publication.Epoch}
	if f.path != w.Publication.UsedBy && !r.isAcked(v, f) {
		r.sendFact(v, f, &fsmpb.Observation{VolumeId: string(v.id), Epoch: epochProto(f.epoch),
			Fact: &fsmpb.Observation_StagingInUse{StagingInUse: &fsmpb.StagingInUse{Detail: f.path}}})
	}
}

// endsOperation: obligations never end by a failure. An empty volume's create ends
// only where trying again makes no difference; a copy, a growth or new limits also
// where the host refused for good.
func endsOperation(w *fsm.DesiredVolume, err error, refused bool) bool {
	switch w.Goal {
	case fsm.GoalCreate:
		return noSpace(err) || isPermanent(err) || refused && !w.Source.IsZero()
	case fsm.GoalKeep:
		return refused && w.Teardown == nil
	case fsm.GoalRemove:
	}
	return false
}

func operationStep(w *fsm.DesiredVolume) string {
	switch {
	case w.Goal == fsm.GoalCreate:
		return "create"
	case w.Goal == fsm.GoalRemove:
		return "remove"
	case w.Teardown != nil:
		return "teardown"
	}
	return "change"
}

// noSpace: the pool is full, or refuses what would fill it.
func noSpace(err error) bool {
	var rej *fsm.Rejection
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.As(err, &rej) && rej.Reason == fsm.NoCapacity
}

// isPermanent: trying again makes no difference.
func isPermanent(err error) bool {
	var rej *fsm.Rejection
	return errors.Is(err, syscall.EFBIG) || errors.As(err, &rej) && rej.Reason == fsm.Incompatible
}

// drop forgets a volume that the log does not know and of which nothing is up.
func (w *volumeWorker) forgetVolume(v *volume) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session.number == 0 || v.desired != nil || v.call != nil || v.outboxReport != nil || len(v.inFlight) > 0 || !v.record.empty() {
		return
	}
	if err := v.record.remove(); err != nil {
		w.Logger.Warn("a record is left behind", "volume", v.id, "error", err)
	}
	delete(w.volumes, v.id)
}
