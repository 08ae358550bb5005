package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// changeVolume replaces the record of volume 1, without a command.
func (w *world) changeVolume(change func(*Volume)) {
	w.t.Helper()
	v := *w.volume(1)
	change(&v)
	w.s.putVolume(v)
}

// requireRejected compares what ends a wait: its reason and what it says, empty for nothing.
func requireRejected(t *testing.T, want Reason, says string, rej *Rejection) {
	t.Helper()
	if says == "" {
		require.Nil(t, rej)
		return
	}
	require.NotNil(t, rej)
	require.Equal(t, want, rej.Reason)
	require.Equal(t, says, rej.Message)
}

func TestVolumeCreation(t *testing.T) {
	const id = "hf-00000000-0000-4000-8000-000000000001"
	failed := func(f Failed, op *Operation) func(*Volume) {
		return func(v *Volume) { v.Phase, v.Operation = f, op }
	}
	for name, tc := range map[string]struct {
		change func(*Volume)
		done   bool
		want   Reason
		says   string
	}{
		"under way":                {change: func(*Volume) {}},
		"ready":                    {change: func(v *Volume) { v.Phase = Ready{} }, done: true},
		"deleted meanwhile":        {change: func(v *Volume) { v.Phase = Deleting{} }, want: Busy, says: "create volume " + id + ": it was deleted meanwhile; retry"},
		"no space":                 {change: failed(Failed{Reason: "full", NoSpace: true}, nil), want: NoCapacity, says: `create volume "pvc-1": full`},
		"cancelled":                {change: failed(Failed{Reason: "cancelled"}, &Operation{State: OpCancelled}), want: Busy, says: `create volume "pvc-1": cancelled; retry`},
		"failed for a reason":      {change: failed(Failed{Reason: "no"}, &Operation{State: OpFailed, Reason: Precondition}), want: Precondition, says: `create volume "pvc-1": no`},
		"failed without a reason":  {change: failed(Failed{Reason: "I/O error"}, &Operation{State: OpFailed}), want: noReason, says: `create volume "pvc-1": I/O error`},
		"failed, not by a host":    {change: failed(Failed{Reason: "lost"}, nil), want: noReason, says: `create volume "pvc-1": lost`},
		"failed and being removed": {change: func(v *Volume) { *v = v.asFailedCreate(Epoch{}, NoCapacity, "full") }, want: NoCapacity, says: "create volume " + id + ": full"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ok(controller, create(1))
			w.changeVolume(tc.change)
			v, rej := w.s.VolumeCreation(id)
			require.Equal(t, tc.done, v != nil)
			requireRejected(t, tc.want, tc.says, rej)
		})
	}
	_, rej := newWorld(t).s.VolumeCreation(id)
	requireRejected(t, Busy, "create volume "+id+": it was deleted meanwhile; retry", rej)
}

