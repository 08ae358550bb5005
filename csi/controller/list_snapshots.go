package controller

import (
	"context"
	"iter"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/page"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

var snapshotTokens = page.Tokens{Tag: "ls1", IDPrefix: "hs-"}

// ListSnapshots lists the snapshots that are taken, members of groups too, in order of
// their ids; both filters must hold.
func (s *Server) ListSnapshots(ctx context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS); err != nil {
		return nil, err
	}
	if req.GetMaxEntries() < 0 {
		return nil, rpcerr.Invalid("max_entries is negative")
	}
	listed := &page.Page[*fsm.Snapshot]{}
	var incarnation uint64
	err := s.state.readState(ctx, func(state *fsm.State) error {
		incarnation = state.Cluster().Incarnation
		after, err := snapshotTokens.Decode(req.GetStartingToken(), incarnation)
		if err == nil {
			listed.Collect(filteredSnapshots(state, req, fsm.SnapshotID(after)), req.GetMaxEntries())
		}
		return err
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return snapshotsResponse(listed, incarnation), nil
}

// filteredSnapshots yields what matches the filters, by the cheapest lookup. Kept copies of
// outdated replicas are found by id only.
func filteredSnapshots(state *fsm.State, req *csi.ListSnapshotsRequest, after fsm.SnapshotID) iter.Seq[*fsm.Snapshot] {
	id, source := fsm.SnapshotID(req.GetSnapshotId()), fsm.VolumeID(req.GetSourceVolumeId())
	if id != "" {
		return func(yield func(*fsm.Snapshot) bool) {
			if snap, rejection := state.KnownSnapshot(id); rejection == nil && id > after && (source == "" || snap.Source == source) {
				yield(snap)
			}
		}
	}
	return state.KnownSnapshots(source, after)
}

func snapshotsResponse(listed *page.Page[*fsm.Snapshot], incarnation uint64) *csi.ListSnapshotsResponse {
	resp := &csi.ListSnapshotsResponse{}
	resp.Entries = page.Describe(listed, func(snap *fsm.Snapshot) *csi.ListSnapshotsResponse_Entry {
		return &csi.ListSnapshotsResponse_Entry{Snapshot: csiconv.Snapshot(snap)}
	})
	if listed.More {
		resp.NextToken = snapshotTokens.Encode(string(listed.Items[len(resp.Entries)-1].ID), incarnation)
	}
	return resp
}
