package controller

import (
	"context"
	"iter"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ListSnapshots lists the snapshots that are taken, members of groups too, in order of
// their ids; both filters must hold.
func (s *Server) ListSnapshots(ctx context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS); err != nil {
		return nil, err
	}
	if req.GetMaxEntries() < 0 {
		return nil, rpcerr.Invalid("max_entries is negative")
	}
	page := &snapshotPage{maxEntries: int(req.GetMaxEntries()), bytesLeft: maxPageSize}
	err := s.state.readState(ctx, func(state *fsm.State) error {
		page.incarnation = state.Cluster().Incarnation
		after, err := snapshotTokens.decode(req.GetStartingToken(), page.incarnation)
		if err == nil {
			page.collect(filteredSnapshots(state, req, fsm.SnapshotID(after)))
		}
		return err
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return page.response(), nil
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

// snapshotPage is one response being built: collected under the state's lock and
// described without it.
type snapshotPage struct {
	maxEntries  int // entries; 0: no limit
	bytesLeft   int // of the page
	snapshots   []*fsm.Snapshot
	incarnation uint64
	more        bool
}

func (p *snapshotPage) collect(all iter.Seq[*fsm.Snapshot]) {
	limit := maxPageSize / minEntrySize
	if p.maxEntries != 0 {
		limit = min(limit, p.maxEntries)
	}
	for snap := range all {
		if len(p.snapshots) == limit {
			p.more = true
			break
		}
		p.snapshots = append(p.snapshots, snap)
	}
}

func (p *snapshotPage) response() *csi.ListSnapshotsResponse {
	resp := &csi.ListSnapshotsResponse{}
	for _, snap := range p.snapshots {
		entry := &csi.ListSnapshotsResponse_Entry{Snapshot: csiconv.Snapshot(snap)}
		const framing = 8 // at most, of one entry in the list
		p.bytesLeft -= proto.Size(entry) + framing
		if p.bytesLeft < 0 && len(resp.Entries) > 0 {
			p.more = true
			break
		}
		resp.Entries = append(resp.Entries, entry)
	}
	if p.more {
		resp.NextToken = snapshotTokens.encode(string(p.snapshots[len(resp.Entries)-1].ID), p.incarnation)
	}
	return resp
}
