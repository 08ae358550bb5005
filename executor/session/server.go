package session

import (
	"context"
	"log/slog"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Server is a controller's end of the sessions. Its listener must use a
// configuration of package pki, with ServerOptions.
type Server struct {
	sessionpb.UnimplementedSessionServer
	member Member
	log    *slog.Logger
	pace   pace
	limits *limits // of proposals
	begins *limits // of registrations

	mu     sync.Mutex
	held   map[fsm.NodeID]*held
	closed bool
}

// NewServer makes a server beside a member. A nil logger is the default one.
func NewServer(member Member, log *slog.Logger) *Server {
	if log == nil {
		log = slog.Default()
	}
	return &Server{member: member, log: log, pace: usual, limits: newLimits(proposalsPerSecond, proposalsAtOnce), begins: newLimits(sessionsPerSecond, sessionsAtOnce), held: map[fsm.NodeID]*held{}}
}

// Sessions is how many hosts have their session here.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Close ends all sessions and takes no new ones: hosts go to another controller.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, h := range s.held {
		h.end(status.Error(codes.Unavailable, "this controller is shutting down"))
	}
}

// hold makes a session the host's one here. A newer session replaces an older:
// the host knows best which of its connections is alive.
func (s *Server) hold(h *held) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return status.Error(codes.Unavailable, "this controller is shutting down")
	}
	if h.ctx.Err() != nil { // the host left while it was registered, and may be back
		return ended(h.ctx)
	}
	if old := s.held[h.node]; old != nil {
		old.end(status.Errorf(codes.Aborted, "the session of %s was replaced by a newer one", h.node))
	}
	s.held[h.node] = h
	return nil
}

func (s *Server) release(h *held) {
	h.end(status.Error(codes.Unavailable, "the session ended"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[h.node] == h {
		delete(s.held, h.node)
	}
}

// of is the session of a host, nil when this member has none.
func (s *Server) of(node fsm.NodeID) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[node]
}

// facts is what this member knows of the hosts whose sessions it holds.
func (s *Server) facts() []*sessionpb.SessionFacts {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*sessionpb.SessionFacts, 0, len(s.held))
	for _, h := range s.held {
		all = append(all, h.facts())
	}
	return all
}

// hostOf is the host that calls: what its certificate says, whatever the message does (S20).
func hostOf(ctx context.Context) (fsm.NodeID, error) {
	peer, err := pki.Peer(ctx)
	if err != nil {
		return "", err
	}
	if peer.Role != pki.Node {
		return "", status.Errorf(codes.PermissionDenied, "sessions are for hosts, and %s is none", peer.Actor())
	}
	return fsm.NodeID(peer.Name), nil
}
