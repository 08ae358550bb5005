package admin

import (
	"iter"
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func operationView(op *fsm.Operation) *adminpb.Operation {
	if op == nil {
		return nil
	}
	return &adminpb.Operation{
		Id: op.ID.String(), Kind: op.Kind.String(), State: op.State.String(),
		Step: op.Step, Attempts: op.Attempts, LastError: op.LastError, DoneBytes: op.DoneBytes, TotalBytes: op.TotalBytes,
		Started: timeView(op.Started), Deadline: timeView(op.Deadline),
	}
}

// volumeOperation, snapshotOperation and groupOperation return nil where there is no operation.
func volumeOperation(v *fsm.Volume, op *fsm.Operation) *adminpb.Operation {
	view := operationView(op)
	if view != nil {
		view.Volume, view.VolumeName, view.Name = string(v.ID), v.Name, v.Name
		view.Claim = claimView(v.Claim)
		view.Nodes = mapSlice(v.Replicas, func(r fsm.Replica) string { return string(r.Node) })
	}
	return view
}

func snapshotOperation(snap *fsm.Snapshot) *adminpb.Operation {
	view := operationView(snap.Operation)
	if view != nil {
		view.Snapshot, view.Volume, view.Name = string(snap.ID), string(snap.Source), snap.Name
		view.Nodes = []string{string(snap.Node)}
	}
	return view
}

func groupOperation(st *fsm.State, g *fsm.GroupSnapshot) *adminpb.Operation {
	view := operationView(g.Operation)
	if view != nil {
		view.Group, view.Name = string(g.ID), g.Name
		view.Nodes = slices.Compact(slices.Sorted(memberNodes(st, g)))
	}
	return view
}

func memberNodes(st *fsm.State, g *fsm.GroupSnapshot) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, id := range g.Members {
			if snap, ok := st.Snapshot(id); ok && !yield(string(snap.Node)) {
				return
			}
		}
	}
}

// copiedCell shows the progress of a copy.
func copiedCell(o *adminpb.Operation) string {
	if o.GetTotalBytes() == 0 {
		return ""
	}
	return formatSize(o.GetDoneBytes()) + " of " + formatSize(o.GetTotalBytes())
}
