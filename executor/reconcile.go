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

// resendDelay is how long a fact may take to come back as a wish, at first.
const resendDelay = time.Second

// volumeWorker looks at one queued volume after the other.
func (e *Executor) volumeWorker() {
	for {
		id, ok := e.volumeQueue.get()
		if !ok {
			return
		}
		e.mu.Lock()
		v := e.volumes[id]
		e.mu.Unlock()
		if v != nil && e.tryLock(v) {
			e.reconcile(v)
			e.unlock(v)
		}
	}
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
func (e *Executor) reconcile(v *volume) {
	e.resetBackoff(v)
	err := e.openRecord(v)
	if err == nil {
		err = e.converge(e.ctx, v)
	}
	if err == nil {
		v.failures = 0
		e.forgetVolume(v)
		return
	}
	if e.ctx.Err() != nil {
		return
	}
	if errors.Is(err, errRequeued) {
		return
	}
	e.parkVolume(v, err)
	e.reportFailure(v, err)
	v.failures++
	e.volumeQueue.addAfter(v.id, retryDelay(v.failures))
}

// resetBackoff starts counting failures anew when an operator asked for a retry.
func (e *Executor) resetBackoff(v *volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
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
func (e *Executor) converge(ctx context.Context, v *volume) error {
	for range maxConvergeRounds {
		replicaErr := e.driveReplica(ctx, v) // what it cannot do yet keeps nothing from being told
		s, at, err := e.view(ctx, v)
		if err != nil {
			return errors.Join(err, replicaErr)
		}
		if unkillableDone(replicaErr) != nil { // a child that cannot be killed has the device
			return errors.Join(replicaErr, e.reportReplica(ctx, v, s))
		}
		want := backgroundSpec(s)
		acted, err := e.runBackground(ctx, v, &want, at, s.incarnationID)
		if err != nil {
			return errors.Join(err, e.reportReplica(ctx, v, s), replicaErr)
		}
		if !acted {
			return errors.Join(e.reportConverged(ctx, v, s), replicaErr)
		}
	}
	return fmt.Errorf("volume %s does not stay as it is made", v.id)
}

// settled says what the log does not know of a volume of which nothing is to be done.
func (e *Executor) reportConverged(ctx context.Context, v *volume, s *volumeView) error {
	if teardowns := e.unackedTeardowns(v, missedTeardowns(s)); len(teardowns) > 0 {
		if err := e.queueTeardowns(v, teardowns...); err != nil {
			return err
		}
	}
	if err := errors.Join(e.reportReplica(ctx, v, s), e.reportChanges(v, s)); err != nil {
		return err
	}
	return e.reportHealth(v)
}

// runBackground does what background found, and says whether there was anything to do.
func (e *Executor) runBackground(ctx context.Context, v *volume, want *volumeSpec, at fsm.Epoch, incarnationID []byte) (bool, error) {
	j := &job{Executor: e, v: v, want: want, at: at, incarnationID: incarnationID}
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
func (e *Executor) reportChanges(v *volume, s *volumeView) error {
	e.sendOutbox(e.ctx, v)
	for _, f := range unreportedFacts(s) {
		if e.isAcked(v, f) {
			continue
		}
		ob := &fsmpb.Observation{VolumeId: string(v.id), Epoch: epochProto(f.epoch)}
		f.fillObservation(ob, s)
		if !f.epoch.IsZero() && f.name != factLimitsApplied {
			number, err := e.reserveSequence(v)
			if err != nil {
				return err
			}
			ob.Sequence = number
		}
		e.sendFact(v, f, ob)
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

// isAcked: the log took it, and the wish that shows it has not come yet.
func (e *Executor) isAcked(v *volume, f fact) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	acked, ok := v.acked[f]
	return ok && time.Now().Before(acked.resendAt)
}

// noteAcked notes that the log took a fact. One that was overtaken by a later record is
// passed over without a word, so it is told again when no wish shows it; ever more
// seldom. The caller holds mu.
func (e *Executor) noteAcked(v *volume, f fact, at fsm.Epoch) {
	count := v.acked[f].count
	if f.name == factTornDown {
		count = 0 // somebody may wait for the end
	}
	delay := resendDelay << min(count, 8)
	v.acked[f] = ackedReport{at: at, resendAt: time.Now().Add(delay), count: count + 1}
	e.volumeQueue.addAfter(v.id, delay)
}

// send has one observation reported, unless it is under way.
func (e *Executor) sendFact(v *volume, f fact, ob *fsmpb.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, inFlight := v.inFlight[f]; inFlight {
		v.dirty = true // it may be passed over, and then nobody would say it again
		return
	}
	v.inFlight[f] = struct{}{}
	e.reporter.send(reportBatch{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { e.onFactAnswer(v, f, at, err) }})
}

// onFactAnswer is the answer to send: what was not taken is looked at again.
func (e *Executor) onFactAnswer(v *volume, f fact, at fsm.Epoch, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(v.inFlight, f)
	if v.desired == nil {
		e.volumeQueue.add(v.id) // it may be dropped now
	}
	if f.name == factReplicaObserved || v.dirty { // it may be otherwise by now, or not have counted
		v.dirty = false
		e.volumeQueue.add(v.id)
	}
	switch {
	case err != nil && !errors.Is(err, errSuperseded):
		e.volumeQueue.addAfter(v.id, reportRetry)
	case at.Incarnation != e.session.at.Incarnation:
		e.volumeQueue.add(v.id) // a restored log may not have it (S1)
	case f.name == factCondition:
		v.ackedHealth = &f.path
		e.volumeQueue.add(v.id)
	case f.name == factLimitsApplied && v.desired != nil && f.path == fmt.Sprint(v.desired.Limits):
		v.ackedLimits = &v.desired.Limits
	case v.desiredAt.Compare(at) < 0:
		e.noteAcked(v, f, at)
	}
}

// failed says why an operation does not get on: at first each time, then ever
// more seldom.
func (e *Executor) reportFailure(v *volume, err error) {
	e.logger(v).Warn("the volume is not as the log wants it", "error", err, "failures", v.failures+1)
	if v.record == nil {
		return
	}
	e.mu.Lock()
	w, actionable := v.desired, e.isActionable(v)
	e.mu.Unlock()
	if actionable {
		e.reportInUse(v, w, err)
	}
	if v.lastTried == nil { // the log began to want something of it only after it was looked at
		return
	}
	if w == nil || w.Operation == 0 || !actionable || isUnavailable(err) || isReplicaWait(w, err) || v.failures > 3 && v.failures&(v.failures-1) != 0 {
		return
	}
	failure := failureOf(operationStep(w), err)
	failure.Final = endsOperation(w, err, failure.Final)
	if e.atLevel2() {
		id, number := v.currentOperation()
		failure.OperationId, failure.Attempt = uint64(id), number
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_StepFailed{StepFailed: failure}}
	e.sendFact(v, fact{name: factStepFailed}, ob)
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
func (e *Executor) reportInUse(v *volume, w *fsm.DesiredVolume, err error) {
	if w == nil || w.Publication == nil || !w.Publication.Ending {
		return
	}
	f := fact{name: factStagingInUse, path: clipText(err.Error()), epoch: w.Publication.Epoch}
	if f.path != w.Publication.UsedBy && !e.isAcked(v, f) {
		e.sendFact(v, f, &fsmpb.Observation{VolumeId: string(v.id), Epoch: epochProto(f.epoch),
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
func (e *Executor) forgetVolume(v *volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.number == 0 || v.desired != nil || v.call != nil || v.outboxReport != nil || len(v.inFlight) > 0 || !v.record.empty() {
		return
	}
	if err := v.record.remove(); err != nil {
		e.Logger.Warn("a record is left behind", "volume", v.id, "error", err)
	}
	delete(e.volumes, v.id)
}
