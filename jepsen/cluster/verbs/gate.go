package verbs

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Gate passes an operator's calls on to a controller, and halts at one step of them.
type Gate struct {
	Address string // where commands find it

	server  *grpc.Server
	forward *grpc.ClientConn

	mu     sync.Mutex
	steps  int         // since Arm
	halt   int         // the step at which it halts, from 1
	reach  func() bool // called there; it tells whether the call is held
	halted bool
}

// OpenGate opens a gate before a controller's API. It has the certificates of a controller, for who calls it, and of an operator.
func OpenGate(controller string, serve, call tls.Certificate) (*Gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	// Nobody is deceived: both ends are the test's own.
	forward, err := grpc.NewClient(controller, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{call}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})))
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	g := &Gate{Address: listener.Addr().String(), forward: forward}
	g.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{serve}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})),
		grpc.ForceServerCodecV2(bytesCodec{}), grpc.UnknownServiceHandler(g.pass))
	go func() { _ = g.server.Serve(listener) }() // until Close
	return g, nil
}

// Close ends all calls.
func (g *Gate) Close() error {
	g.server.Stop()
	return g.forward.Close()
}

// Arm has the gate call reach at the step, and hold the call until its caller is gone if that says so; 0: at none.
func (g *Gate) Arm(step int, reach func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.steps, g.halt, g.reach, g.halted = 0, step, reach, false
}

// Steps is how many there were since Arm.
func (g *Gate) Steps() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.steps
}

// Halted tells whether the step was reached since Arm.
func (g *Gate) Halted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.halted
}

// step counts a step. The one at which the gate halts ends with its caller.
func (g *Gate) step(ctx context.Context) error {
	g.mu.Lock()
	g.steps++
	if g.steps != g.halt {
		g.mu.Unlock()
		return nil
	}
	g.halted = true
	reach := g.reach
	g.mu.Unlock()
	if !reach() {
		return nil
	}
	<-ctx.Done()
	return status.Error(codes.Unavailable, "the caller was killed")
}

// pass passes a call on: one request, and the answers to it.
func (g *Gate) pass(_ any, caller grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(caller)
	var request []byte
	if err := caller.RecvMsg(&request); err != nil {
		return err
	}
	if err := g.step(caller.Context()); err != nil {
		return err
	}
	known, _ := metadata.FromIncomingContext(caller.Context())
	answers, err := g.forward.NewStream(metadata.NewOutgoingContext(caller.Context(), known),
		&grpc.StreamDesc{ServerStreams: true}, method, grpc.ForceCodecV2(bytesCodec{}), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := errors.Join(answers.SendMsg(&request), answers.CloseSend()); err != nil {
		return err
	}
	for {
		var answer []byte
		err := answers.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			caller.SetTrailer(answers.Trailer())
			return err
		}
		if err := g.step(caller.Context()); err != nil {
			return err
		}
		if err := caller.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// bytesCodec leaves messages as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, errors.New("not the bytes of a message")
	}
	return mem.BufferSlice{mem.SliceBuffer(*message)}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return errors.New("not the bytes of a message")
	}
	*message = data.Materialize()
	return nil
}
