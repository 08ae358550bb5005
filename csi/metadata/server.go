// Package metadata serves csi.v1.SnapshotMetadata on every controller: which blocks
// a snapshot has, and which differ between two of one volume, as streams, from the
// maps of the host that keeps them.
package metadata

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxTuples is the most that one message carries, far below gRPC's limit of 4 MiB.
const maxTuples = 20_000

// patience is how long the state may take to be read.
const patience = 30 * time.Second

// Extent is a range of a volume, in bytes.
type Extent struct{ Offset, Length int64 }

// Maps asks hosts for block maps.
type Maps interface {
	// Map is what the target snapshot on a node allocates, or, with a base, what
	// differs between the two: at most max extents that end behind from, in ascending
	// order and not overlapping. Its errors are a *fsm.Rejection where the host refuses.
	Map(ctx context.Context, node fsm.NodeID, base, target fsm.SnapshotID, from int64, max int) (Page, error)
}

// Page is a part of a block map.
type Page struct {
	Extents []Extent
	// More tells that this is not all. Then all before Reached was told; a host that
	// compares for long says how far it is though it found nothing. Zero: all before
	// the end of the last extent was.
	More    bool
	Reached int64
}

// silentPages is how many pages in a row may say nothing, each after the host looked
// for as long as it does for one.
const silentPages = 100

// Server serves csi.v1.SnapshotMetadata.
type Server struct {
	csi.UnimplementedSnapshotMetadataServer
	log  *cluster.Client
	maps Maps
}

var _ csi.SnapshotMetadataServer = (*Server)(nil)

// New serves the snapshot metadata service over a cluster and its hosts' maps.
func New(c cluster.Cluster, maps Maps) *Server { return &Server{log: cluster.New(c), maps: maps} }

// GetMetadataAllocated streams the ranges that a snapshot has data in.
func (s *Server) GetMetadataAllocated(req *csi.GetMetadataAllocatedRequest, stream csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	q := question{target: fsm.SnapshotID(req.GetSnapshotId()), from: req.GetStartingOffset(), max: req.GetMaxResults()}
	if q.target == "" {
		return rpcerr.Invalid("snapshot_id is required")
	}
	return s.answer(stream.Context(), &q, func(page []*csi.BlockMetadata) error {
		return stream.Send(&csi.GetMetadataAllocatedResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: q.size, BlockMetadata: page,
		})
	})
}

// GetMetadataDelta streams the ranges that differ between two snapshots of a volume.
// It is the same ranges whichever of them was cut first.
func (s *Server) GetMetadataDelta(req *csi.GetMetadataDeltaRequest, stream csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	q := question{
		base: fsm.SnapshotID(req.GetBaseSnapshotId()), target: fsm.SnapshotID(req.GetTargetSnapshotId()),
		from: req.GetStartingOffset(), max: req.GetMaxResults(),
	}
	if q.base == "" || q.target == "" {
		return rpcerr.Invalid("base_snapshot_id and target_snapshot_id are required")
	}
	return s.answer(stream.Context(), &q, func(page []*csi.BlockMetadata) error {
		return stream.Send(&csi.GetMetadataDeltaResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: q.size, BlockMetadata: page,
		})
	})
}

// question is what is asked of which host.
type question struct {
	base, target fsm.SnapshotID
	from         int64
	max          int32
	node         fsm.NodeID
	size         int64 // of the volume when the target was cut
}

func (s *Server) answer(ctx context.Context, q *question, send func([]*csi.BlockMetadata) error) error {
	if err := s.look(ctx, q); err != nil {
		return rpcerr.From(err)
	}
	if q.max < 0 {
		return rpcerr.Invalid("max_results is negative")
	}
	if q.from < 0 || q.from > q.size {
		return rpcerr.From(fsm.Reject(fsm.OutOfRange, "starting_offset %d is not within the %d bytes of the volume", q.from, q.size))
	}
	return rpcerr.From(s.stream(ctx, q, send))
}

// look reads the state, within a bound, as a stream may have no deadline.
func (s *Server) look(ctx context.Context, q *question) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.log.Look(ctx, q.place)
}

// place finds the host that keeps all snapshots in question.
func (q *question) place(state *fsm.State) error {
	target, err := found(state, q.target)
	if err != nil {
		return err
	}
	q.node, q.size = target.Node, target.Size
	if q.base == "" {
		return nil
	}
	base, err := found(state, q.base)
	switch {
	case err != nil:
		return err
	case base.Source != target.Source:
		return fsm.Reject(fsm.Invalid, "snapshots %s and %s are of different volumes", base.ID, target.ID)
	case base.Host != target.Host || base.Pool != target.Pool:
		return fsm.Reject(fsm.Precondition, "snapshots %s and %s are kept in different pools: their blocks cannot be compared", base.ID, target.ID)
	}
	return nil
}

func found(state *fsm.State, id fsm.SnapshotID) (*fsm.Snapshot, error) {
	n, ok := state.Snapshot(id)
	switch {
	case !ok || !server.CutSnapshot(n):
		return nil, cluster.UnknownSnapshot(id)
	case n.Missing:
		return nil, fsm.Reject(fsm.Precondition, "the file of snapshot %s is missing on node %s", n.ID, n.Node)
	}
	return n, nil
}

// stream sends page after page, and returns nil only when nothing was left out. An
// empty map is one message without ranges, which tells the size all the same.
func (s *Server) stream(ctx context.Context, q *question, send func([]*csi.BlockMetadata) error) error {
	most := maxTuples
	if q.max > 0 {
		most = min(most, int(q.max))
	}
	for sent, from, silent := false, q.from, 0; ; {
		found, err := s.maps.Map(ctx, q.node, q.base, q.target, from, most)
		if err != nil {
			return fmt.Errorf("map snapshot %s on node %s from byte %d on: %w", q.target, q.node, from, err)
		}
		page, end, err := q.page(found.Extents, from, most)
		if err != nil {
			return err
		}
		end = max(end, min(found.Reached, q.size))
		last := !found.More || end >= q.size
		if len(page) > 0 || last && !sent {
			if err := send(page); err != nil {
				return err
			}
			sent = true
		}
		if last {
			return nil
		}
		if silent++; end > from {
			silent = 0
		}
		if silent > silentPages {
			return fmt.Errorf("map snapshot %s: node %s has more behind byte %d and does not say what", q.target, q.node, from)
		}
		from = end
	}
}

// page is what a host said, cut to the volume and to what was not told yet, and
// where it ends. What is out of order would be told wrongly: it is an error.
func (q *question) page(extents []Extent, from int64, most int) ([]*csi.BlockMetadata, int64, error) {
	var page []*csi.BlockMetadata
	last := int64(-1)
	for _, x := range extents {
		if x.Length <= 0 || x.Offset < 0 || x.Offset < last || x.Offset+x.Length < x.Offset || len(page) == most {
			return nil, from, fmt.Errorf("map snapshot %s: node %s answered ranges that are out of order or too many", q.target, q.node)
		}
		last = x.Offset + x.Length
		start, end := max(x.Offset, from), min(last, q.size)
		if start < end {
			page = append(page, &csi.BlockMetadata{ByteOffset: start, SizeBytes: end - start})
			from = end
		}
	}
	return page, max(from, min(last, q.size)), nil
}
