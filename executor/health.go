package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// healthInputs is what a volume's condition is judged by.
type healthInputs struct {
	device  Device
	pool    PoolFacts
	minFree int64
	parked  bool
	size    int64 // bytes that the image had, or must have
	staged  bool  // by the host's record
	// unbounded is why its limits are not in force, empty when they are.
	limitsError       string
	mounted           bool // or attached, for a raw volume
	measuredCondition fsm.Condition
	statsErr          error // isOfAttempt measuring what is mounted
	wasNearlyFull     bool  // the condition was that of a pool that is nearly full
}

// condition is the volume's health. It is pure, and the only judge of it: for the log
// and for NodeGetVolumeStats. Its messages have no figures, so that they change only
// when the cause does.
func (x *healthInputs) condition() fsm.Condition {
	abnormal := func(message string) fsm.Condition { return fsm.Condition{Abnormal: true, Message: message} }
	switch {
	case x.device.Absent:
		return abnormal("the pool of the volume is absent")
	case !x.device.Exists:
		return abnormal("the image of the volume is missing")
	case x.device.Size < x.size:
		return abnormal("the image of the volume is shorter than it was made")
	case x.parked:
		return abnormal("a command on the device cannot be killed")
	case x.staged && !x.mounted:
		return abnormal("the volume is staged, but its mount is gone")
	case x.statsErr != nil:
		return abnormal("the volume does not answer: " + x.statsErr.Error())
	case x.measuredCondition.Abnormal:
		return x.measuredCondition
	case !x.pool.Absent && x.pool.Capacity > 0 && x.pool.Free < max(x.minFree, minPoolFree):
		return abnormal("the pool of the volume is full")
	case nearlyFull(x.pool, x.wasNearlyFull):
		return abnormal(poolNearlyFull)
	case x.staged && x.limitsError != "":
		return abnormal("the volume's I/O limits are not in force: " + x.limitsError)
	}
	return x.measuredCondition
}

// poolNearlyFull is the condition of a pool's volumes before it is full.
const poolNearlyFull = "the pool of the volume is nearly full"

// How much of a pool may be used before its host's log warns, before its volumes'
// condition does, and until that is over, in percent.
const (
	logAbovePercent   = 80
	warnAbovePercent  = 90
	clearBelowPercent = 85
)

// usedAbove tells whether more than a share of the pool is used.
func usedAbove(f PoolFacts, percent int64) bool {
	return !f.Absent && f.Capacity > 0 && f.Free < f.Capacity/100*(100-percent)
}

// nearlyFull is whether volumes warn of their pool. It does not change with every block
// that is written at the threshold.
func nearlyFull(f PoolFacts, already bool) bool {
	if already {
		return usedAbove(f, clearBelowPercent)
	}
	return usedAbove(f, warnAbovePercent)
}

// warnOfPools says once of each pool that much of it is used.
func (h *healthChecker) warnOfPools(warned map[fsm.PoolID]bool) {
	for _, pool := range h.Pools {
		f := pool.Facts(h.ctx)
		high := usedAbove(f, logAbovePercent)
		if high && !warned[f.ID] {
			h.Logger.Warn("much of the pool is used", "pool", string(f.ID), "free", f.Free, "capacity", f.Capacity)
		}
		warned[f.ID] = high
	}
}

// minPoolFree is below what a pool counts as full, in bytes, whatever is configured.
const minPoolFree = 1 << 20

// recordHealth completes what was observed with what is known, judges, and has the log
// told when the volume fell ill or recovered.
func (h *healthChecker) recordHealth(ctx context.Context, v *volume, x *healthInputs) fsm.Condition {
	if b, err := h.poolSet.backend(v); err == nil {
		x.pool = b.Facts(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x.minFree, x.parked = h.MinFree, v.parked != nil
	if w := v.desired; w != nil && w.Limits != (fsm.Limits{}) {
		x.limitsError = v.limitsError
	}
	x.wasNearlyFull = v.health != nil && v.health.Message == poolNearlyFull
	now := x.condition()
	v.health = &now
	if abnormalMessage(now) != v.recordCopy.ReportedCondition {
		h.volumeQueue.add(v.id)
	}
	return now
}

// minImageSize is how many bytes the volume's image must have, of one that is looked at from
// now on: it may grow at any moment.
func (t *table) minImageSize(v *volume) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := v.desired; w != nil && w.Operation == 0 && w.Goal == fsm.GoalKeep {
		return max(v.recordCopy.Size, w.Size)
	}
	return v.recordCopy.Size
}

// abnormalMessage is what is wrong, empty when nothing is.
func abnormalMessage(c fsm.Condition) string {
	if c.Abnormal {
		return c.Message
	}
	return ""
}

// checkHealthLoop looks at the health of all volumes from time to time.
func (h *healthChecker) checkHealthLoop() {
	ticker := time.NewTicker(h.HealthInterval)
	defer ticker.Stop()
	warned := map[fsm.PoolID]bool{}
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
		}
		h.warnOfPools(warned)
		for _, v := range h.volumesToCheck() {
			h.checkHealth(v)
		}
	}
}

