package cluster

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// gRPC trailers of CSI calls, by which a history of calls can be held against the log. Each has a value for every time
// that a call did it, in their order: the last one is the answer's.
const (
	// LogIndexTrailer is the index of the entry that decided a change, accepted or rejected. A change without it was
	// answered without the log or from a state that was read, or it is not known what became of it.
	LogIndexTrailer = "holdfast-log-index"
	// ReadIndexTrailer is the index of a state that was read.
	ReadIndexTrailer = "holdfast-read-index"
)

// reportIndex adds an index to a trailer of the call that ctx belongs to. Outside a gRPC call
// there is nobody to tell, and an index that is not known is not told.
func reportIndex(ctx context.Context, trailer string, index uint64) {
	if index != 0 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(trailer, strconv.FormatUint(index, 10)))
	}
}
