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

// rebootQuestionTimeout bounds one controller's answer; then the next is asked.
const rebootQuestionTimeout = 5 * time.Second

// RebootQuestion is how a host asks whether it may stop now.
type RebootQuestion struct {
	// Claim has it recorded as in maintenance where it may stop, and Release ends that; at most one of them.
	Claim, Release bool
	// AllowUnused: volumes that are published to no host may be unavailable meanwhile.
	AllowUnused bool
}

var errNoController = errors.New("no controller is known")

// RebootSafe asks the controllers, one after the other, whether this host may stop now. The answer is of a linearizable
// read. The error says why nobody could tell: without a quorum, or where all controllers are of an older build that does
// not know the question.
func (c *Client) RebootSafe(ctx context.Context, q RebootQuestion) (fsm.StopAnswer, error) {
	err, first := errNoController, c.endpoint()
	for i := range c.conns {
		at := (first + i) % len(c.conns)
		var resp *sessionpb.RebootSafeResponse
		resp, err = c.askRebootSafe(ctx, at, q)
		if err == nil {
			return fsm.StopAnswer{Index: resp.GetIndex(), Safe: resp.GetSafe(), Reasons: resp.GetReasons(), InMaintenance: resp.GetInMaintenance(), Claimed: resp.GetClaimed()}, nil
		}
		older := status.Code(err) == codes.Unimplemented
		if goOn := older || retryable(err); !goOn || ctx.Err() != nil {
			return fsm.StopAnswer{}, fmt.Errorf("ask controller %s: %s", c.Endpoints[at], status.Convert(err).Message())
		}
		err = fmt.Errorf("ask controller %s: %s", c.Endpoints[at], status.Convert(err).Message())
		if older {
			err = fmt.Errorf("ask controller %s: it is of an older build and does not know the question: upgrade it", c.Endpoints[at])
		}
	}
	return fsm.StopAnswer{}, err
}

func (c *Client) askRebootSafe(ctx context.Context, at int, q RebootQuestion) (*sessionpb.RebootSafeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, rebootQuestionTimeout)
	defer cancel()
	return sessionpb.NewSessionClient(c.conns[at]).RebootSafe(ctx, &sessionpb.RebootSafeRequest{Claim: q.Claim, Release: q.Release, AllowUnused: q.AllowUnused})
}