func TestVolumeExpansion(t *testing.T) {
	ended := func(op Operation) func(*Volume) {
		return func(v *Volume) { v.Size = 2 * gib; op.Kind = OpExpand; v.putOperation(&op) }
	}
	for name, tc := range map[string]struct {
		change   func(*Volume)
		required int64
		done     bool
		want     Reason
		says     string
	}{
		"as large already":                    {change: func(*Volume) {}, required: gib, done: true},
		"a limit only":                        {change: func(*Volume) {}, done: true},
		"a device is smaller":                 {change: ended(Operation{State: OpRunning}), required: 2 * gib},
		"not as large as required":            {change: func(*Volume) {}, required: 2 * gib},
		"a missing device is smaller":         {change: func(v *Volume) { v.Replicas[0].State, v.Size = ReplicaMissing, 2*gib }, required: 2 * gib},
		"a leaving replica is not waited for": {change: func(v *Volume) { v.Replicas[0].State, v.Size = ReplicaLeaving, 2*gib }, required: 2 * gib, done: true},
		"cancelled":                           {change: ended(Operation{State: OpCancelled}), required: 2 * gib, want: Busy, says: "expand volume " + volumeID(1) + ": it was cancelled; retry"},
		"failed for a reason":                 {change: ended(Operation{State: OpFailed, Reason: NoCapacity, LastError: "full"}), required: 2 * gib, want: NoCapacity, says: "expand volume " + volumeID(1) + ": full"},
		"failed without a reason":             {change: ended(Operation{State: OpFailed, LastError: "I/O error"}), required: 2 * gib, want: noReason, says: "expand volume " + volumeID(1) + ": I/O error"},
		"deleted meanwhile":                   {change: func(v *Volume) { v.Phase = Deleting{} }, want: NotFound, says: `volume "` + volumeID(1) + `" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.changeVolume(func(v *Volume) { *v = v.withReplica(v.Replicas[0]); tc.change(v) })
			v, rej := w.s.VolumeExpansion(VolumeID(volumeID(1)), tc.required)
			require.Equal(t, tc.done, v != nil)
			requireRejected(t, tc.want, tc.says, rej)
		})
	}
}

func TestVolumeModification(t *testing.T) {
	ended := func(state OperationState, err string) func(*Volume) {
		return func(v *Volume) {
			v.Limits.ReadIOPS = 9
			v.putOperation(&Operation{Kind: OpModify, State: state, LastError: err})
		}
	}
	for name, tc := range map[string]struct {
		change func(*Volume)
		done   bool
		want   Reason
		says   string
	}{
		"in force":      {change: func(*Volume) {}, done: true},
		"not yet":       {change: ended(OpRunning, "")},
		"not staged":    {change: func(v *Volume) { ended(OpRunning, "")(v); v.Phase = Ready{} }, done: true},
		"failed":        {change: ended(OpFailed, "no cgroup"), want: noReason, says: "modify volume " + volumeID(1) + ": no cgroup"},
		"cancelled":     {change: ended(OpCancelled, ""), want: Busy, says: "modify volume " + volumeID(1) + ": it was cancelled; retry"},
		"being deleted": {change: func(v *Volume) { v.Phase = Deleting{} }, want: NotFound, says: `volume "` + volumeID(1) + `" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.staged(1, "n1", 1)
			w.changeVolume(tc.change)
			done, rej := w.s.VolumeModification(VolumeID(volumeID(1)))
			require.Equal(t, tc.done, done)
			requireRejected(t, tc.want, tc.says, rej)
		})
	}
}

// S18: nobody waits for the removal on a host that cannot be reached.
func TestVolumeRemoval(t *testing.T) {
	deleting := func(v *Volume) { v.Phase = Deleting{} }
	failed := func(v *Volume) { deleting(v); v.Operation = &Operation{ID: 12, State: OpFailed, LastError: "busy"} }
	gone := func(v *Volume) { failed(v); *v = v.withReplica(v.Replicas[0]); v.Replicas[0].State = ReplicaGone }
	for name, tc := range map[string]struct {
		change      func(*Volume)
		unreachable bool
		done        bool
		says        string
	}{
		"not begun":                       {change: func(*Volume) {}},
		"a host is at work":               {change: deleting},
		"gone":                            {change: gone, done: true},
		"an unreachable host":             {change: failed, unreachable: true, done: true},
		"a reachable host failed with it": {change: failed, says: "delete volume " + volumeID(1) + ": node n1 failed to remove it: busy; retry op-12 once this is mended"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.setUnreachable("n1", tc.unreachable)
			w.changeVolume(tc.change)
			done, rej := w.s.VolumeRemoval(VolumeID(volumeID(1)))
			require.Equal(t, tc.done, done)
			requireRejected(t, noReason, tc.says, rej)
		})
	}
	done, rej := newWorld(t).s.VolumeRemoval(VolumeID(volumeID(1)))
	require.True(t, done)
	require.Nil(t, rej)
}
