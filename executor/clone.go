package executor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// createFromSource makes the image from the volume's source. A snapshot does not change. A
// volume is made quiet as for a cut (S19), and until the freeze is known to have held
// the image counts as torn.
func (j *job) createFromSource(ctx context.Context) error {
	backend, err := j.poolSet.snapshotBackend(j.v)
	if err != nil {
		return err
	}
	progress := j.reports.progress(j.v.id, "", "")
	if j.want.source.Volume == "" {
		return backend.CreateFrom(ctx, j.v.id, j.want.size, j.want.source, j.want.sourceSize, progress)
	}
	source, ok := j.lockSource(j.want.source.Volume, string(j.v.id), func() { j.volumeQueue.add(j.v.id) })
	if !ok {
		return errRequeued
	}
	defer j.unlockSource(source, nil)
	s, _, err := j.observer.observeSource(ctx, source, false)
	if err != nil {
		return err
	}
	if rej := s.refusal(source.id); rej != nil {
		return rej
	}
	if err := j.markTorn(true); err != nil {
		return err
	}
	// What is observed is of now; the wish may be older. A replica's device below may
	// have room for more than the kernel gave out of it.
	contentSize := min(s.Size, s.deviceSize())
	err = j.freezer.runFrozen(ctx, source, s, func(ctx context.Context) error {
		return backend.CreateFrom(ctx, j.v.id, j.want.size, j.want.source, contentSize, progress)
	})
	if unkillableDone(err) != nil {
		j.parkVolume(source, err) // the child has both; what it makes is removed when it is gone
		return err
	}
	if err != nil {
		return errors.Join(err, j.removeCopy(ctx))
	}
	return j.markTorn(false)
}

// removeCopy removes what a copy left whose freeze did not hold: it was never reported.
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

// thawLeftovers thaws what earlier processes left frozen, before anything else (S19). What
// cannot be thawed now is thawed by its own process at the deadline.
func (f *sourceFreezer) thawLeftovers() {
	if f.Freezer == nil {
		return
	}
	if err := f.Freezer.Recover(f.ctx); err != nil {
		f.Logger.Error("what an earlier process froze is not thawed yet", "error", err)
	}
}

// mapTimeout is how long a page of a block map is looked for: who asks waits a minute.
const mapTimeout = 20 * time.Second

// Map lists what a snapshot allocates, or what differs from a base of the same volume
// when one is named: at most limit extents from an offset on, and as many as are found
// in some seconds. NotFound: this host has no such snapshot.
func (e *Executor) Map(ctx context.Context, base, target fsm.SnapshotID, from int64, limit int) (MapPage, error) {
	backend, err := e.poolSet.poolHolding(ctx, target)
	if err != nil {
		return MapPage{}, err
	}
	page := MapPage{NextOffset: from}
	yield := func(x Extent) bool {
		if page.More = len(page.Extents) == limit; page.More {
			return false
		}
		page.Extents, page.NextOffset = append(page.Extents, x), x.Offset+x.Length
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(e.MapTimeout, mapTimeout))
	defer cancel()
	if base == "" {
		err = backend.Map(bounded, target, from, yield)
	} else {
		err = backend.Delta(bounded, base, target, from, yield)
	}
	var part *InterruptedError
	if errors.As(err, &part) && ctx.Err() == nil {
		page.More, page.NextOffset = true, max(page.NextOffset, part.Offset)
		return page, nil
	}
	return page, err
}

// poolHolding is the pool that has the snapshot.
func (p *poolSet) poolHolding(ctx context.Context, id fsm.SnapshotID) (SnapshotBackend, error) {
	if !id.Valid() {
		return nil, fsm.Reject(fsm.NotFound, "snapshot %q is not known", string(id))
	}
	var errs []error
	for _, pool := range p.Pools {
		backend, ok := pool.(SnapshotBackend)
		if !ok {
			continue
		}
		have, err := backend.ObserveSnapshot(ctx, id)
		if err == nil && have.Exists {
			return backend, nil
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return nil, fsm.Reject(fsm.NotFound, "snapshot %s is not on this host", id)
}
