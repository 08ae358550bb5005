package controller_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/csi/cluster"
)

// indexOf does a call and returns the last index of a trailer of its answer; zero without one.
func indexOf(t *testing.T, name string, call func(...grpc.CallOption) error) (uint64, error) {
	t.Helper()
	var trailer metadata.MD
	callErr := call(grpc.Trailer(&trailer))
	values := trailer.Get(name)
	if len(values) == 0 {
		return 0, callErr
	}
	index, err := strconv.ParseUint(values[len(values)-1], 10, 64)
	require.NoError(t, err)
	return index, callErr
}

func TestAnswersCarryTheLogIndex(t *testing.T) {
	w := newEnv(t)
	ctx := t.Context()
	var id string
	created, err := indexOf(t, cluster.LogIndexTrailer, func(opts ...grpc.CallOption) error {
		res, err := w.CreateVolume(ctx, createRequest("a"), opts...)
		id = res.GetVolume().GetVolumeId()
		return err
	})
	require.NoError(t, err)
	require.Positive(t, created)

	read, err := indexOf(t, cluster.ReadIndexTrailer, func(opts ...grpc.CallOption) error {
		_, err := w.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id}, opts...)
		return err
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, read, created, "a read is of a state that holds what was acknowledged")

	larger := createRequest("a")
	larger.CapacityRange = &csi.CapacityRange{RequiredBytes: 1 << 40}
	refused, err := indexOf(t, cluster.LogIndexTrailer, func(opts ...grpc.CallOption) error {
		_, err := w.CreateVolume(ctx, larger, opts...)
		return err
	})
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	require.Greater(t, refused, created, "a rejection is an entry of its own")
}

// TestAnAnswerFromTheStateNamesNoEntry: what is not published is unpublished already, and nothing is proposed.
func TestAnAnswerFromTheStateNamesNoEntry(t *testing.T) {
	w := newEnv(t)
	res, err := w.CreateVolume(t.Context(), createRequest("a"))
	require.NoError(t, err)
	unpublish := func(opts ...grpc.CallOption) error {
		_, err := w.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: res.GetVolume().GetVolumeId(), NodeId: "n1"}, opts...)
		return err
	}
	decided, err := indexOf(t, cluster.LogIndexTrailer, unpublish)
	require.NoError(t, err)
	require.Zero(t, decided)
	read, err := indexOf(t, cluster.ReadIndexTrailer, unpublish)
	require.NoError(t, err)
	require.Positive(t, read)
}

func TestAnswersWithoutTheLogCarryNoIndex(t *testing.T) {
	w := newEnv(t)
	w.cluster.update(func(c *fakeCluster) { c.noQuorum = true })
	for name, call := range map[string]func(context.Context, ...grpc.CallOption) error{
		"no quorum": func(ctx context.Context, opts ...grpc.CallOption) error {
			_, err := w.CreateVolume(ctx, createRequest("a"), opts...)
			return err
		},
		"refused before it is proposed": func(ctx context.Context, opts ...grpc.CallOption) error {
			_, err := w.DeleteVolume(ctx, &csi.DeleteVolumeRequest{}, opts...)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			index, err := indexOf(t, cluster.LogIndexTrailer, func(opts ...grpc.CallOption) error { return call(t.Context(), opts...) })
			require.Error(t, err)
			require.Zero(t, index)
		})
	}
}
