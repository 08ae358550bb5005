package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

var (
	_ executor.Replicator    = (*replicatorTools)(nil)
	_ executor.MetadataWiper = (*replicatorTools)(nil)
)

// replicatorTools are a host's DRBD as a process uses it: its single steps, what it observes, and
// what waits for a handler.
type replicatorTools struct {
	process *Process
	resourceTools
}

func (t *replicatorTools) Check(context.Context) error { return nil }

func (t *replicatorTools) Version() (version string, replicas uint32) { return "8.4.11", 2 }

func (t *replicatorTools) BackingSize(size int64) int64 { return size + fakeMetadata }

func (t *replicatorTools) BackingCapacity(backing int64) int64 { return max(0, backing-fakeMetadata) }

func (t *replicatorTools) Observe(ctx context.Context, id fsm.VolumeID, minor uint32, backing string) (s executor.ResourceStatus, err error) {
	err = t.process.read(ctx, effect{part: "drbd", name: "observe", volume: id}, func() error {
		s = t.process.host.observeResource(id, minor, backing)
		return nil
	})
	return s, err
}

// observeResource describes a host's replica. The lock is held.
func (h *Host) observeResource(id fsm.VolumeID, minor uint32, backing string) executor.ResourceStatus {
	m := executor.ResourceStatus{SyncPercent: -1, PeerRole: "Unknown"}
	_, m.HasConfig = h.configs[id]
	r := h.world.resources[id]
	if r == nil || r.seats[h.node] == nil {
		return m
	}
	s := r.observe(h.node)
	if backing != "" {
		fillMetadata(&m, s.Metadata)
	}
	if !s.InKernel {
		return m
	}
	m.InKernel, m.Primary, m.Disk, m.Connection, m.PeerDisk, m.Suspended, m.Frozen = true, s.Primary, s.Disk, s.Connection, s.PeerDisk, s.Suspended, s.Frozen
	m.Path, m.Number, m.Size = fmt.Sprintf("/dev/drbd%d", minor), 147<<8|uint64(minor), r.size
	if m.OutOfSync = int64(s.Metadata.OutOfSync.Len()) * BlockBytes; s.Metadata.OutOfSync.Len() == drbdmodel.MaxWrites {
		m.OutOfSync = r.size
	}
	if s.Connected() {
		m.PeerRole = "Secondary"
		if s.PeerPrimary {
			m.PeerRole = "Primary"
		}
	}
	if s.Connection >= syncSource {
		m.SyncPercent = 40
	}
	return m
}

func (t *replicatorTools) ListSuspended(ctx context.Context) ([]fsm.VolumeID, error) {
	return t.list(ctx, "list-suspended", func(_ fsm.VolumeID, s drbdmodel.State) bool { return s.Suspended })
}

func (t *replicatorTools) ListResources(ctx context.Context) ([]fsm.VolumeID, error) {
	return t.list(ctx, "list", func(id fsm.VolumeID, s drbdmodel.State) bool {
		_, file := t.process.host.configs[id]
		return file || s.InKernel
	})
}

// list lists the volumes with a replica on the host that are wanted.
func (t *replicatorTools) list(ctx context.Context, name string, want func(fsm.VolumeID, drbdmodel.State) bool) (all []fsm.VolumeID, err error) {
	h := t.process.host
	err = t.process.read(ctx, effect{part: "drbd", name: name}, func() error {
		ids := sortedKeys(h.configs)
		for _, id := range sortedKeys(h.world.resources) {
			if h.world.resources[id].seats[h.node] != nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			if want(id, h.world.resource(id).observe(h.node)) {
				all = append(all, id)
			}
		}
		return nil
	})
	return all, err
}

// watcher is a process that reads the kernel's events.
type watcher struct {
	queued []fsm.VolumeID
	wake   chan struct{}
}

