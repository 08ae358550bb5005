package executor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// copySource makes the image from the volume's source. A snapshot does not change. A
// volume is made quiet as for a cut (S19), and until the freeze is known to have held
// the image counts as torn.
func (j *job) copySource(ctx context.Context) error {
	backend, err := j.snapshotBackend(j.v)
	if err != nil {
		return err
	}
	progress := j.progress(j.v.id, "", "")
	if j.want.source.Volume == "" {
		return backend.CreateFrom(ctx, j.v.id, j.want.size, j.want.source, j.want.sourceSize, progress)
	}
	from, ok := j.lockSource(j.want.source.Volume, string(j.v.id), func() { j.queue.add(j.v.id) })
	if !ok {
		return errLater
	}
	defer j.unlockSource(from, nil)
	s, _, err := j.lookAtSource(ctx, from, false)
	if err != nil {
		return err
	}
	if rej := s.refusal(from.id); rej != nil {
		return rej
	}
	if err := j.markCopying(true); err != nil {
		return err
	}
	// What is observed is of now; the wish may be older. A replica's device below may
	// have room for more than the kernel gave out of it.
	content := min(s.Size, s.deviceSize())
	err = j.quietly(ctx, from, s, func(ctx context.Context) error {
		return backend.CreateFrom(ctx, j.v.id, j.want.size, j.want.source, content, progress)
	})
	if stuckIn(err) != nil {
		j.park(from, err) // the child has both; what it makes is removed when it is gone
		return err
	}
	if err != nil {
		return errors.Join(err, j.undoCopy(ctx))
	}
	return j.markCopying(false)
}

// undoCopy removes what a copy left whose freeze did not hold: it was never reported.
func (j *job) undoCopy(ctx context.Context) error {
	backend, err := j.backend(j.v)
	if err != nil {
		return err
	}
	have, err := backend.Observe(ctx, j.v.id)
	if err != nil || have.Absent || !have.Exists && !have.Unfinished {
		return err
	}
	return backend.Remove(ctx, j.v.id)
}

func (j *job) markCopying(on bool) error {
	if j.v.journal.Copying == on {
		return nil
	}
	j.v.journal.Copying = on
	return j.save(j.v, true)
}

// thawLeft thaws what earlier processes left frozen, before anything else (S19). What
// cannot be thawed now is thawed by its own process at the deadline.
func (e *Executor) thawLeft() {
	if e.Freezer == nil {
		return
	}
	if err := e.Freezer.Recover(e.ctx); err != nil {
		e.Logger.Error("what an earlier process froze is not thawed yet", "error", err)
	}
}

// mapPatience is how long a page of a block map is looked for: who asks waits a minute.
const mapPatience = 20 * time.Second

// Map lists what a snapshot allocates, or what differs from a base of the same volume
// when one is named: at most limit extents from an offset on, and as many as are found
// in some seconds. NotFound: this host has no such snapshot.
func (e *Executor) Map(ctx context.Context, base, target fsm.SnapshotID, from int64, limit int) (MapPage, error) {
	backend, err := e.keeps(ctx, target)
	if err != nil {
		return MapPage{}, err
	}
	page := MapPage{Reached: from}
	yield := func(x Extent) bool {
		if page.More = len(page.Extents) == limit; page.More {
			return false
		}
		page.Extents, page.Reached = append(page.Extents, x), x.Offset+x.Length
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(e.MapPatience, mapPatience))
	defer cancel()
	if base == "" {
		err = backend.Map(bounded, target, from, yield)
	} else {
		err = backend.Delta(bounded, base, target, from, yield)
	}
	var part *Interrupted
	if errors.As(err, &part) && ctx.Err() == nil {
		page.More, page.Reached = true, max(page.Reached, part.At)
		return page, nil
	}
	return page, err
}

// keeps is the pool that has the snapshot.
func (e *Executor) keeps(ctx context.Context, id fsm.SnapshotID) (SnapshotBackend, error) {
	if !id.Valid() {
		return nil, fsm.Reject(fsm.NotFound, "snapshot %q is not known", string(id))
	}
	var errs []error
	for _, pool := range e.Pools {
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
