package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// unavailableError is the error of a proposal that no controller could have applied
// in time; whether it was applied is not known.
type unavailableError struct{ err error }

func (u *unavailableError) Error() string {
	return "no controller could have the command applied: " + u.err.Error()
}
func (u *unavailableError) Unwrap() error { return u.err }

// Unavailable tells callers that a retry may succeed.
func (u *unavailableError) Unavailable() bool { return true }

// Propose applies one of this host's commands, through whichever controller can. A rejection is an
// error of type *fsm.Rejection beside the outcome; there is no outcome when the command is above the
// cluster's feature level. Without a quorum it fails after ProposeTimeout with an error that has
// Unavailable() bool.
//
// A caller that sets the command's request id may retry the same command after such
// an error: it is applied once, and the retry gets the outcome of that (S4, S7).
func (c *Client) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if err := c.checkLevel(cmd); err != nil {
		return nil, err
	}
	cmd = c.prepare(cmd)
	ctx, cancel := context.WithTimeout(ctx, c.ProposeTimeout)
	defer cancel()
	outcome, err := c.proposeHedged(ctx, cmd)
	if err != nil {
		return nil, err
	}
	c.forgetProposal(cmd)
	return outcome, fsm.Err(outcome)
}

// prepare sets what a retry must carry too: the request id and the
// index at which it was first proposed (S4). Without a session the controller sets the index.
func (c *Client) prepare(cmd *fsmpb.Command) *fsmpb.Command {
	cmd = proto.CloneOf(cmd)
	if cmd.GetSchemaVersion() == 0 {
		cmd.SchemaVersion = fsm.LeastLevel(cmd)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(cmd.GetRequestId()) == 0:
		cmd.RequestId = make([]byte, fsm.RequestIDLen)
		_, _ = rand.Read(cmd.RequestId) // never fails
		cmd.ProposedIndex = cmp.Or(cmd.GetProposedIndex(), c.controllerIndex)
	case cmd.GetProposedIndex() == 0:
		cmd.ProposedIndex = c.firstProposedIndex(string(cmd.GetRequestId()))
	}
	return cmd
}

// maxOpenProposals bounds the open proposals that are remembered. Beyond it
// a retry carries a later index, and is still applied once within the window of remembered outcomes.
const maxOpenProposals = 4096

// firstProposedIndex is the index at which the command was proposed first: a retry must not look
// younger than it is, or it would be applied again once its outcome is forgotten (S4).
func (c *Client) firstProposedIndex(requestID string) uint64 {
	first, known := c.openProposals[requestID]
	if known || c.controllerIndex == 0 || len(c.openProposals) >= maxOpenProposals {
		return cmp.Or(first, c.controllerIndex)
	}
	c.openProposals[requestID] = c.controllerIndex
	return c.controllerIndex
}

// forgetProposal forgets an open proposal: its outcome was received, so that nobody retries it.
func (c *Client) forgetProposal(cmd *fsmpb.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.openProposals, string(cmd.GetRequestId()))
}

// proposeReply is what one controller answered.
type proposeReply struct {
	endpoint int
	outcome  *fsmpb.Outcome
	err      error
}

// proposeHedged proposes at the session's controller, then at the others: at once when one
// fails, after a delay when one does not answer.
func (c *Client) proposeHedged(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	replies := make(chan proposeReply)
	rotation := endpointRotation{next: c.endpoint(), inFlight: make([]bool, len(c.conns))}
	timer := time.NewTimer(0)
	defer timer.Stop()
	lastErr := errors.New("no controller answered")
	for {
		if ctx.Err() != nil { // nothing new begins, whatever else is ready
			return nil, &unavailableError{fmt.Errorf("%w (%w)", lastErr, ctx.Err())}
		}
		select {
		case <-timer.C:
			if endpoint, ok := rotation.pick(); ok {
				go c.proposeAt(ctx, endpoint, cmd, replies)
			}
			timer.Reset(c.timing.hedgeDelay)
		case reply := <-replies:
			if !retryable(reply.err) {
				return reply.outcome, reply.err
			}
			lastErr = reply.err
			timer.Reset(rotation.retryDelay(reply.endpoint))
		case <-ctx.Done():
			return nil, &unavailableError{fmt.Errorf("%w (%w)", lastErr, ctx.Err())}
		}
	}
}

// endpointRotation picks the controller to try next.
type endpointRotation struct {
	next, attempts int
	inFlight       []bool
}

// pick picks the next controller at which the command is not in flight.
func (r *endpointRotation) pick() (endpoint int, ok bool) {
	for range r.inFlight {
		endpoint = r.next
		r.next = (r.next + 1) % len(r.inFlight)
		if !r.inFlight[endpoint] {
			r.inFlight[endpoint] = true
			r.attempts++
			return endpoint, true
		}
	}
	return 0, false
}

// retryDelay notes a failure, and returns the delay before the next attempt: none while there are
// controllers that were not tried.
func (r *endpointRotation) retryDelay(endpoint int) time.Duration {
	r.inFlight[endpoint] = false
	if r.attempts < len(r.inFlight) {
		return 0
	}
	return minBackoff
}

func (c *Client) proposeAt(ctx context.Context, endpoint int, cmd *fsmpb.Command, replies chan<- proposeReply) {
	response, err := sessionpb.NewSessionClient(c.conns[endpoint]).Propose(ctx, &sessionpb.ProposeRequest{Command: cmd})
	if err != nil {
		err = fmt.Errorf("propose at controller %s: %w", c.Endpoints[endpoint], err)
	}
	select {
	case replies <- proposeReply{endpoint, response.GetOutcome(), err}:
	case <-ctx.Done():
	}
}

// retryable tells whether another controller, or the same one later, may succeed.
func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted:
		return true
	default:
		return false
	}
}