// volumesToCheck are the volumes that are made and not to be removed.
func (h *healthChecker) volumesToCheck() []*volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*volume
	for _, v := range h.volumes {
		if v.desired != nil && v.desired.Goal == fsm.GoalKeep && v.desired.ReplicaState != 0 && !v.checkingHealth {
			all = append(all, v)
		}
	}
	return all
}

// healthTimeout is how long a volume may take to answer before it is passed by.
const healthTimeout = 2 * time.Second

// errHung is what is wrong with a filesystem that hangs.
var errHung = errors.New("it hangs")

// checkHealth judges one volume. One that hangs keeps its examination waiting, and nobody
// else; one that is being worked on is left for the next time.
func (h *healthChecker) checkHealth(v *volume) {
	before, stagings, idle := h.beginHealthCheck(v)
	if !idle {
		return
	}
	answered := make(chan *healthInputs, 1)
	go func() {
		x, err := h.observeHealth(h.ctx, v, before.Staging)
		h.mu.Lock()
		v.checkingHealth = false
		h.mu.Unlock()
		if err != nil {
			h.logger(v).Warn("the volume's health is not known", "error", err)
			x = nil
		}
		answered <- x
	}()
	timer := time.NewTimer(healthTimeout)
	defer timer.Stop()
	var x *healthInputs
	select {
	case x = <-answered:
	case <-timer.C:
		x = &healthInputs{device: Device{Exists: true, Size: before.Size}, statsErr: errHung}
	case <-h.ctx.Done():
		return
	}
	if x != nil && h.unchangedSince(v, stagings) {
		h.recordHealth(h.ctx, v, x)
	}
}

// beginHealthCheck begins an examination, unless somebody works on the volume. With the record it says
// how often the volume was staged or unstaged.
func (h *healthChecker) beginHealthCheck(v *volume) (r volumeRecord, stagings uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.call != nil || v.snapshotting || len(v.lock) > 0 || v.checkingHealth {
		return volumeRecord{}, 0, false
	}
	v.checkingHealth = true
	return v.recordCopy, v.stagingChanges, true
}

// unchangedSince tells whether nobody took the volume down, nor brought it up again, since then.
func (h *healthChecker) unchangedSince(v *volume, stagings uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return v.call == nil && len(v.lock) == 0 && v.stagingChanges == stagings
}

func sameStaging(a, b *stagingRecord) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// look observes what the volume's health is judged by.
func (h *healthChecker) observeHealth(ctx context.Context, v *volume, staged *stagingRecord) (*healthInputs, error) {
	backend, err := h.poolSet.backend(v)
	if err != nil {
		return nil, err
	}
	x := &healthInputs{staged: staged != nil, size: h.minImageSize(v), measuredCondition: fsm.Condition{Message: "not staged"}}
	if x.device, err = backend.Observe(ctx, v.id); err != nil {
		return nil, fmt.Errorf("look at volume %s: %w", v.id, err)
	}
	if staged == nil || !x.device.Active() {
		return x, nil
	}
	mounts, err := h.Mounter.Mounts(ctx, x.device)
	if err != nil {
		return nil, fmt.Errorf("look at the mounts of volume %s: %w", v.id, err)
	}
	x.mounted = staged.Block
	for _, m := range mounts {
		x.mounted = x.mounted || !m.DeviceNode && m.Path == h.realPath(staged.Path)
	}
	if x.mounted {
		stats, err := h.Mounter.Stats(ctx, x.device, staged.Path, staged.Block)
		x.measuredCondition, x.statsErr = stats.Condition, err
	}
	return x, nil
}

// reportHealth tells an abnormal condition once, and once that it is over. It is kept
// before it is told, so that a restarted host does not forget to take it back.
func (r *volumeReporter) reportHealth(v *volume) error {
	r.mu.Lock()
	health, desired, acked := v.health, v.desired, v.ackedHealth
	r.mu.Unlock()
	if health == nil || desired == nil || desired.Goal != fsm.GoalKeep {
		return nil
	}
	now, isAcked := abnormalMessage(*health), acked != nil && *acked == abnormalMessage(*health)
	if v.record.ReportedCondition != now && (isAcked || now != "") {
		v.record.ReportedCondition = now
		if err := r.records.saveRecord(v, true); err != nil {
			return err
		}
	}
	if isAcked || acked == nil && now == "" && v.record.ReportedCondition == "" {
		return nil
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_Condition{
		Condition: &fsmpb.Condition{Abnormal: health.Abnormal, Message: now},
	}}
	r.sendFact(v, fact{name: factCondition, path: now}, ob)
	return nil
}
