package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// warnOfPools warns once for each pool that much of it is used.
func (h *healthChecker) warnOfPools(warned map[fsm.PoolID]bool) {
	for _, pool := range h.Pools {
		f := pool.Facts(h.ctx)
		high := plan.UsedAbove(f, plan.LogAbovePercent)
		if high && !warned[f.ID] {
			h.Logger.Warn("the pool is nearly full", "pool", string(f.ID), "free", f.Free, "capacity", f.Capacity)
		}
		warned[f.ID] = high
	}
}

// recordHealth completes the inputs with what the table knows, computes the condition, and has
// it reported when the volume became abnormal or recovered.
func (h *healthChecker) recordHealth(ctx context.Context, v *volume, in *plan.HealthInputs) fsm.Condition {
	if b, err := h.poolSet.backend(v); err == nil {
		in.Pool = b.Facts(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	in.MinFree, in.Parked, in.HeaderMissing = h.MinFree, v.parked != nil, v.recordCopy.HeaderMissing
	if d := v.desired; d != nil && d.Limits != (fsm.Limits{}) {
		in.LimitsError = v.limitsError
	}
	in.WasNearlyFull = v.health != nil && v.health.Message == plan.PoolNearlyFull
	now := in.Condition()
	v.health = &now
	if plan.AbnormalMessage(now) != v.recordCopy.ReportedCondition {
		h.volumeQueue.add(v.id)
	}
	return now
}

// minImageSize is how many bytes the volume's image must have. It is read before the image is
// observed, since the image may be expanded at any moment.
func (t *table) minImageSize(v *volume) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := v.desired; d != nil && d.Operation == 0 && d.Goal == fsm.GoalKeep {
		return max(v.recordCopy.Size, d.Size)
	}
	return v.recordCopy.Size
}

// checkHealthLoop checks the health of all volumes every HealthInterval.
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

// volumesToCheck are the volumes that exist and are not to be removed.
func (h *healthChecker) volumesToCheck() []*volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*volume
	for _, id := range sortedKeys(h.volumes) {
		v := h.volumes[id]
		if v.desired != nil && v.desired.Goal == fsm.GoalKeep && v.desired.ReplicaState != 0 && !v.checkingHealth {
			all = append(all, v)
		}
	}
	return all
}

// healthTimeout is how long the check of one volume may block the loop.
const healthTimeout = 2 * time.Second

// errHung says that a filesystem does not answer.
var errHung = errors.New("it hangs")

// checkHealth checks one volume. One that hangs blocks only its own check; one that is
// locked is skipped until the next time.
func (h *healthChecker) checkHealth(v *volume) {
	before, stagings, idle := h.beginHealthCheck(v)
	if !idle {
		return
	}
	answered := make(chan *plan.HealthInputs, 1)
	go func() {
		in, err := h.observeHealth(h.ctx, v, before.Staging)
		h.mu.Lock()
		v.checkingHealth = false
		h.mu.Unlock()
		if err != nil {
			h.logger(v).Warn("cannot check the volume's health", "error", err)
			in = nil
		}
		answered <- in
	}()
	timer := time.NewTimer(healthTimeout)
	defer timer.Stop()
	var in *plan.HealthInputs
	select {
	case in = <-answered:
	case <-timer.C:
		in = &plan.HealthInputs{Device: executor.Device{Exists: true, Size: before.Size}, StatsErr: errHung}
	case <-h.ctx.Done():
		return
	}
	if in != nil && h.unchangedSince(v, stagings) {
		h.recordHealth(h.ctx, v, in)
	}
}

// beginHealthCheck begins a check, unless the volume is locked. With the record it returns the
// volume's count of stagings and unstagings.
func (h *healthChecker) beginHealthCheck(v *volume) (r records.VolumeRecord, stagings uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.call != nil || v.snapshotting || len(v.lock) > 0 || v.checkingHealth {
		return records.VolumeRecord{}, 0, false
	}
	v.checkingHealth = true
	return v.recordCopy, v.stagingChanges, true
}

// unchangedSince reports whether the volume was neither taken down nor brought up since then.
func (h *healthChecker) unchangedSince(v *volume, stagings uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return v.call == nil && len(v.lock) == 0 && v.stagingChanges == stagings
}

func sameStaging(a, b *records.StagingRecord) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// observeHealth observes the inputs of the volume's condition.
func (h *healthChecker) observeHealth(ctx context.Context, v *volume, staged *records.StagingRecord) (*plan.HealthInputs, error) {
	backend, err := h.poolSet.backend(v)
	if err != nil {
		return nil, err
	}
	in := &plan.HealthInputs{Staged: staged != nil, Size: h.minImageSize(v), MeasuredCondition: fsm.Condition{Message: "not staged"}}
	var replica *plan.ObservedReplica
	if in.Device, replica, err = observeDevice(ctx, backend, v.id); err != nil {
		return nil, fmt.Errorf("look at volume %s: %w", v.id, err)
	}
	if replica != nil {
		h.mu.Lock()
		in.RequestsHang = v.replica.requestsSeen.Hang(&replica.ResourceStatus, time.Now())
		in.UnknownReplica = v.desired != nil && v.desired.Replication == nil
		h.mu.Unlock()
	}
	if in.Device, _, err = h.aboveEncryption(ctx, v, in.Device); err != nil {
		return nil, err
	}
	if staged == nil || !in.Device.Active() {
		return in, nil
	}
	mounts, err := h.Mounter.Mounts(ctx, in.Device)
	if err != nil {
		return nil, fmt.Errorf("look at the mounts of volume %s: %w", v.id, err)
	}
	in.Mounted = staged.Block
	for _, m := range mounts {
		in.Mounted = in.Mounted || !m.DeviceNode && m.Path == h.realPath(staged.Path)
	}
	if in.Mounted {
		stats, err := h.Mounter.Stats(ctx, in.Device, staged.Path, staged.Block)
		in.MeasuredCondition, in.StatsErr = stats.Condition, err
	}
	return in, nil
}

// reportHealth reports an abnormal condition once, and its end once. The condition is recorded
// before it is reported, so that a restarted host reports its end as well.
func (r *volumeReporter) reportHealth(v *volume) error {
	r.mu.Lock()
	health, desired, acked := v.health, v.desired, v.ackedHealth
	r.mu.Unlock()
	if health == nil || desired == nil || desired.Goal != fsm.GoalKeep {
		return nil
	}
	now, isAcked := plan.AbnormalMessage(*health), acked != nil && *acked == plan.AbnormalMessage(*health)
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
	r.sendFact(v, plan.Fact{Name: plan.FactCondition, Path: now}, ob)
	return nil
}
