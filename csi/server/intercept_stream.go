package server

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// interceptStreams runs a chain of unary interceptors on streams: CSI's have one request
// and many responses. They have no deadline but the caller's.
func interceptStreams(chain ...grpc.UnaryServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		req, err := newRequest(info.FullMethod)
		if err != nil {
			return err
		}
		if err := ss.RecvMsg(req); err != nil {
			return err
		}
		next := func(ctx context.Context, _ any) (any, error) {
			return nil, handle(srv, &replayedStream{ServerStream: ss, ctx: ctx, req: req})
		}
		unaryInfo := &grpc.UnaryServerInfo{Server: srv, FullMethod: info.FullMethod}
		for i := len(chain) - 1; i >= 0; i-- {
			inner, step := next, chain[i]
			next = func(ctx context.Context, req any) (any, error) { return step(ctx, req, unaryInfo, inner) }
		}
		_, err = next(ss.Context(), req)
		return err
	}
}

// newRequest is an empty message of the kind that a method takes.
func newRequest(fullMethod string) (proto.Message, error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	method, isMethod := found.(protoreflect.MethodDescriptor)
	if err != nil || !isMethod {
		return nil, status.Errorf(codes.Unimplemented, "there is no method %s", fullMethod)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, status.Errorf(codes.Internal, "method %s takes a message of no known kind", fullMethod)
	}
	return kind.New().Interface(), nil
}

// replayedStream is a stream whose request has been read already.
type replayedStream struct {
	grpc.ServerStream
	ctx context.Context
	req proto.Message
}

// Context has the request's id.
func (r *replayedStream) Context() context.Context { return r.ctx }

// RecvMsg returns the request, once.
func (r *replayedStream) RecvMsg(into any) error {
	msg, isMessage := into.(proto.Message)
	if r.req == nil || !isMessage {
		return r.ServerStream.RecvMsg(into)
	}
	if msg.ProtoReflect().Descriptor() != r.req.ProtoReflect().Descriptor() {
		return fmt.Errorf("a request of kind %s was read, not %s", r.req.ProtoReflect().Descriptor().FullName(), msg.ProtoReflect().Descriptor().FullName())
	}
	proto.Merge(msg, r.req)
	r.req = nil
	return nil
}