// queue has the watcher told of a volume. The lock is held.
func (w *watcher) queue(id fsm.VolumeID) {
	if !slices.Contains(w.queued, id) {
		w.queued = append(w.queued, id)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// notify has the host's watchers told of a volume. The lock is held.
func (h *Host) notify(id fsm.VolumeID) {
	for _, w := range h.watchers {
		w.queue(id)
	}
}

// Watch begins with all resources. When the gate has the delivery of an event fail, the stream ends,
// and a new one begins with all resources again.
func (t *replicatorTools) Watch(ctx context.Context, changed func(fsm.VolumeID)) error {
	h, w := t.process.host, &watcher{wake: make(chan struct{}, 1)}
	err := t.process.act(func() error {
		h.watchers = append(h.watchers, w)
		h.beginStream(w)
		return nil
	})
	if err != nil {
		return err
	}
	defer h.world.change(func() {
		h.watchers = slices.DeleteFunc(h.watchers, func(other *watcher) bool { return other == w })
	})
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-t.process.gone:
			return ErrProcessGone
		}
		if err := t.deliver(ctx, w, changed); err != nil {
			return err
		}
	}
}

// beginStream queues all resources in the kernel. The lock is held.
func (h *Host) beginStream(w *watcher) {
	w.queued = nil
	for _, id := range sortedKeys(h.world.resources) {
		if h.world.resources[id].inKernel(h.node) {
			w.queue(id)
		}
	}
}

// deliver tells a watcher of what is queued.
func (t *replicatorTools) deliver(ctx context.Context, w *watcher, changed func(fsm.VolumeID)) error {
	for ctx.Err() == nil {
		var id fsm.VolumeID
		err := t.process.act(func() error {
			if len(w.queued) > 0 {
				id, w.queued = w.queued[0], w.queued[1:]
			}
			return nil
		})
		if err != nil || id == "" {
			return err
		}
		if err := t.process.read(ctx, effect{part: "drbd", name: "event", volume: id}, func() error { return nil }); err != nil {
			if err = t.process.act(func() error { t.process.host.beginStream(w); return nil }); err != nil {
				return err
			}
			continue
		}
		changed(id)
	}
	return ctx.Err()
}

// SetPrimary asks the handler where the replica has no peer.
func (t *replicatorTools) SetPrimary(ctx context.Context, id fsm.VolumeID, force bool) error {
	p := &promotion{host: t.process.host, id: id, force: force}
	return t.step(ctx, "set-primary", id, func(r *resource, _ *bond, _ int) error { return p.try(r) })
}

// promotion is an attempt to make a replica primary, which may have to wait for its handler.
type promotion struct {
	host    *Host
	id      fsm.VolumeID
	force   bool
	asked   bool
	verdict *fsmpb.Verdict
	downs   int
}

var errPeerConnected = errors.New("state change failed: its peer connected meanwhile")

// try is called again after each change until it does not hang. The lock is held.
func (p *promotion) try(r *resource) error {
	b, side := r.bondOf(p.host.node)
	s := b.pair.Observe(side)
	switch {
	case !p.asked && s.Primary:
		return nil
	case p.asked && p.verdict == nil:
		return errHangs
	case p.asked:
		return p.alone(r, b, side)
	}
	result := drbdmodel.AsksHandler
	if !p.force || s.Connected() {
		r.change(b, func(pair *drbdmodel.Pair) { result = pair.Promote(side, false) })
	}
	switch result {
	case drbdmodel.Promoted:
		return nil
	case drbdmodel.Refused:
		return errors.New("state change failed: its peer is primary, or its disk is not up to date")
	}
	p.asked, p.downs = true, r.seats[p.host.node].downs
	p.host.world.callHandler(&HandlerCall{Host: p.host.node, Volume: p.id, Promoting: true, answer: func(v fsmpb.Verdict) { p.verdict = &v }})
	return errHangs
}

// alone promotes without the peer if the handler said so, or by force.
func (p *promotion) alone(r *resource, b *bond, side int) error {
	switch {
	case r.seats[p.host.node].downs != p.downs || *p.verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED && !p.force:
		return fmt.Errorf("state change failed: the handler said %v", *p.verdict)
	case b.pair.Observe(side).Connected():
		return errPeerConnected
	}
	result := drbdmodel.Refused
	r.change(b, func(pair *drbdmodel.Pair) {
		if p.force {
			result = pair.ForcePrimary(side)
		} else {
			result = pair.Promote(side, true)
		}
	})
	if result != drbdmodel.Promoted {
		return errors.New("need access to up-to-date data")
	}
	return nil
}
