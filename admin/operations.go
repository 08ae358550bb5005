package admin

import (
	"cmp"
	"context"
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
