package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func TestOneHostCannotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newNodeRateLimits(proposalsPerSecond, proposalBurst)
		began := time.Now()
		for range proposalBurst + 3*proposalsPerSecond {
			require.NoError(t, l.wait(t.Context(), "n1"))
		}
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.01)

		now := time.Now()
		require.NoError(t, l.wait(t.Context(), "n2"), "another host does not wait for it")
		require.Equal(t, now, time.Now())

		soon, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		require.Equal(t, codes.Unavailable, status.Code(l.wait(soon, "n1")))
	})
}

// Each registration is an entry of the log too.
func TestOneHostCannotFillTheLogBySessions(t *testing.T) {
	l := newTestCluster(t, 1)
	m := l.members[0]
	m.server.registrationLimits = newNodeRateLimits(rate.Every(time.Hour), 1)
	m.server.proposalLimits = newNodeRateLimits(rate.Every(time.Hour), 0) // its proposals are used up
	n1, n2 := l.credentials(pki.Node, "n1"), l.credentials(pki.Node, "n2")
	l.openSession(m, n1, &sessionpb.Hello{Register: register("n1")}).nextWelcome()
	for range 2 {
		err := l.openSession(m, n1, &sessionpb.Hello{Register: register("n1")}).endError()
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	}
	l.openSession(m, n2, &sessionpb.Hello{Register: register("n2")}).nextWelcome()
}
