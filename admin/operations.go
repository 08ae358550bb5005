package admin

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Operations lists the unfinished and failed operations of hosts in the order in which they began,
// or one operation.
func (s *Server) Operations(ctx context.Context, req *adminpb.OperationsRequest) (*adminpb.OperationsResponse, error) {
	st, err := s.fork(ctx, req.GetStale())
	if err != nil {
		return nil, err
	}
	resp := &adminpb.OperationsResponse{Index: st.Cluster().Index}
	if id := fsm.OperationID(req.GetId()); id != 0 {
		found := findOperation(st, id)
		if found == nil {
			return nil, status.Errorf(codes.NotFound, "%s is not under way: it is done, or it never was", id)
		}
		resp.Operations = append(resp.Operations, found)
		return resp, nil
	}
	resp.Operations = allOperations(st)
	return resp, nil
}

// findOperation returns the operation with the id, nil when there is none.
func findOperation(st *fsm.State, id fsm.OperationID) *adminpb.Operation {
	if v, ok := st.Operation(id); ok {
		for _, op := range v.Operations() {
			if op.ID == id {
				return volumeOperation(v, &op)
			}
		}
	}
	if n, ok := st.SnapshotOperation(id); ok {
		return snapshotOperation(n)
	}
	if g, ok := st.GroupOperation(id); ok {
		return groupOperation(st, g)
	}
	return nil
}

func allOperations(st *fsm.State) []*adminpb.Operation {
	byID := map[fsm.OperationID]*adminpb.Operation{}
	for v := range st.Operations() {
		for _, op := range v.Operations() {
			byID[op.ID] = volumeOperation(v, &op)
		}
	}
	for n := range st.SnapshotOperations() {
		byID[n.Operation.ID] = snapshotOperation(n)
	}
	for g := range st.GroupSnapshots("") {
		if g.Operation != nil {
			byID[g.Operation.ID] = groupOperation(st, g)
		}
	}
	return sortedByKey(byID)
}

func sortedByKey[K cmp.Ordered, V any](all map[K]V) []V {
	keys := make([]K, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return mapSlice(keys, func(k K) V { return all[k] })
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
