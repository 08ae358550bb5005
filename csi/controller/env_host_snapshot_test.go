package controller_test

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reconcileKept expands a device and puts limits in force, or fails as it was told to.
func (h *fakeHost) reconcileKept(w *fsm.DesiredVolume, fail *fsmpb.StepFailed) {
	h.mu.Lock()
	delayed, size, applied := h.delayed, h.deviceSizes[w.Volume], h.appliedLimits[w.Volume]
	_, staged := h.staged[w.Volume]
	h.mu.Unlock()
	newObservation := func() *fsmpb.Observation { return &fsmpb.Observation{VolumeId: string(w.Volume)} }
	grow, limit := w.Size > size, staged && w.Limits != applied
	switch {
	case delayed:
	case fail != nil && (grow || limit):
		o := newObservation()
		o.Fact = &fsmpb.Observation_StepFailed{StepFailed: fail}
		h.report(o)
	default:
		if grow {
			o := newObservation()
			o.Fact = &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: w.Size}}
			h.report(o)
		}
		if limit {
			o := newObservation()
			o.Fact = &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: w.Limits.Proto()}}
			h.report(o)
		}
		h.update(func(h *fakeHost) {
			h.deviceSizes[w.Volume] = w.Size
			if staged {
				h.appliedLimits[w.Volume] = w.Limits
			}
		})
	}
}

// reconcileSnapshots freezes, takes snapshots, thaws and removes as desired.
func (h *fakeHost) reconcileSnapshots() {
	h.mu.Lock()
	idle, delayed, thawEarly, fail := h.idle, h.delayed, h.thawEarly, h.failSnapshot
	h.mu.Unlock()
	if idle {
		return
	}
	var desired []fsm.DesiredSnapshot
	_ = h.cluster.View(func(s *fsm.State) error {
		for w := range s.DesiredSnapshots(h.id) {
			desired = append(desired, w)
		}
		return nil
	})
	for _, w := range desired {
		o := &fsmpb.Observation{SnapshotId: string(w.Snapshot), VolumeId: string(w.Source)}
		switch taking := w.Goal == fsm.SnapshotGoalTake || w.Goal == fsm.SnapshotGoalFreeze; {
		case taking && delayed, w.Goal == fsm.SnapshotGoalKeep, w.Goal == fsm.SnapshotGoalFreeze && w.Frozen:
			continue
		case taking && fail != nil:
			o.Fact = &fsmpb.Observation_StepFailed{StepFailed: fail}
		case w.Goal == fsm.SnapshotGoalFreeze:
			o.Fact = &fsmpb.Observation_Frozen{Frozen: &fsmpb.Frozen{Attempt: w.Attempt, UntilUnixNano: time.Now().Add(time.Second).UnixNano()}}
		case w.Goal == fsm.SnapshotGoalTake && w.Group != "" && thawEarly:
			o.Fact = &fsmpb.Observation_Thawed{Thawed: &fsmpb.Thawed{Attempt: w.Attempt}}
		case w.Goal == fsm.SnapshotGoalTake:
			o.Fact = &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: w.Size, CutUnixNano: time.Now().UnixNano(), Attempt: w.Attempt}}
		default:
			o.Fact = &fsmpb.Observation_SnapshotGone{SnapshotGone: &fsmpb.SnapshotGone{Attempt: w.Attempt}}
		}
		h.report(o)
	}
}

// Expand is done when the device has the size; there is no filesystem to grow.
func (h *fakeHost) Expand(_ context.Context, req executor.ExpandRequest) (size int64, err error) {
	h.mu.Lock()
	isMounted := h.staged[req.Volume] == req.Path || h.targets[req.Path] == req.Volume
	h.mu.Unlock()
	err = h.cluster.View(func(s *fsm.State) error {
		v, ok := s.Volume(req.Volume)
		switch {
		case !ok || !isMounted:
			return fsm.Reject(fsm.NotFound, "volume %s is not at that path", req.Volume)
		case req.Capability != (fsm.Capability{}) && !v.Supports(req.Capability):
			return fsm.Reject(fsm.Invalid, "volume %s is not staged for %s", req.Volume, req.Capability)
		case req.Size > v.Replicas[0].Size || req.Limit != 0 && req.Limit < v.Replicas[0].Size:
			return fsm.Reject(fsm.OutOfRange, "volume %s has %d bytes", req.Volume, v.Replicas[0].Size)
		}
		size = v.Replicas[0].Size
		return nil
	})
	return size, err
}
