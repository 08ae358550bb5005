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

// retryReport is how long to wait with a report that the log did not take.
const retryReport = 500 * time.Millisecond

// tellAgain is how long a fact may take to come back as a wish, at first.
const tellAgain = time.Second

// worker looks at one queued volume after the other.
func (e *Executor) worker() {
	for {
		id, ok := e.queue.get()
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

// recheck looks at every volume from time to time: what people do to a host's
// images and mounts wakes nobody.
func (e *Executor) recheck() {
	ticker := time.NewTicker(e.RecheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
			e.mu.Lock()
			for id := range e.volumes {
				e.queue.add(id)
			}
			for id := range e.snapshots {
				e.cuts.add(id)
			}
			e.mu.Unlock()
		}
	}
}

// reconcile looks at the volume once; a failure is tried again later, and told
// where an operation waits for it. The caller holds the lock.
func (e *Executor) reconcile(v *volume) {
	e.reconsider(v)
	err := e.open(v)
	if err == nil {
		err = e.settle(e.ctx, v)
	}
	if err == nil {
		v.failures = 0
		e.drop(v)
		return
	}
	if e.ctx.Err() != nil {
		return
	}
	if errors.Is(err, errLater) {
		return
	}
	e.park(v, err)
	e.failed(v, err)
	v.failures++
	e.queue.addAfter(v.id, backoff(v.failures))
}

// reconsider starts counting failures anew when an operator asked for a retry.
func (e *Executor) reconsider(v *volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.limiting = false
	if v.wish == nil {
		return
	}
	v.tried = v.wish
	if now := (attempt{v.wish.Operation, v.wish.Attempt}); now != v.failed {
		v.failed, v.failures = now, 0
	}
}

// settleLimit bounds how often one look at a volume acts and looks again.
const settleLimit = 4

// settle brings the volume to where it must be without a call, and says what the
// log does not know of it.
func (e *Executor) settle(ctx context.Context, v *volume) error {
	for range settleLimit {
		refused := e.driveReplica(ctx, v) // what it cannot do yet keeps nothing from being told
		s, at, err := e.situation(ctx, v)
		if err != nil {
			return errors.Join(err, refused)
		}
		if stuckIn(refused) != nil { // a child that cannot be killed has the device
			return errors.Join(refused, e.tellReplica(ctx, v, s))
		}
		want := background(s)
		acted, err := e.act(ctx, v, &want, at, s.incarnationID)
		if err != nil {
			return errors.Join(err, e.tellReplica(ctx, v, s), refused)
		}
		if !acted {
			return errors.Join(e.settled(ctx, v, s), refused)
		}
	}
	return fmt.Errorf("volume %s does not stay as it is made", v.id)
}

// settled says what the log does not know of a volume of which nothing is to be done.
func (e *Executor) settled(ctx context.Context, v *volume, s *situation) error {
	if debts := e.untold(v, missed(s)); len(debts) > 0 {
		if err := e.owe(v, debts...); err != nil {
			return err
		}
	}
	if err := errors.Join(e.tellReplica(ctx, v, s), e.tell(v, s)); err != nil {
		return err
	}
	return e.tellHealth(v)
}

// act does what background found, and says whether there was anything to do.
func (e *Executor) act(ctx context.Context, v *volume, want *desired, at fsm.Epoch, incarnationID []byte) (bool, error) {
	j := &job{Executor: e, v: v, want: want, at: at, incarnationID: incarnationID}
	switch {
	case want.down, want.verb == fsm.GoalRemove && v.journal.Staging != nil:
		return true, j.down(ctx)
	case len(want.drop) > 0:
		return true, j.dropTargets(ctx)
	}
	err := j.drive(ctx)
	return j.steps > 0, err
}

// tell sends what is owed and what is new, and does not wait for the log: tearing
// down must find the volume unlocked (S28).
func (e *Executor) tell(v *volume, s *situation) error {
	e.deliver(e.ctx, v)
	for _, f := range news(s) {
		if e.isTold(v, f) {
			continue
		}
		ob := &fsmpb.Observation{VolumeId: string(v.id), Epoch: epochProto(f.epoch)}
		f.put(ob, s)
		if !f.epoch.IsZero() && f.name != factLimited {
			number, err := e.sequence(v)
			if err != nil {
				return err
			}
			ob.Sequence = number
		}
		e.send(v, f, ob)
	}
	return nil
}

// put makes the fact the observation's. Facts of devices carry no number: they are
// taken only in the one phase of a volume's life that they belong to.
func (f fact) put(ob *fsmpb.Observation, s *situation) {
	size := s.have.Size
	switch f.name {
	case factGrown:
		ob.Fact = &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: size}}
	case factLimited:
		ob.Fact = &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: s.wish.Limits.Proto()}}
	case factCreated:
		ob.Fact = &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: size}}
	case factGone:
		ob.Fact = &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}
	case factMissing:
		ob.Fact = &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: "its image is not in the pool"}}
	case factPresent:
		ob.Fact = &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{SizeBytes: size}}
	case factStaged:
		ob.Fact = &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: f.path}}
	case factBound:
		ob.Fact = &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: f.path}}
	}
}

// isTold: the log took it, and the wish that shows it has not come yet.
func (e *Executor) isTold(v *volume, f fact) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	told, ok := v.told[f]
	return ok && time.Now().Before(told.until)
}

