package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// operations counts how the work of hosts ended, as this member applied it.
type operations struct {
	known map[fsm.Touch]fsm.Operation // by what each is about
	ended *prometheus.CounterVec
	open  *prometheus.GaugeVec
}

// countOperations registers the metrics of the state and keeps them until ctx ends.
func countOperations(ctx context.Context, s source, registerer prometheus.Registerer) error {
	o := &operations{
		known: map[fsm.Touch]fsm.Operation{},
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_operations_ended_total",
			Help: "Operations that ended while this controller watched, by kind and outcome.",
		}, []string{"kind", "outcome"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_operations", Help: "Operations in the state, by kind and state.",
		}, []string{"kind", "state"}),
	}
	if err := errors.Join(registerer.Register(o.ended), registerer.Register(o.open), registerer.Register(newPools(s))); err != nil {
		return fmt.Errorf("register the metrics of the state: %w", err)
	}
	watch := s.Watch(raftnode.Interest{All: true})
	defer watch.Close()
	o.all(s, false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watch.C:
			touched, all := watch.Touched()
			if all {
				o.all(s, true)
				continue
			}
			_ = s.View(func(st *fsm.State) error { // the member is open
				for _, t := range touched {
					o.look(st, subjectOf(t))
				}
				return nil
			})
		}
	}
}

// subjectOf names one thing in one way: a member is told with its group.
func subjectOf(t fsm.Touch) fsm.Touch {
	if t.Snapshot != "" {
		t.Group = ""
	}
	t.Node = ""
	return t
}

// all looks at everything that has or had an operation. What ended unseen, in
// a restored snapshot, is counted too.
func (o *operations) all(s source, count bool) {
	_ = s.View(func(st *fsm.State) error { // the member is open
		for id := range o.known {
			o.look(st, id)
		}
		for v := range st.Operations() {
			o.look(st, fsm.Touch{Volume: v.ID})
		}
		for n := range st.SnapshotOperations() {
			o.look(st, fsm.Touch{Snapshot: n.ID})
		}
		for g := range st.GroupSnapshots("") {
			o.look(st, fsm.Touch{Group: g.ID})
		}
		return nil
	})
	if !count {
		o.ended.Reset()
	}
}

// look compares the operation of one thing with what was known of it.
func (o *operations) look(st *fsm.State, id fsm.Touch) {
	before, had := o.known[id]
	var now fsm.Operation
	if op := operationOf(st, id); op != nil {
		now = *op
	}
	if had && before.ID == now.ID && before.State == now.State {
		return
	}
	if had {
		o.open.WithLabelValues(kinds[before.Kind], states[before.State]).Dec()
	}
	if had && before.State == fsm.OpRunning && before.ID != now.ID {
		o.ended.WithLabelValues(kinds[before.Kind], "done").Inc()
	}
	delete(o.known, id)
	if now.ID == 0 {
		return
	}
	o.known[id] = now
	o.open.WithLabelValues(kinds[now.Kind], states[now.State]).Inc()
	if now.State != fsm.OpRunning {
		o.ended.WithLabelValues(kinds[now.Kind], states[now.State]).Inc()
	}
}

// operationOf is nil when the thing has none, or is gone.
func operationOf(st *fsm.State, id fsm.Touch) *fsm.Operation {
	if v, ok := st.Volume(id.Volume); ok {
		return v.Operation
	}
	if n, ok := st.Snapshot(id.Snapshot); ok {
		return n.Operation
	}
	if g, ok := st.GroupSnapshot(id.Group); ok {
		return g.Operation
	}
	return nil
}

var kinds = map[fsm.OperationKind]string{
	fsm.OpCreate: "create", fsm.OpDelete: "delete", fsm.OpTeardown: "teardown",
	fsm.OpSnapshot: "snapshot", fsm.OpExpand: "expand", fsm.OpModify: "modify", fsm.OpReplicate: "replicate",
}

var states = map[fsm.OperationState]string{fsm.OpRunning: "running", fsm.OpFailed: "failed", fsm.OpCancelled: "cancelled"}
