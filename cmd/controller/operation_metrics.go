package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// operationMetrics counts the results of hosts' operations, as this member applies them.
type operationMetrics struct {
	last       map[fsm.Change][]fsm.Operation // by volume, snapshot or group
	endedTotal *prometheus.CounterVec
	current    *prometheus.GaugeVec
}

// countOperations registers the metrics of the state and keeps them until ctx ends.
func countOperations(ctx context.Context, s stateReader, registerer prometheus.Registerer) error {
	o := &operationMetrics{
		last: map[fsm.Change][]fsm.Operation{},
		endedTotal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_operations_ended_total",
			Help: "Operations that ended while this controller watched, by kind and outcome.",
		}, []string{"kind", "outcome"}),
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_operations", Help: "Operations in the state, by kind and state.",
		}, []string{"kind", "state"}),
	}
	info := newVolumeInfo(s)
	for _, collector := range []prometheus.Collector{o.endedTotal, o.current, newPoolCollector(s), newReplicaCollector(s), newAddonsCollector(s), newRelationCollector(s), info} {
		if err := registerer.Register(collector); err != nil {
			return fmt.Errorf("register the metrics of the state: %w", err)
		}
	}
	watch := s.Watch(raftnode.Interest{All: true})
	defer watch.Close()
	o.rebuild(s, false)
	info.rebuild(s.Fork())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watch.C:
			changes, all := watch.TakeChanges()
			if all {
				o.rebuild(s, true)
				info.rebuild(s.Fork())
				continue
			}
			forEachChange(s, changes, func(st *fsm.State, t fsm.Change) {
				o.update(st, withoutNode(t))
				info.update(st, t.Volume)
			})
		}
	}
}

// maxChangesUnderLock is how many changes are read under the lock that the log's next entry
// needs; more are read from a copy.
const maxChangesUnderLock = 500

// forEachChange calls update for each change.
func forEachChange(s stateReader, changes []fsm.Change, update func(*fsm.State, fsm.Change)) {
	updateAll := func(st *fsm.State) error {
		for _, t := range changes {
			update(st, t)
		}
		return nil
	}
	if len(changes) > maxChangesUnderLock {
		_ = updateAll(s.Fork())
		return
	}
	_ = s.View(updateAll) // the member is open
}

// withoutNode gives one object one key: a group's member is covered by its group.
func withoutNode(t fsm.Change) fsm.Change {
	if t.Snapshot != "" {
		t.Group = ""
	}
	t.Node = ""
	return t
}

// rebuild compares everything that has or had an operation. Operations that ended unseen, in
// a restored Raft snapshot, are counted too.
func (o *operationMetrics) rebuild(s stateReader, count bool) {
	st := s.Fork() // no lock is held meanwhile
	for id := range o.last {
		o.update(st, id)
	}
	for v := range st.Operations() {
		o.update(st, fsm.Change{Volume: v.ID})
	}
	for n := range st.SnapshotOperations() {
		o.update(st, fsm.Change{Snapshot: n.ID})
	}
	for g := range st.GroupSnapshots("") {
		o.update(st, fsm.Change{Group: g.ID})
	}
	if !count {
		o.endedTotal.Reset()
	}
}

// update compares the operations of one object with those known before.
func (o *operationMetrics) update(st *fsm.State, id fsm.Change) {
	previous, current := o.last[id], operationsOf(st, id)
	for i := range previous {
		old := &previous[i]
		if !slices.ContainsFunc(current, sameSeries(old)) {
			o.current.WithLabelValues(old.Kind.String(), old.State.String()).Dec()
		}
		stillThere := slices.ContainsFunc(current, func(op fsm.Operation) bool { return op.ID == old.ID })
		if old.State == fsm.OpRunning && !stillThere {
			o.endedTotal.WithLabelValues(old.Kind.String(), "done").Inc()
		}
	}
	for i := range current {
		op := &current[i]
		if slices.ContainsFunc(previous, sameSeries(op)) {
			continue
		}
		o.current.WithLabelValues(op.Kind.String(), op.State.String()).Inc()
		if op.State != fsm.OpRunning {
			o.endedTotal.WithLabelValues(op.Kind.String(), op.State.String()).Inc()
		}
	}
	delete(o.last, id)
	if len(current) > 0 {
		o.last[id] = current
	}
}

// sameSeries tells whether two operations count in the same series.
func sameSeries(a *fsm.Operation) func(fsm.Operation) bool {
	return func(b fsm.Operation) bool { return a.ID == b.ID && a.Kind == b.Kind && a.State == b.State }
}

// operationsOf returns the object's operations; empty when there are none, or the object is deleted.
func operationsOf(st *fsm.State, id fsm.Change) []fsm.Operation {
	var op *fsm.Operation
	if v, ok := st.Volume(id.Volume); ok {
		return v.Operations()
	}
	if n, ok := st.Snapshot(id.Snapshot); ok {
		op = n.Operation
	}
	if g, ok := st.GroupSnapshot(id.Group); ok {
		op = g.Operation
	}
	if op == nil {
		return nil
	}
	return []fsm.Operation{*op}
}
