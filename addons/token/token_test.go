package token_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/addons/token"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
)

func TestRequire(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	check := token.Require(file)
	with := func(text string) map[string]string { return map[string]string{token.Key: text} }
	for name, tc := range map[string]struct {
		method string
		req    proto.Message
		want   codes.Code
	}{
		"with the token":               {"/fence.FenceController/FenceClusterNetwork", &fence.FenceClusterNetworkRequest{Secrets: with("s3cret")}, codes.OK},
		"without one":                  {"/fence.FenceController/FenceClusterNetwork", &fence.FenceClusterNetworkRequest{}, codes.Unauthenticated},
		"with another":                 {"/fence.FenceController/ListClusterFence", &fence.ListClusterFenceRequest{Secrets: with("s3cre")}, codes.Unauthenticated},
		"with an empty one":            {"/fence.FenceController/GetFenceClients", &fence.GetFenceClientsRequest{Secrets: with("")}, codes.Unauthenticated},
		"Identity needs none":          {"/identity.Identity/Probe", &identity.ProbeRequest{}, codes.OK},
		"CSI's own services need none": {"/csi.v1.Controller/DeleteVolume", &csi.DeleteVolumeRequest{}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := check(context.Background(), tc.req, &grpc.UnaryServerInfo{FullMethod: tc.method}, func(context.Context, any) (any, error) { return tc.req, nil })
				require.Equal(t, tc.want, status.Code(rpcerr.From(err)))
			}
		})
	}
}

func TestTheTokenIsReadAtEachCall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	call := func(text string) codes.Code {
		_, err := token.Require(file)(context.Background(), &fence.ListClusterFenceRequest{Secrets: map[string]string{token.Key: text}},
			&grpc.UnaryServerInfo{FullMethod: "/fence.FenceController/ListClusterFence"}, func(context.Context, any) (any, error) { return nil, nil })
		return status.Code(rpcerr.From(err))
	}
	require.Equal(t, codes.Unavailable, call(""), "a file that is gone lets nobody in")
	for _, text := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.Equal(t, codes.OK, call(text))
	}
	require.NoError(t, os.WriteFile(file, []byte(" \n"), 0o600))
	require.Equal(t, codes.Unavailable, call(""), "an empty token is none")
}
