package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// held is a member's answer to what was asked of a host: it has none where it has no session with it.
type held[A any] interface {
	GetHeld() bool
	GetAnswer() A
}

// askHolder asks every other member at once, each for at most a time, and returns the answer of the one that has the host's
// session. The others' questions end with it. The error is UNAVAILABLE where no member has it.
func askHolder[A any, R held[A]](ctx context.Context, m *Members, node fsm.NodeID, within time.Duration, what string, ask func(context.Context, sessionpb.PeersClient) (R, error)) (A, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var none A
	members, err := m.server.member.Peers(ctx)
	if err != nil {
		return none, fmt.Errorf("ask the members for the session of %s: %w", node, err)
	}
	type reply struct {
		answer A
		err    error
	}
	replies := make(chan reply, len(members))
	for _, peer := range members {
		go func() {
			answer, err := askPeer(ctx, peer, within, ask)
			replies <- reply{answer, err}
		}()
	}
	failures := status.Errorf(codes.Unavailable, "ask %s %s: %v", node, what, ErrNoSession)
	for range members {
		switch r := <-replies; {
		case r.err == nil:
			return r.answer, nil
		case !errors.Is(r.err, errNoSessionHere):
			failures = r.err
		}
	}
	return none, failures
}

// askPeer asks one member. The error is errNoSessionHere where it has no session with the host.
func askPeer[A any, R held[A]](ctx context.Context, peer Peer, within time.Duration, ask func(context.Context, sessionpb.PeersClient) (R, error)) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var none A
	if peer.Conn == nil {
		return none, status.Errorf(codes.Unavailable, "member %s cannot be reached", peer.ID)
	}
	resp, err := ask(ctx, sessionpb.NewPeersClient(peer.Conn))
	switch {
	case err != nil:
		return none, fmt.Errorf("member %s: %w", peer.ID, err)
	case !resp.GetHeld():
		return none, errNoSessionHere
	}
	return resp.GetAnswer(), nil
}

// endQuery has a query's answer stored and ends it. One to a query that has ended is too late, and is dropped.
func (ls *liveSession) endQuery(question uint64, store func(*pendingQuery)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q := ls.queries[question]; q != nil {
		delete(ls.queries, question)
		store(q)
		q.done <- nil
	}
}
