package server

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// streams answers GetMetadataAllocated with a function, after one message.
type streams struct {
	csi.UnimplementedSnapshotMetadataServer
	answer func(context.Context, *csi.GetMetadataAllocatedRequest) error
}

func (s *streams) GetMetadataAllocated(req *csi.GetMetadataAllocatedRequest, stream csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	if err := stream.Send(&csi.GetMetadataAllocatedResponse{VolumeCapacityBytes: 1}); err != nil {
		return err
	}
	return s.answer(stream.Context(), req)
}

// TestStreamsPassTheInterceptors: a stream is logged, counted, limited and recovered as a
// call is, and its errors are plain.
func TestStreamsPassTheInterceptors(t *testing.T) {
	var seen string
	h := start(t, ok, func(ctx context.Context, req *csi.GetMetadataAllocatedRequest) error {
		seen = RequestID(ctx)
		switch req.GetSnapshotId() {
		case "panic":
			panic("canary-secret in a panic")
		case "bare":
			return errors.New("with canary-secret in it")
		}
		return nil
	})
	client := csi.NewSnapshotMetadataClient(h.conn)
	for _, tc := range []struct {
		id   string
		from int64
		told int
		want codes.Code
	}{
		{"", 0, 1, codes.OK},
		{"", -1, 1, codes.OK}, // CSI-EXT-SnapMeta-04: for the handler to say
		{"panic", 0, 1, codes.Internal},
		{"bare", 0, 1, codes.Internal},
		{"a\x00", 0, 0, codes.InvalidArgument},
	} {
		stream, err := client.GetMetadataAllocated(t.Context(), &csi.GetMetadataAllocatedRequest{
			SnapshotId: tc.id, StartingOffset: tc.from, Secrets: map[string]string{"k": "canary-secret"},
		})
		require.NoError(t, err)
		told := 0
		for err == nil {
			if _, err = stream.Recv(); err == nil {
				told++
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		require.Equal(t, tc.want, status.Code(err), "%v", err)
		require.Equal(t, tc.told, told)
		require.NotContains(t, status.Convert(err).Message(), "canary")
	}
	require.Len(t, seen, 16)
	require.NotContains(t, h.logs.String(), "canary")
	require.Contains(t, h.logs.String(), `"method":"GetMetadataAllocated"`)
	require.Contains(t, h.logs.String(), "a call panicked")
	require.Eventually(t, func() bool {
		count, err := testutil.GatherAndCount(h.metrics, "holdfast_csi_calls_total")
		return err == nil && count == 3 // OK, Internal, InvalidArgument
	}, waitLimit, waitStep)
}
