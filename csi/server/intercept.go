package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

type contextKey struct{}

// RequestID is the call's id in the log; empty outside a call.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(contextKey{}).(string)
	return id
}

func newRequestID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// logCalls gives each call an id and logs its start (debug) and its end.
func logCalls(logger *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		id := newRequestID()
		log := logger.With("request_id", id, "method", method(info)).With(logAttributes(req, req)...)
		if log.Enabled(ctx, slog.LevelDebug) {
			log.DebugContext(ctx, "call starts", "request", Redacted{req}.String())
		}
		start := time.Now()
		resp, err := next(context.WithValue(ctx, contextKey{}, id), req)
		attrs := []any{"code", status.Code(err).String(), "duration", time.Since(start)}
		attrs = append(attrs, responseAttributes(resp, req)...)
		if err != nil {
			attrs = append(attrs, "error", status.Convert(err).Message())
		}
		log.Log(ctx, logLevel(info, err), "call ended", attrs...)
		return resp, err
	}
}

// logLevel is low for calls that COs make all the time, and high for bugs.
func logLevel(info *grpc.UnaryServerInfo, err error) slog.Level {
	switch status.Code(err) {
	case codes.OK:
		name := method(info)
		if name == "Probe" || strings.Contains(name, "Get") {
			return slog.LevelDebug
		}
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return slog.LevelError
	default: // a refusal is an answer
	}
	return slog.LevelInfo
}

func method(info *grpc.UnaryServerInfo) string {
	return info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
}

// logAttributes names the objects of a request, for the log: bounded, and without the
// request's secrets, as it is the caller's text.
func logAttributes(msg, req any) []any {
	var attrs []any
	add := func(key, text string) {
		if text != "" {
			attrs = append(attrs, key, fsm.Truncate(removeSensitive(text, req), csiconv.MaxString))
		}
	}
	if m, ok := msg.(interface{ GetName() string }); ok {
		add("name", m.GetName())
	}
	if m, ok := msg.(interface{ GetVolumeId() string }); ok {
		add("volume_id", m.GetVolumeId())
	}
	if m, ok := msg.(interface{ GetSnapshotId() string }); ok {
		add("snapshot_id", m.GetSnapshotId())
	}
	if m, ok := msg.(interface{ GetGroupSnapshotId() string }); ok {
		add("group_snapshot_id", m.GetGroupSnapshotId())
	}
	if m, ok := msg.(interface{ GetVolumeGroupId() string }); ok {
		add("volume_group_id", m.GetVolumeGroupId())
	}
	if m, ok := msg.(interface{ GetSourceVolumeId() string }); ok {
		add("source_volume_id", m.GetSourceVolumeId())
	}
	return attrs
}

// responseAttributes names the object that a create answered.
func responseAttributes(resp, req any) []any {
	switch r := resp.(type) {
	case *csi.CreateVolumeResponse:
		return logAttributes(r.GetVolume(), req)
	case *csi.CreateSnapshotResponse:
		return []any{"snapshot_id", r.GetSnapshot().GetSnapshotId()}
	case *csi.CreateVolumeGroupSnapshotResponse:
		return logAttributes(r.GetGroupSnapshot(), req)
	}
	return nil
}

// convertErrors makes each error a status with a code, a message and no details, and
// removes the request's secrets from the message.
func convertErrors(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	if err == nil {
		return resp, nil
	}
	converted := status.Convert(rpcerr.From(err))
	return nil, status.Error(converted.Code(), removeSensitive(converted.Message(), req))
}

// maxDeadlineMargin bounds how long before the caller's deadline a handler's ends.
const maxDeadlineMargin = 500 * time.Millisecond

// limitDeadline gives handlers a deadline a tenth of the remaining time, at most half
// a second, before the caller's: an answer must still arrive. A call without a
// deadline gets the server's.
func limitDeadline(timeout time.Duration) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		deadline, hasDeadline := ctx.Deadline()
		if !hasDeadline {
			deadline = time.Now().Add(timeout)
		}
		remaining := time.Until(deadline)
		ctx, cancel := context.WithDeadline(ctx, deadline.Add(-min(remaining/10, maxDeadlineMargin)))
		defer cancel()
		return next(ctx, req)
	}
}

// recoverPanics turns a panic into INTERNAL and logs where it came from.
func recoverPanics(logger *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				id := RequestID(ctx)
				logger.ErrorContext(ctx, "a call panicked", "request_id", id, "method", method(info),
					"panic", removeSensitive(panicText(cause), req), "stack", string(debug.Stack()))
				resp, err = nil, status.Errorf(codes.Internal, "%s failed by a bug; the log has it under request id %s", method(info), id)
			}
		}()
		return next(ctx, req)
	}
}

func panicText(cause any) string {
	switch what := cause.(type) {
	case error:
		return what.Error()
	case string:
		return what
	}
	return "a value that is no text"
}

// checkLimits refuses requests that break what CSI demands of every message.
func checkLimits(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if msg, ok := req.(proto.Message); ok {
		if err := CheckMessage(msg); err != nil {
			return nil, err
		}
	}
	return next(ctx, req)
}
