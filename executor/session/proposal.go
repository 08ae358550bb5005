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

// unavailable is the error of a proposal that no controller could have applied
// in time; whether it was applied is not known.
type unavailable struct{ err error }

func (u *unavailable) Error() string {
	return "no controller could have the command applied: " + u.err.Error()
}
func (u *unavailable) Unwrap() error { return u.err }

// Unavailable tells callers that trying later may help.
func (u *unavailable) Unavailable() bool { return true }

// Propose has one of this host's commands applied, through whichever controller
// can. A rejection is an error of type *fsm.Rejection beside the outcome; there is no
// outcome where the cluster's feature level does not know the command. Without
// a quorum it gives up after GiveUp with an error that has Unavailable() bool.
//
// A caller that sets the command's request id asks one question: it may propose the
// same again after such an error, and gets the first answer that there was (S4, S7).
func (c *Client) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if err := c.beyond(cmd); err != nil {
		return nil, err
	}
	cmd = c.prepare(cmd)
	ctx, cancel := context.WithTimeout(ctx, c.GiveUp)
	defer cancel()
	outcome, err := c.race(ctx, cmd)
	if err != nil {
		return nil, err
	}
	c.answered(cmd)
	return outcome, fsm.Err(outcome)
}

// prepare gives the command what a repetition must carry too: its request id and
// where it was first proposed (S4). Without a session the first controller says where.
func (c *Client) prepare(cmd *fsmpb.Command) *fsmpb.Command {
	cmd = proto.CloneOf(cmd)
	if cmd.GetSchemaVersion() == 0 {
		cmd.SchemaVersion = fsm.LeastLevel(cmd)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(cmd.GetRequestId()) == 0:
		cmd.RequestId = make([]byte, requestIDLen)
		_, _ = rand.Read(cmd.RequestId) // never fails
		cmd.ProposedIndex = cmp.Or(cmd.GetProposedIndex(), c.index)
	case cmd.GetProposedIndex() == 0:
		cmd.ProposedIndex = c.firstProposed(string(cmd.GetRequestId()))
	}
	return cmd
}

// maxQuestions bounds the questions without an answer that are remembered; beyond it
// a repetition says a later index, and is still answered once within the window.
const maxQuestions = 4096

// firstProposed is where the question was proposed first: a repetition must not look
// younger than it is, or it would be applied again once its answer is forgotten (S4).
func (c *Client) firstProposed(question string) uint64 {
	first, known := c.questions[question]
	if known || c.index == 0 || len(c.questions) >= maxQuestions {
		return cmp.Or(first, c.index)
	}
	c.questions[question] = c.index
	return c.index
}

// answered forgets the question: nobody asks again what was answered.
func (c *Client) answered(cmd *fsmpb.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.questions, string(cmd.GetRequestId()))
}

// attempt is what one controller answered.
type attempt struct {
	endpoint int
	outcome  *fsmpb.Outcome
	err      error
}

// race proposes at the session's controller, then at the others: at once when one
// says that it cannot, after a while when one says nothing.
func (c *Client) race(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	answers := make(chan attempt)
	r := round{next: c.endpoint(), busy: make([]bool, len(c.conns))}
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := errors.New("no controller answered")
	for {
		select {
		case <-timer.C:
			if endpoint, ok := r.start(); ok {
				go c.try(ctx, endpoint, cmd, answers)
			}
			timer.Reset(c.pace.hedge)
		case a := <-answers:
			if !again(a.err) {
				return a.outcome, a.err
			}
			last = a.err
			timer.Reset(r.failed(a.endpoint))
		case <-ctx.Done():
			return nil, &unavailable{fmt.Errorf("%w (%w)", last, ctx.Err())}
		}
	}
}

// round keeps which controller is to be asked next.
type round struct {
	next, started int
	busy          []bool
}

// start picks the next controller that is not busy with the command already.
func (r *round) start() (endpoint int, ok bool) {
	for range r.busy {
		endpoint = r.next
		r.next = (r.next + 1) % len(r.busy)
		if !r.busy[endpoint] {
			r.busy[endpoint] = true
			r.started++
			return endpoint, true
		}
	}
	return 0, false
}

// failed is how long to wait with the next: not at all for one that was not asked yet.
func (r *round) failed(endpoint int) time.Duration {
	r.busy[endpoint] = false
	if r.started < len(r.busy) {
		return 0
	}
	return shortBackoff
}

func (c *Client) try(ctx context.Context, endpoint int, cmd *fsmpb.Command, answers chan<- attempt) {
	response, err := sessionpb.NewSessionClient(c.conns[endpoint]).Propose(ctx, &sessionpb.ProposeRequest{Command: cmd})
	if err != nil {
		err = fmt.Errorf("propose at controller %s: %w", c.Endpoints[endpoint], err)
	}
	select {
	case answers <- attempt{endpoint, response.GetOutcome(), err}:
	case <-ctx.Done():
	}
}

// again tells whether another controller, or the same a little later, may do better.
func again(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted:
		return true
	default:
		return false
	}
}
