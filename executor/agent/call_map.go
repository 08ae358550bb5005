package agent

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// mapTimeout is how long one page of a block map may take: the caller waits a minute.
const mapTimeout = 20 * time.Second

// Map returns a page of what a snapshot allocates or, when a base of the same volume is named,
// of what differs from that: at most limit extents from byte offset from on, and as many as
// are found within MapTimeout. NotFound: this host does not have such a snapshot.
func (a *Agent) Map(ctx context.Context, base, target fsm.SnapshotID, from int64, limit int) (executor.MapPage, error) {
	backend, err := a.poolSet.poolHolding(ctx, target)
	if err != nil {
		return executor.MapPage{}, err
	}
	page := executor.MapPage{NextOffset: from}
	yield := func(x executor.Extent) bool {
		if page.More = len(page.Extents) == limit; page.More {
			return false
		}
		page.Extents, page.NextOffset = append(page.Extents, x), x.Offset+x.Length
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(a.MapTimeout, mapTimeout))
	defer cancel()
	if base == "" {
		err = backend.Map(bounded, target, from, yield)
	} else {
		err = backend.Delta(bounded, base, target, from, yield)
	}
	var part *executor.InterruptedError
	if errors.As(err, &part) && ctx.Err() == nil {
		page.More, page.NextOffset = true, max(page.NextOffset, part.Offset)
		return page, nil
	}
	return page, err
}

// poolHolding is the pool that has the snapshot.
func (p *poolSet) poolHolding(ctx context.Context, id fsm.SnapshotID) (executor.SnapshotBackend, error) {
	if !id.Valid() {
		return nil, fsm.Reject(fsm.NotFound, "snapshot %q is not known", string(id))
	}
	var errs []error
	for _, pool := range p.Pools {
		backend, ok := pool.(executor.SnapshotBackend)
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