// taken notes that the log took a fact. One that was overtaken by a later record is
// passed over without a word, so it is told again when no wish shows it; ever more
// seldom. The caller holds mu.
func (e *Executor) taken(v *volume, f fact, at fsm.Epoch) {
	times := v.told[f].times
	if f.name == factDown {
		times = 0 // somebody may wait for the end
	}
	patience := tellAgain << min(times, 8)
	v.told[f] = telling{at: at, until: time.Now().Add(patience), times: times + 1}
	e.queue.addAfter(v.id, patience)
}

// send has one observation reported, unless it is under way.
func (e *Executor) send(v *volume, f fact, ob *fsmpb.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, flying := v.flying[f]; flying {
		v.unsaid = true // it may be passed over, and then nobody would say it again
		return
	}
	v.flying[f] = struct{}{}
	e.reports.send(letter{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { e.sent(v, f, at, err) }})
}

// sent is the answer to send: what was not taken is looked at again.
func (e *Executor) sent(v *volume, f fact, at fsm.Epoch, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(v.flying, f)
	if v.wish == nil {
		e.queue.add(v.id) // it may be dropped now
	}
	if f.name == factSeen || v.unsaid { // it may be otherwise by now, or not have counted
		v.unsaid = false
		e.queue.add(v.id)
	}
	switch {
	case err != nil && !errors.Is(err, errOvertaken):
		e.queue.addAfter(v.id, retryReport)
	case at.Incarnation != e.session.at.Incarnation:
		e.queue.add(v.id) // a restored log may not have it (S1)
	case f.name == factHealth:
		v.heardHealth = &f.path
		e.queue.add(v.id)
	case f.name == factLimited && v.wish != nil && f.path == fmt.Sprint(v.wish.Limits):
		v.limits = &v.wish.Limits
	case v.wishAt.Compare(at) < 0:
		e.taken(v, f, at)
	}
}

// failed says why an operation does not get on: at first each time, then ever
// more seldom.
func (e *Executor) failed(v *volume, err error) {
	e.logger(v).Warn("the volume is not as the log wants it", "error", err, "failures", v.failures+1)
	if v.journal == nil {
		return
	}
	e.mu.Lock()
	w, fresh := v.wish, e.fresh(v)
	e.mu.Unlock()
	if fresh {
		e.tellInUse(v, w, err)
	}
	if v.tried == nil { // the log began to want something of it only after it was looked at
		return
	}
	if w == nil || w.Operation == 0 || !fresh || isUnavailable(err) || isWaiting(w, err) || v.failures > 3 && v.failures&(v.failures-1) != 0 {
		return
	}
	failure := failureOf(stepOf(w), err)
	failure.Final = endsOperation(w, err, failure.Final)
	if e.level2() {
		id, number := v.worksOn()
		failure.OperationId, failure.Attempt = uint64(id), number
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_StepFailed{StepFailed: failure}}
	e.send(v, fact{name: factFailed}, ob)
}

// worksOn is the operation that the last look at the volume worked on.
func (v *volume) worksOn() (fsm.OperationID, uint32) {
	w := v.tried
	if v.limiting && w.ModifyOperation != 0 {
		return w.ModifyOperation, w.ModifyAttempt
	}
	return w.Operation, w.Attempt
}

// tellInUse says what keeps a publication from ending whose end was asked for (S31), until
// the log has it.
func (e *Executor) tellInUse(v *volume, w *fsm.DesiredVolume, err error) {
	if w == nil || w.Publication == nil || !w.Publication.Ending {
		return
	}
	f := fact{name: factInUse, path: recordText(err.Error()), epoch: w.Publication.Epoch}
	if f.path != w.Publication.UsedBy && !e.isTold(v, f) {
		e.send(v, f, &fsmpb.Observation{VolumeId: string(v.id), Epoch: epochProto(f.epoch),
			Fact: &fsmpb.Observation_StagingInUse{StagingInUse: &fsmpb.StagingInUse{Detail: f.path}}})
	}
}

// endsOperation: obligations never end by a failure. An empty volume's create ends
// only where trying again makes no difference; a copy, a growth or new limits also
// where the host refused for good.
func endsOperation(w *fsm.DesiredVolume, err error, refused bool) bool {
	switch w.Goal {
	case fsm.GoalCreate:
		return noSpace(err) || isFinal(err) || refused && !w.Source.IsZero()
	case fsm.GoalKeep:
		return refused && w.Teardown == nil
	case fsm.GoalRemove:
	}
	return false
}

func stepOf(w *fsm.DesiredVolume) string {
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

// isFinal: trying again makes no difference.
func isFinal(err error) bool {
	var rej *fsm.Rejection
	return errors.Is(err, syscall.EFBIG) || errors.As(err, &rej) && rej.Reason == fsm.Incompatible
}

// drop forgets a volume that the log does not know and of which nothing is up.
func (e *Executor) drop(v *volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.number == 0 || v.wish != nil || v.call != nil || v.delivery != nil || len(v.flying) > 0 || !v.journal.empty() {
		return
	}
	if err := v.journal.slots.remove(); err != nil {
		e.Logger.Warn("a record is left behind", "volume", v.id, "error", err)
	}
	delete(e.volumes, v.id)
}
