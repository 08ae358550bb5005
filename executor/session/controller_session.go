package session

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Attach serves one session, from its first message to its end.
func (s *Server) Attach(stream sessionpb.Session_AttachServer) error {
	node, err := callingNode(stream.Context())
	if err != nil {
		return err
	}
	// The header tells the host at once that this process is alive; what follows may take a while.
	level := s.knownLevel()
	if err := stream.SendHeader(levelHeader(level)); err != nil {
		return err
	}
	in := receiveLoop(stream)
	hello, err := s.receiveHello(stream.Context(), in, node)
	if err != nil {
		return err
	}
	arrival := s.arrivals.Add(1)
	if err := s.admit(stream.Context(), node, hello, level); err != nil {
		s.log.Info("session refused", "node", node, "error", err)
		return err
	}
	ls := newLiveSession(stream.Context(), hello.GetRegister(), arrival)
	ls.answersHostFacts = hello.GetHostFacts()
	if err := s.addSession(ls); err != nil {
		return err
	}
	defer s.removeSession(ls)
	s.log.Info("session began", "node", node, "host", ls.host)
	err = s.serve(stream, ls, in)
	s.log.Info("session ended", "node", node, "host", ls.host, "error", err)
	return err
}

// receiveLoop returns a channel of the host's messages, closed when the stream ends.
func receiveLoop(stream sessionpb.Session_AttachServer) <-chan *sessionpb.FromNode {
	in := make(chan *sessionpb.FromNode)
	go func() {
		defer close(in)
		for {
			m, err := stream.Recv()
			if err != nil {
				return // the handler sees the closed channel, or has returned
			}
			select {
			case in <- m:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	return in
}

// receiveHello waits for the first message, which must name the host of the certificate (S20).
func (s *Server) receiveHello(ctx context.Context, in <-chan *sessionpb.FromNode, node fsm.NodeID) (*sessionpb.Hello, error) {
	timer := time.NewTimer(s.timing.helloTimeout)
	defer timer.Stop()
	select {
	case m := <-in:
		hello := m.GetHello()
		if hello.GetRegister() == nil {
			return nil, status.Error(codes.InvalidArgument, "a session begins with a hello that registers its host")
		}
		if claimed := hello.GetRegister().GetNodeId(); claimed != string(node) {
			return nil, status.Errorf(codes.PermissionDenied, "the certificate is for node %s and the hello for %q (S20)", node, claimed)
		}
		return hello, nil
	case <-timer.C:
		return nil, status.Error(codes.DeadlineExceeded, "the session had no hello")
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// admit waits until this member may send to the host, and registers it.
func (s *Server) admit(ctx context.Context, node fsm.NodeID, hello *sessionpb.Hello, level uint32) error {
	if err := s.member.Ready(); err != nil {
		return status.Errorf(codes.Unavailable, "this controller does not serve now: %v", err)
	}
	if err := s.waitCaughtUp(ctx, fsm.EpochFrom(hello.GetSeen())); err != nil {
		return err
	}
	if err := s.checkLevelSent(level); err != nil {
		return err
	}
	return s.register(ctx, node, hello.GetRegister())
}

// waitCaughtUp waits until this member has applied what the host acted on (S14). A
// state that lags would report volumes as no longer desired, or desire what is outdated.
func (s *Server) waitCaughtUp(ctx context.Context, acted fsm.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.catchUpTimeout)
	defer cancel()
	for {
		at, err := s.appliedEpoch()
		if err != nil {
			return err
		}
		if at.Compare(acted) >= 0 {
			return nil
		}
		if err := s.waitEpoch(ctx, at, acted); err != nil {
			return status.Errorf(codes.Unavailable, "this controller has applied %s and the host acted on %s (S14)", at, acted)
		}
	}
}

// waitEpoch waits for the index, or for a short time when the incarnation must change first.
func (s *Server) waitEpoch(ctx context.Context, at, acted fsm.Epoch) error {
	if at.Incarnation == acted.Incarnation {
		return s.member.WaitIndex(ctx, acted.Index)
	}
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// appliedEpoch is the epoch up to which this member has applied the log.
func (s *Server) appliedEpoch() (at fsm.Epoch, err error) {
	err = s.member.View(func(state *fsm.State) error {
		at = clusterEpoch(state.Cluster())
		return nil
	})
	if err != nil {
		return at, status.Errorf(codes.Unavailable, "read this controller's state: %v", err)
	}
	return at, nil
}

func clusterEpoch(c fsm.Cluster) fsm.Epoch {
	return fsm.Epoch{Incarnation: c.Incarnation, Index: c.Index}
}

// register proposes a registration. One is proposed for every session: it also records
// the host as reachable, and is rejected when another host has the node's id (S17).
func (s *Server) register(ctx context.Context, node fsm.NodeID, c *fsmpb.RegisterNode) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.registerTimeout)
	defer cancel()
	if err := s.registrationLimits.wait(ctx, node); err != nil { // each session is a log entry too
		return err
	}
	outcome, err := s.propose(ctx, node, &fsmpb.Command{
		Body: &fsmpb.Command_RegisterNode{RegisterNode: c},
	})
	if err != nil {
		return err
	}
	return registrationError(node, fsm.Err(outcome))
}

// registerAgain registers a host that has its session: it offers something that it did not when that began,
// as a pool that was absent. If that fails the session ends: the next one begins with a registration.
func (s *Server) registerAgain(ls *liveSession, r *fsmpb.RegisterNode) error {
	if fsm.NodeID(r.GetNodeId()) != ls.node || fsm.HostID(r.GetHostId()) != ls.host {
		return status.Errorf(codes.InvalidArgument, "a later hello registers the session's own host %s of node %s (S20)", ls.host, ls.node)
	}
	return s.register(ls.ctx, ls.node, r)
}

func registrationError(node fsm.NodeID, err error) error {
	var rejection *fsm.Rejection
	if !errors.As(err, &rejection) {
		return nil
	}
	switch rejection.Reason {
	case fsm.Expired, fsm.Busy, fsm.Unreachable:
		return status.Error(codes.Unavailable, rejection.Message)
	case fsm.Forbidden:
		return status.Error(codes.PermissionDenied, rejection.Message)
	case fsm.Unsupported:
		return status.Error(codes.FailedPrecondition, rejection.Message)
	case fsm.Invalid, fsm.OutOfRange:
		return status.Errorf(codes.FailedPrecondition, "%s; correct the configuration of node %s", rejection.Message, node)
	default:
		return status.Errorf(codes.FailedPrecondition,
			"%s (to give the name to this host, an operator runs `holdfast nodes replace %s` or `holdfast nodes lost %s` once the old one is gone for good)", rejection.Message, node, node)
	}
}

// serve runs the session of a registered host until either end closes it.
func (s *Server) serve(stream sessionpb.Session_AttachServer, ls *liveSession, in <-chan *sessionpb.FromNode) error {
	wake, take, stop := s.member.WatchNode(ls.node)
	defer stop()
	f := &feed{member: s.member, node: ls.node, host: ls.host, stream: stream}
	if err := f.send(nil, true); err != nil {
		return err
	}
	tick := time.NewTicker(s.timing.heartbeat)
	defer tick.Stop()
	readiness := readinessCheck{member: s.member, timing: s.timing}
	for {
		var err error
		select {
		case <-ls.ctx.Done():
			return endStatus(ls.ctx)
		case m, ok := <-in:
			if !ok {
				return nil
			}
			err = s.handleMessage(ls, m)
		case query := <-ls.outgoing:
			err = stream.Send(query)
		case <-wake:
			err = f.send(take())
		case <-tick.C:
			if err = readiness.check(); err == nil {
				err = f.send(nil, false)
			}
		}
		if err != nil {
			return err
		}
	}
}

// endStatus returns why a session ended, as a gRPC status.
func endStatus(ctx context.Context) error {
	cause := context.Cause(ctx)
	if _, ok := status.FromError(cause); ok {
		return cause
	}
	return status.FromContextError(cause).Err()
}

// handleMessage handles one message of the host.
func (s *Server) handleMessage(ls *liveSession, m *sessionpb.FromNode) error {
	ls.noteHeard()
	switch body := m.GetBody().(type) {
	case *sessionpb.FromNode_Telemetry:
		at, err := s.appliedEpoch()
		if err == nil {
			ls.setTelemetry(body.Telemetry, at.Index)
		}
		return err
	case *sessionpb.FromNode_Inventory:
		ls.addInventoryAnswer(body.Inventory)
	case *sessionpb.FromNode_Map:
		ls.endQuery(body.Map.GetQuestion(), func(q *pendingQuery) { q.mapAnswer = body.Map })
	case *sessionpb.FromNode_Volume:
		ls.endQuery(body.Volume.GetQuestion(), func(q *pendingQuery) { q.volumeAnswer = body.Volume })
	case *sessionpb.FromNode_Replica:
		ls.endQuery(body.Replica.GetQuestion(), func(q *pendingQuery) { q.replicaAnswer = body.Replica })
	case *sessionpb.FromNode_HostFacts:
		ls.endQuery(body.HostFacts.GetQuestion(), func(q *pendingQuery) { q.hostFactsAnswer = body.HostFacts })
	case *sessionpb.FromNode_Hello: // controllers of earlier builds end the session here, and the next one registers as much
		return s.registerAgain(ls, body.Hello.GetRegister())
	}
	return nil // a heartbeat, or a message of a newer build
}

// readinessCheck ends the sessions of a member that is not ready for the peer timeout, so that
// its hosts look for another. An election takes less than that.
type readinessCheck struct {
	member      Member
	timing      timing
	notReadyFor time.Duration
}

func (r *readinessCheck) check() error {
	err := r.member.Ready()
	if err == nil {
		r.notReadyFor = 0
		return nil
	}
	if r.notReadyFor += r.timing.heartbeat; r.notReadyFor < r.timing.peerTimeout {
		return nil
	}
	return status.Errorf(codes.Unavailable, "this controller does not serve any more: %v", err)
}
