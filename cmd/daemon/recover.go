package daemon

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// RecoverCalls turns a panic in a call into INTERNAL for its caller and a log line, so that no request
// can end the process (S70).
func RecoverCalls(log *slog.Logger) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	internalError := func(method string, cause any) error {
		log.Error("a call panicked", "method", method, "panic", cause, "stack", string(debug.Stack()))
		return status.Errorf(codes.Internal, "%s failed by a bug; the controller's log has it", method)
	}
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				resp, err = nil, internalError(info.FullMethod, cause)
			}
		}()
		return next(ctx, req)
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = internalError(info.FullMethod, cause)
			}
		}()
		return next(srv, s)
	}
	return unary, stream
}
