package session

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

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
	member             Member
	log                *slog.Logger
	timing             timing
	proposalLimits     *nodeRateLimits
	registrationLimits *nodeRateLimits
	arrivals           atomic.Uint64 // counts the hellos
	ownFacts           func(context.Context) ([]byte, error)

	mu       sync.Mutex
	sessions map[fsm.NodeID]*liveSession
	closed   bool
}

// NewServer returns a server beside a member. A nil logger is the default one.
func NewServer(member Member, log *slog.Logger) *Server {
	if log == nil {
		log = slog.Default()
	}
	return &Server{member: member, log: log, timing: defaultTiming, proposalLimits: newNodeRateLimits(proposalsPerSecond, proposalBurst), registrationLimits: newNodeRateLimits(registrationsPerSecond, registrationBurst), sessions: map[fsm.NodeID]*liveSession{}}
}

// Sessions is how many hosts have their session here.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Close ends all sessions and accepts no new ones: hosts connect to another controller.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, ls := range s.sessions {
		ls.cancel(status.Error(codes.Unavailable, "this controller is shutting down"))
	}
}

// addSession makes a session the host's only one at this member. A newer session replaces an older
// one: the host knows best which of its connections works. One whose registration took so long that
// a newer session began meanwhile replaces nothing: nobody may be at its other end any more.
func (s *Server) addSession(ls *liveSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return status.Error(codes.Unavailable, "this controller is shutting down")
	}
	if ls.ctx.Err() != nil { // the host left while it was registered, and may be back
		return endStatus(ls.ctx)
	}
	old := s.sessions[ls.node]
	if old != nil && old.arrival > ls.arrival {
		return status.Errorf(codes.Aborted, "a newer session of %s began meanwhile", ls.node)
	}
	if old != nil {
		old.cancel(status.Errorf(codes.Aborted, "the session of %s was replaced by a newer one", ls.node))
	}
	s.sessions[ls.node] = ls
	return nil
}

func (s *Server) removeSession(ls *liveSession) {
	ls.cancel(status.Error(codes.Unavailable, "the session ended"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[ls.node] == ls {
		delete(s.sessions, ls.node)
	}
}

// liveSession is the session of a host, nil when this member has none.
func (s *Server) liveSession(node fsm.NodeID) *liveSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[node]
}

// sessionFacts are the sessions at this member, with the latest telemetry of each.
func (s *Server) sessionFacts() []*sessionpb.SessionFacts {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*sessionpb.SessionFacts, 0, len(s.sessions))
	for _, ls := range s.sessions {
		all = append(all, ls.facts())
	}
	return all
}

// callingNode is the host that the certificate names, whatever the message claims (S20).
func callingNode(ctx context.Context) (fsm.NodeID, error) {
	peer, err := pki.Peer(ctx)
	if err != nil {
		return "", err
	}
	if peer.Role != pki.Node {
		return "", status.Errorf(codes.PermissionDenied, "sessions are for hosts, and %s is none", peer.Actor())
	}
	return fsm.NodeID(peer.Name), nil
}
