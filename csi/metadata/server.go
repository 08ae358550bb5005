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
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxTuples is the maximum that one message carries, far below gRPC's limit of 4 MiB.
const maxTuples = 20_000

// resolveTimeout is how long the state may take to be read.
const resolveTimeout = 30 * time.Second

// Maps requests block maps from hosts.
type Maps interface {
	// Map is what the target snapshot on a node allocates, or, with a base, what differs
	// between the two: at most max extents that end after from, in ascending order and
	// not overlapping. A host that compares for long returns how far it is although it found
	// nothing; NextOffset of zero: all extents before the end of the last one were returned. Its
	// errors are a *fsm.Rejection where the host refuses.
	Map(ctx context.Context, node fsm.NodeID, base, target fsm.SnapshotID, from int64, max int) (executor.MapPage, error)
}

// maxEmptyPages is how many pages in a row may have no extents; the host works on each
// for as long as it may on one page.
const maxEmptyPages = 100

// Server serves csi.v1.SnapshotMetadata.
type Server struct {
	csi.UnimplementedSnapshotMetadataServer
	client *cluster.Client
	maps   Maps
}

var _ csi.SnapshotMetadataServer = (*Server)(nil)

// New serves the snapshot metadata service over a cluster and its hosts' maps.
func New(c cluster.Cluster, maps Maps) *Server { return &Server{client: cluster.New(c), maps: maps} }

// GetMetadataAllocated streams the ranges that a snapshot has data in.
func (s *Server) GetMetadataAllocated(req *csi.GetMetadataAllocatedRequest, stream csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	q := mapQuery{target: fsm.SnapshotID(req.GetSnapshotId()), offset: req.GetStartingOffset(), maxResults: req.GetMaxResults()}
	if q.target == "" {
		return rpcerr.Invalid("snapshot_id is required")
	}
	return s.serve(stream.Context(), &q, func(page []*csi.BlockMetadata) error {
		return stream.Send(&csi.GetMetadataAllocatedResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: q.size, BlockMetadata: page,
		})
	})
}

// GetMetadataDelta streams the ranges that differ between two snapshots of a volume. They
// are the same ranges whichever of the two was taken first.
func (s *Server) GetMetadataDelta(req *csi.GetMetadataDeltaRequest, stream csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	q := mapQuery{
		base: fsm.SnapshotID(req.GetBaseSnapshotId()), target: fsm.SnapshotID(req.GetTargetSnapshotId()),
		offset: req.GetStartingOffset(), maxResults: req.GetMaxResults(),
	}
	if q.base == "" || q.target == "" {
		return rpcerr.Invalid("base_snapshot_id and target_snapshot_id are required")
	}
	return s.serve(stream.Context(), &q, func(page []*csi.BlockMetadata) error {
		return stream.Send(&csi.GetMetadataDeltaResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: q.size, BlockMetadata: page,
		})
	})
}

// mapQuery is what is requested from which host.
type mapQuery struct {
	base, target fsm.SnapshotID
	offset       int64
	maxResults   int32
	node         fsm.NodeID
	size         int64 // of the volume when the target was taken
}

func (s *Server) serve(ctx context.Context, q *mapQuery, send func([]*csi.BlockMetadata) error) error {
	if err := s.resolve(ctx, q); err != nil {
		return rpcerr.From(err)
	}
	if q.maxResults < 0 {
		return rpcerr.Invalid("max_results is negative")
	}
	if q.offset < 0 || q.offset > q.size {
		return rpcerr.From(fsm.Reject(fsm.OutOfRange, "starting_offset %d is not within the %d bytes of the volume", q.offset, q.size))
	}
	return rpcerr.From(s.stream(ctx, q, send))
}

// resolve reads the state, within a bound, as a stream may have no deadline.
func (s *Server) resolve(ctx context.Context, q *mapQuery) error {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	return s.client.ReadState(ctx, q.resolve)
}

// resolve finds the host that keeps all snapshots of the request.
func (q *mapQuery) resolve(state *fsm.State) error {
	target, rejection := state.SnapshotForMap(q.base, q.target)
	if rejection != nil {
		return rejection
	}
	q.node, q.size = target.Node, target.Size
	return nil
}

// stream sends page after page, and returns nil only when nothing was left out. An empty
// map is one message without ranges, which still carries the size.
func (s *Server) stream(ctx context.Context, q *mapQuery, send func([]*csi.BlockMetadata) error) error {
	limit := maxTuples
	if q.maxResults > 0 {
		limit = min(limit, int(q.maxResults))
	}
	for sent, from, emptyPages := false, q.offset, 0; ; {
		answer, err := s.maps.Map(ctx, q.node, q.base, q.target, from, limit)
		if err != nil {
			return fmt.Errorf("map snapshot %s on node %s from byte %d on: %w", q.target, q.node, from, err)
		}
		blocks, end, err := q.clip(answer.Extents, from, limit)
		if err != nil {
			return err
		}
		end = max(end, min(answer.NextOffset, q.size))
		last := !answer.More || end >= q.size
		if len(blocks) > 0 || last && !sent {
			if err := send(blocks); err != nil {
				return err
			}
			sent = true
		}
		if last {
			return nil
		}
		if emptyPages++; end > from {
			emptyPages = 0
		}
		if emptyPages > maxEmptyPages {
			return fmt.Errorf("map snapshot %s: node %s has more behind byte %d and does not say what", q.target, q.node, from)
		}
		from = end
	}
}

// clip limits what a host returned to the volume and to what was not sent yet, and
// returns where it ends. Extents that are out of order would give a wrong map: that is an
// error.
func (q *mapQuery) clip(extents []executor.Extent, from int64, limit int) ([]*csi.BlockMetadata, int64, error) {
	var blocks []*csi.BlockMetadata
	last := int64(-1)
	for _, extent := range extents {
		if extent.Length <= 0 || extent.Offset < 0 || extent.Offset < last || extent.Offset+extent.Length < extent.Offset || len(blocks) == limit {
			return nil, from, fmt.Errorf("map snapshot %s: node %s answered ranges that are out of order or too many", q.target, q.node)
		}
		last = extent.Offset + extent.Length
		start, end := max(extent.Offset, from), min(last, q.size)
		if start < end {
			blocks = append(blocks, &csi.BlockMetadata{ByteOffset: start, SizeBytes: end - start})
			from = end
		}
	}
	return blocks, max(from, min(last, q.size)), nil
}
