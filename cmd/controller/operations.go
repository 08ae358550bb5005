package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// operations counts how the work of hosts ended, as this member applied it.
type operations struct {
	known map[fsm.Change][]fsm.Operation // by what they are about
	ended *prometheus.CounterVec
	open  *prometheus.GaugeVec
}

// countOperations registers the metrics of the state and keeps them until ctx ends.
func countOperations(ctx context.Context, s source, registerer prometheus.Registerer) error {
	o := &operations{
		known: map[fsm.Change][]fsm.Operation{},
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_operations_ended_total",
			Help: "Operations that ended while this controller watched, by kind and outcome.",
		}, []string{"kind", "outcome"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_operations", Help: "Operations in the state, by kind and state.",
		}, []string{"kind", "state"}),
	}
	info := newVolumeInfo(s)
	if err := errors.Join(registerer.Register(o.ended), registerer.Register(o.open), registerer.Register(newPools(s)), registerer.Register(info)); err != nil {
		return fmt.Errorf("register the metrics of the state: %w", err)
	}
	watch := s.Watch(raftnode.Interest{All: true})
	defer watch.Close()
	o.all(s, false)
	info.all(s.Fork())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watch.C:
			touched, all := watch.Touched()
			if all {
				o.all(s, true)
				info.all(s.Fork())
				continue
			}
			some(s, touched, func(st *fsm.State, t fsm.Change) {
				o.look(st, subjectOf(t))
				info.look(st, t.Volume)
			})
		}
	}
}

// lookedAtUnderLock is how much is looked at under the lock that the log's next entry
// needs; more is looked at in a copy.
const lookedAtUnderLock = 500

// some looks at what was touched.
func some(s source, touched []fsm.Change, look func(*fsm.State, fsm.Change)) {
	all := func(st *fsm.State) error {
		for _, t := range touched {
			look(st, t)
		}
		return nil
	}
	if len(touched) > lookedAtUnderLock {
		_ = all(s.Fork())
		return
	}
	_ = s.View(all) // the member is open
}

// subjectOf names one thing in one way: a member is told with its group.
func subjectOf(t fsm.Change) fsm.Change {
	if t.Snapshot != "" {
		t.Group = ""
	}
	t.Node = ""
	return t
}

// all looks at everything that has or had an operation. What ended unseen, in
// a restored snapshot, is counted too.
func (o *operations) all(s source, count bool) {
	st := s.Fork() // no lock is held meanwhile
	for id := range o.known {
		o.look(st, id)
	}
	for v := range st.Operations() {
		o.look(st, fsm.Change{Volume: v.ID})
	}
	for n := range st.SnapshotOperations() {
		o.look(st, fsm.Change{Snapshot: n.ID})
	}
	for g := range st.GroupSnapshots("") {
		o.look(st, fsm.Change{Group: g.ID})
	}
	if !count {
		o.ended.Reset()
	}
}

// look compares the operations of one thing with what was known of them.
func (o *operations) look(st *fsm.State, id fsm.Change) {
	before, now := o.known[id], operationsOf(st, id)
	for i := range before {
		was := &before[i]
		if !slices.ContainsFunc(now, same(was)) {
			o.open.WithLabelValues(kinds[was.Kind], states[was.State]).Dec()
		}
		goesOn := slices.ContainsFunc(now, func(op fsm.Operation) bool { return op.ID == was.ID })
		if was.State == fsm.OpRunning && !goesOn {
			o.ended.WithLabelValues(kinds[was.Kind], "done").Inc()
		}
	}
	for i := range now {
		is := &now[i]
		if slices.ContainsFunc(before, same(is)) {
			continue
		}
		o.open.WithLabelValues(kinds[is.Kind], states[is.State]).Inc()
		if is.State != fsm.OpRunning {
			o.ended.WithLabelValues(kinds[is.Kind], states[is.State]).Inc()
		}
	}
	delete(o.known, id)
	if len(now) > 0 {
		o.known[id] = now
	}
}

// same tells whether two counts would be of the same label.
func same(a *fsm.Operation) func(fsm.Operation) bool {
	return func(b fsm.Operation) bool { return a.ID == b.ID && a.Kind == b.Kind && a.State == b.State }
}

// operationsOf is empty when the thing has none, or is gone.
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

var kinds = map[fsm.OperationKind]string{
	fsm.OpCreate: "create", fsm.OpDelete: "delete", fsm.OpTeardown: "teardown",
	fsm.OpSnapshot: "snapshot", fsm.OpExpand: "expand", fsm.OpModify: "modify", fsm.OpReplicaChange: "replicate",
}

var states = map[fsm.OperationState]string{fsm.OpRunning: "running", fsm.OpFailed: "failed", fsm.OpCancelled: "cancelled"}
