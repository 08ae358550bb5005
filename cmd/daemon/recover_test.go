package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// S70: a call that panics is an error for its caller and a line in the log.
func TestAPanickingCallDoesNotEndTheProcess(t *testing.T) {
	var lines bytes.Buffer
	unary, stream := RecoverCalls(slog.New(slog.NewTextHandler(&lines, nil)))
	_, err := unary(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/admin/Plan"},
		func(context.Context, any) (any, error) { panic("planted") })
	require.Equal(t, codes.Internal, status.Code(err))
	require.Contains(t, lines.String(), "planted")
	err = stream(nil, nil, &grpc.StreamServerInfo{FullMethod: "/session/Attach"}, func(any, grpc.ServerStream) error { panic("planted") })
	require.Equal(t, codes.Internal, status.Code(err))
}
