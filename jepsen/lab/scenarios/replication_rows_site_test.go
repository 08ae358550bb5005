package scenarios

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// holdTime is for one call that is held, so that it cannot be carried out: it is over before a host that stands still is
// recorded as unreachable.
const holdTime = 3 * time.Second

// rowSite is a site whose endpoint the rows call.
type rowSite struct {
	*site
	x    *rowLab
	conn *grpc.ClientConn
	peer string
}

func (x *rowLab) rowSite(t *testing.T, guest int, peer string) *rowSite {
	t.Helper()
	conn, err := x.cluster.ControllerCSI(guest)
	require.NoError(t, err)
	return &rowSite{site: x.site(t, guest), x: x, conn: conn, peer: peer}
}

// call calls a method once, with the parameters that this site's class would have.
func (s *rowSite) call(ctx context.Context, method string, r replicate.Request) (replicate.Answer, error) {
	r = r.With("site", s.name)
	if method == replicate.Enable && r.Parameters["peerSite"] == "" {
		r = r.With("peerSite", s.peer)
	}
	answer, err := replicate.Call(ctx, s.conn, method, r)
	if answer.Info != nil {
		s.x.said = append(s.x.said, answer.Info)
	}
	return answer, err
}

// ok repeats a call, as the controllers of CSI-Addons do, until it is OK.
func (s *rowSite) ok(t *testing.T, method string, r replicate.Request) replicate.Answer {
	t.Helper()
	return s.okOf(t.Context(), t, method, r)
}

func (s *rowSite) okOf(ctx context.Context, t *testing.T, method string, r replicate.Request) (answer replicate.Answer) {
	t.Helper()
	require.NoError(t, retryUntil(ctx, method+" at site "+s.name, func(ctx context.Context) (err error) {
		answer, err = s.call(ctx, method, r)
		return err
	}))
	return answer
}

// info is the answer of GetVolumeReplicationInfo once there is one.
func (s *rowSite) info(t *testing.T, r replicate.Request) *replication.GetVolumeReplicationInfoResponse {
	t.Helper()
	return s.ok(t, replicate.Info, r).Info
}

// isPrimary tells whether the site is primary, by the one call that only a primary answers.
func (s *rowSite) isPrimary(ctx context.Context, v *volume) bool {
	err := retryUntil(ctx, "ask who is primary", func(ctx context.Context) error {
		_, err := s.call(ctx, replicate.Info, replicate.Request{Volume: v.id})
		return err
	})
	return err == nil
}

// once is the error of a call that the cluster answered: it is repeated only where no controller did.
func (s *rowSite) once(t *testing.T, call func(ctx context.Context) error) (answer error) {
	t.Helper()
	eventually(t, timeout, "an answer", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		answer = call(ctx)
		if code := status.Code(answer); code == codes.Unavailable || code == codes.DeadlineExceeded {
			return answer
		}
		return nil
	})
	return answer
}

// refused requires that a call is answered with a code, twice.
func (s *rowSite) refused(t *testing.T, want codes.Code, method string, r replicate.Request) {
	t.Helper()
	for range 2 {
		err := s.once(t, func(ctx context.Context) error {
			_, err := s.call(ctx, method, r)
			return err
		})
		requireStatus(t, err, want, method+" at site "+s.name)
	}
}

// requireStatus requires the code of a refusal, with a message and without details.
func requireStatus(t *testing.T, err error, want codes.Code, what string) {
	t.Helper()
	require.Equal(t, want.String(), status.Code(err).String(), "%s: %v", what, err)
	require.NotEmpty(t, status.Convert(err).Message(), what)
	require.Empty(t, status.Convert(err).Details(), what)
}

// held is the error of a call that is held for holdTime. On a busy machine its answer may come too late once.
func (s *rowSite) held(ctx context.Context, method string, r replicate.Request) (err error) {
	for range 2 {
		attempt, cancel := context.WithTimeout(ctx, holdTime)
		_, err = s.call(attempt, method, r)
		cancel()
		if status.Code(err) != codes.DeadlineExceeded {
			break
		}
	}
	return err
}

// pollUntil asks until there is no error, within the time of the context. Its error has the last answer.
func pollUntil(ctx context.Context, what string, ask func(context.Context) error) error {
	last := errors.New("nothing was answered")
	for {
		attempt, end := context.WithTimeout(ctx, callTimeout)
		err := ask(attempt)
		end()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not in time: %w", what, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
