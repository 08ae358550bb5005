package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
)

// frame is one thing that travels on a stream.
type frame struct {
	open, header, end bool
	md                metadata.MD
	message           proto.Message
	err               error // of the end; nil: io.EOF
}

// stream is one streaming call.
type stream struct {
	conn      *netConn
	number    int
	full      string
	ctx       context.Context // the caller's
	cancel    context.CancelFunc
	server    context.Context // the server's, once it is opened
	stop      context.CancelFunc
	up, down  *pipe
	headerSet chan struct{}
	headers   metadata.MD
}

// pipe is one direction of a stream.
type pipe struct {
	s      *stream
	key    string
	handle func(frame) // called for each frame that arrives and is no message
	mu     sync.Mutex
	wire   []frame // on its way
	inbox  []frame // arrived
	notify chan struct{}
	broken bool // nothing more arrives
}

// NewStream begins a streaming call.
func (c *netConn) NewStream(ctx context.Context, _ *grpc.StreamDesc, full string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.life.Err() != nil || c.GetState().String() != "READY" {
		return nil, errNoConnection
	}
	st := &stream{conn: c, number: c.net.number(c.from), full: full, headerSet: make(chan struct{})}
	st.ctx, st.cancel = context.WithCancel(ctx)
	context.AfterFunc(c.life, st.cancel)
	name := fmt.Sprintf("stream %d %s", st.number, full[strings.LastIndex(full, "/")+1:])
	st.up = &pipe{s: st, key: fmt.Sprintf("message %s->%s %s", c.from, c.to, name), handle: st.arriveUp, notify: make(chan struct{}, 1)}
	st.down = &pipe{s: st, key: fmt.Sprintf("message %s->%s %s", c.to, c.from, name), handle: st.arriveDown, notify: make(chan struct{}, 1)}
	c.net.mu.Lock()
	c.net.links = append(c.net.links, st)
	c.net.mu.Unlock()
	context.AfterFunc(st.ctx, func() { st.up.send(frame{end: true, err: context.Canceled}) })
	st.up.send(frame{open: true})
	return (*clientEnd)(st), nil
}

// send puts a frame on its way. What nothing depends on arrives at once, unless something is ahead of it.
func (p *pipe) send(f frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return
	}
	if len(p.wire) == 0 && isRoutine(f) && p.s.conn.net.up(p.s.conn.from, p.s.conn.to) {
		p.deliver(f)
		return
	}
	p.wire = append(p.wire, f)
	if len(p.wire) == 1 {
		p.schedule()
	}
}

// isRoutine tells whether a frame is a heartbeat or telemetry.
func isRoutine(f frame) bool {
	switch m := f.message.(type) {
	case *sessionpb.FromNode:
		return m.GetBody() == nil || m.GetTelemetry() != nil
	case *sessionpb.ToNode:
		d := m.GetDesired()
		return d != nil && !d.GetFull() && !d.GetMore() && len(d.GetVolumes())+len(d.GetVolumesGone())+len(d.GetSnapshots())+len(d.GetSnapshotsGone()) == 0
	}
	return false
}

// schedule offers the delivery of the first frame. The caller holds mu.
func (p *pipe) schedule() {
	c := p.s.conn
	p.s.conn.net.s.pending.add(&event{
		key: p.key + ": " + p.wire[0].name(), kind: kindMessage, do: p.arrive,
		ready: func() bool { return c.net.up(c.from, c.to) || c.net.server(c.to) == nil },
	})
}

func (f frame) name() string {
	switch {
	case f.open:
		return "open"
	case f.header:
		return "header"
	case f.end:
		return "end"
	}
	switch m := f.message.(type) {
	case *sessionpb.FromNode:
		return strings.TrimPrefix(fmt.Sprintf("%T", m.GetBody()), "*sessionpb.FromNode_")
	case *sessionpb.ToNode:
		return strings.TrimPrefix(fmt.Sprintf("%T", m.GetBody()), "*sessionpb.ToNode_")
	}
	return "message"
}

// arrive delivers the first frame.
func (p *pipe) arrive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wire) == 0 {
		return
	}
	f := p.wire[0]
	p.wire = p.wire[1:]
	p.deliver(f)
	if len(p.wire) > 0 {
		p.schedule()
	}
}

// deliver hands a frame over. The caller holds mu.
func (p *pipe) deliver(f frame) {
	if f.message == nil {
		p.handle(f)
	}
	if f.message != nil || f.end {
		p.inbox = append(p.inbox, f)
		select {
		case p.notify <- struct{}{}:
		default:
		}
	}
}

