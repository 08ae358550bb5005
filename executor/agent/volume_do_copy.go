package agent

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

// createFromSource makes the image from the volume's source. A snapshot does not change. A
// volume is frozen as for a snapshot (S19), and until the freeze is known to have held the
// image counts as torn.
func (j *job) createFromSource(ctx context.Context) error {
	backend, err := j.poolSet.snapshotBackend(j.v)
	if err != nil {
		return err
	}
	progress := j.reports.progress(j.v.id, "", "")
	if j.want.Source.Volume == "" {
		return backend.CreateFrom(ctx, j.v.id, j.want.Size, j.want.Source, j.want.SourceSize, progress)
	}
	source, ok := j.lockSource(j.want.Source.Volume, string(j.v.id), func() { j.volumeQueue.add(j.v.id) })
	if !ok {
		return errRequeued
	}
	defer j.unlockSource(source, nil)
	s, _, err := j.observer.observeSource(ctx, source, false)
	if err != nil {
		return err
	}
	if rej := s.Refusal(source.id); rej != nil {
		return rej
	}
	if err := j.markTorn(!plantedbug.Is(plantedbug.TornClone)); err != nil {
		return err
	}
	// The observation is current; the desired state may be older. A replica's backing device may
	// be larger than the device that DRBD makes of it.
	contentSize := min(s.Size, s.DeviceSize())
	err = j.freezer.runFrozen(ctx, source, s, func(ctx context.Context) error {
		return backend.CreateFrom(ctx, j.v.id, j.want.Size, j.want.Source, contentSize, progress)
	})
	if unkillableDone(err) != nil {
		j.parkVolume(source, err) // the child has both devices; what it makes is removed when it is gone
		return err
	}
	if err != nil {
		return errors.Join(err, j.removeCopy(ctx))
	}
	return j.markTorn(false)
}

// removeCopy removes a copy whose freeze did not hold: it was never reported.
func (j *job) removeCopy(ctx context.Context) error {
	backend, err := j.poolSet.backend(j.v)
	if err != nil {
		return err
	}
	have, err := backend.Observe(ctx, j.v.id)
	if err != nil || have.Absent || !have.Exists && !have.Unfinished {
		return err
	}
	return backend.Remove(ctx, j.v.id)
}

func (j *job) markTorn(on bool) error {
	if j.v.record.MayBeTorn == on {
		return nil
	}
	j.v.record.MayBeTorn = on
	return j.records.saveRecord(j.v, true)
}
