package controller

import (
	"context"
	"iter"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ListSnapshots lists the snapshots that are cut, members of groups too, in order
// of their ids; both filters must hold.
func (s *Server) ListSnapshots(ctx context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if err := s.serves(csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS); err != nil {
		return nil, err
	}
	if req.GetMaxEntries() < 0 {
		return nil, rpcerr.Invalid("max_entries is negative")
	}
	page := &snapshotPage{max: int(req.GetMaxEntries()), bytes: maxPage}
	err := s.read(ctx, func(state *fsm.State) error {
		page.incarnation = state.Cluster().Incarnation
		after, err := snapshotList.parse(req.GetStartingToken(), page.incarnation)
		if err == nil {
			page.collect(matching(state, req, fsm.SnapshotID(after)))
		}
		return err
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return page.describe(), nil
}

// matching yields what the filters let through, by the shortest way there is.
func matching(state *fsm.State, req *csi.ListSnapshotsRequest, after fsm.SnapshotID) iter.Seq[*fsm.Snapshot] {
	id, source := fsm.SnapshotID(req.GetSnapshotId()), fsm.VolumeID(req.GetSourceVolumeId())
	switch {
	case id != "":
		return func(yield func(*fsm.Snapshot) bool) {
			if n, ok := state.Snapshot(id); ok && id > after && (source == "" || n.Source == source) {
				yield(n)
			}
		}
	case source != "":
		return asked(state.SnapshotsOf(source, after))
	}
	return asked(state.Snapshots(after))
}

// asked leaves out copies that hosts keep of what replicas had that lost: nobody created
// them. Who knows the id of one finds it.
func asked(all iter.Seq[*fsm.Snapshot]) iter.Seq[*fsm.Snapshot] {
	return func(yield func(*fsm.Snapshot) bool) {
		for n := range all {
			if n.KeptCopy == nil && !yield(n) {
				return
			}
		}
	}
}

// snapshotPage is one answer being put together: collected under the state's lock
// and described without it.
type snapshotPage struct {
	max         int // entries; 0: no limit
	bytes       int // left
	snapshots   []*fsm.Snapshot
	incarnation uint64
	more        bool
}

func (p *snapshotPage) collect(all iter.Seq[*fsm.Snapshot]) {
	most := maxPage / leastEntry
	if p.max != 0 {
		most = min(most, p.max)
	}
	for n := range all {
		if !server.CutSnapshot(n) {
			continue
		}
		if len(p.snapshots) == most {
			p.more = true
			break
		}
		p.snapshots = append(p.snapshots, n)
	}
}

func (p *snapshotPage) describe() *csi.ListSnapshotsResponse {
	resp := &csi.ListSnapshotsResponse{}
	for _, n := range p.snapshots {
		entry := &csi.ListSnapshotsResponse_Entry{Snapshot: server.Snapshot(n)}
		const framing = 8 // at most, of one entry in the list
		p.bytes -= proto.Size(entry) + framing
		if p.bytes < 0 && len(resp.Entries) > 0 {
			p.more = true
			break
		}
		resp.Entries = append(resp.Entries, entry)
	}
	if p.more {
		resp.NextToken = snapshotList.token(string(p.snapshots[len(resp.Entries)-1].ID), p.incarnation)
	}
	return resp
}
