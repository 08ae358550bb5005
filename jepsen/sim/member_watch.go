package sim

import (
	"cmp"
	"slices"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// watch wakes on changes of interest, as raftnode's does.
type watch struct {
	wants   func(fsm.Change) bool
	waits   bool // a call waits with it: it is woken by a change of all
	wake    chan struct{}
	changes []fsm.Change
}

func registerSessions(r grpc.ServiceRegistrar, s *session.Server) {
	sessionpb.RegisterSessionServer(r, s)
	s.RegisterPeers(r)
}

// publish notes changes for the watches. The caller holds mu.
func (m *member) publish(changes []fsm.Change) {
	for _, w := range m.watches {
		touched := false
		for _, c := range changes {
			if w.wants(c) || w.waits && c.WakeWaiters {
				c.Node, c.WakeWaiters = "", false
				w.changes, touched = append(w.changes, c), true
			}
		}
		if touched {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
}

func (m *member) addWatch(waits bool, wants func(fsm.Change) bool) *watch {
	w := &watch{wants: wants, waits: waits, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches = append(m.watches, w)
	return w
}

func (m *member) removeWatch(w *watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.watches, w); i >= 0 {
		m.watches = slices.Delete(m.watches, i, i+1)
	}
}

// WatchNode watches a node's volumes, its snapshots and its own record.
func (m *member) WatchNode(node fsm.NodeID) (wake <-chan struct{}, take func() ([]fsm.Change, bool), stop func()) {
	w := m.addWatch(false, func(c fsm.Change) bool { return c.Node == node })
	take = func() ([]fsm.Change, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		changes := w.changes
		w.changes = nil
		slices.SortFunc(changes, func(a, b fsm.Change) int {
			return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.Group, b.Group))
		})
		return slices.Compact(changes), false
	}
	return w.wake, take, func() { m.removeWatch(w) }
}

// WatchVolumes wakes when one of the volumes may have changed.
func (m *member) WatchVolumes(ids ...fsm.VolumeID) (wake <-chan struct{}, stop func()) {
	w := m.addWatch(true, func(c fsm.Change) bool { return slices.Contains(ids, c.Volume) })
	return w.wake, func() { m.removeWatch(w) }
}

// WatchSnapshot wakes when the snapshot may have changed.
func (m *member) WatchSnapshot(id fsm.SnapshotID) (wake <-chan struct{}, stop func()) {
	w := m.addWatch(true, func(c fsm.Change) bool { return c.Snapshot == id })
	return w.wake, func() { m.removeWatch(w) }
}

// WatchGroup wakes when the group, or a member of it, may have changed.
func (m *member) WatchGroup(id fsm.GroupSnapshotID) (wake <-chan struct{}, stop func()) {
	w := m.addWatch(true, func(c fsm.Change) bool { return c.Group == id })
	return w.wake, func() { m.removeWatch(w) }
}