// lose drops what is on its way and everything after it, but for an end.
func (p *pipe) lose(end frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.broken {
		p.broken, p.wire = true, nil
		p.deliver(end)
	}
}

// receive returns the next message.
func (p *pipe) receive(ctx context.Context, into any) error {
	for {
		p.mu.Lock()
		if len(p.inbox) > 0 {
			f := p.inbox[0]
			if !f.end {
				p.inbox = p.inbox[1:]
			}
			p.mu.Unlock()
			return f.read(into)
		}
		p.mu.Unlock()
		select {
		case <-p.notify:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (f frame) read(into any) error {
	switch {
	case f.end && f.err == nil:
		return io.EOF
	case f.end:
		return status.Convert(f.err).Err()
	}
	proto.Merge(into.(proto.Message), f.message)
	return nil
}

// arriveUp handles what the server's transport sees: the opening, and the end.
func (s *stream) arriveUp(f frame) {
	server := s.conn.net.server(s.conn.to)
	switch {
	case f.open && server == nil:
		go s.down.lose(frame{end: true, err: errNoConnection})
	case f.open:
		s.server, s.stop = context.WithCancel(s.conn.identity(server.life))
		go s.serve(server)
	case f.end && s.stop != nil:
		s.stop()
	}
}

func (s *stream) arriveDown(f frame) {
	if f.header {
		s.headers = f.md
		close(s.headerSet)
	}
}

func (s *stream) serve(server *netServer) {
	defer s.stop()
	service, method := server.find(s.full)
	err := status.Error(codes.Unimplemented, s.full)
	for i := range service.desc.Streams {
		if service.desc.Streams[i].StreamName == method {
			err = service.desc.Streams[i].Handler(service.impl, (*serverEnd)(s))
		}
	}
	s.down.send(frame{end: true, err: err})
}

// breakOff ends the stream at the caller's end; late keeps what the caller had sent on its way.
func (s *stream) breakOff(late bool) {
	broken := frame{end: true, err: status.Error(codes.Unavailable, "the connection broke")}
	s.down.lose(broken)
	if !late {
		s.up.lose(broken)
	}
}

// clientEnd is the caller's end of a stream.
type clientEnd stream

// Header waits for the server's header.
func (c *clientEnd) Header() (metadata.MD, error) {
	for {
		c.down.mu.Lock()
		ended := len(c.down.inbox) > 0 && c.down.inbox[0].end
		c.down.mu.Unlock()
		if ended {
			var nothing frame
			return nil, c.down.receive(c.ctx, &nothing)
		}
		select {
		case <-c.headerSet:
			return c.headers, nil
		case <-c.down.notify:
		case <-c.ctx.Done():
			return nil, status.FromContextError(c.ctx.Err()).Err()
		}
	}
}

// Trailer is empty.
func (c *clientEnd) Trailer() metadata.MD { return nil }

// CloseSend does nothing: no call waits for it.
func (c *clientEnd) CloseSend() error { return nil }

// Context is the caller's.
func (c *clientEnd) Context() context.Context { return c.ctx }

// SendMsg puts a message on its way.
func (c *clientEnd) SendMsg(m any) error {
	if c.ctx.Err() != nil || c.down.isBroken() {
		return io.EOF
	}
	c.up.send(frame{message: proto.Clone(m.(proto.Message))})
	return nil
}

func (p *pipe) isBroken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// RecvMsg waits for a message.
func (c *clientEnd) RecvMsg(m any) error { return c.down.receive(c.ctx, m) }

// serverEnd is the server's end of a stream.
type serverEnd stream

// SetHeader does nothing.
func (e *serverEnd) SetHeader(metadata.MD) error { return nil }

// SendHeader puts the header on its way.
func (e *serverEnd) SendHeader(md metadata.MD) error {
	e.down.send(frame{header: true, md: md})
	return nil
}

// SetTrailer does nothing.
func (e *serverEnd) SetTrailer(metadata.MD) {}

// Context is the server's.
func (e *serverEnd) Context() context.Context { return e.server }

// SendMsg puts a message on its way.
func (e *serverEnd) SendMsg(m any) error {
	if e.server.Err() != nil {
		return errors.New("the stream ended")
	}
	e.down.send(frame{message: proto.Clone(m.(proto.Message))})
	return nil
}

// RecvMsg waits for a message.
func (e *serverEnd) RecvMsg(m any) error { return e.up.receive(e.server, m) }
