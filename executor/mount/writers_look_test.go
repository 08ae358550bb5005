package mount

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// S9: a look at processes that the kernel never answers is an error and no wait for ever, and does not fill the host with threads.
func TestS9_ALookThatHangsIsGivenUp(t *testing.T) {
	var hanging atomic.Int32
	never, ended := make(chan struct{}), make(chan struct{}, maxHangingLooks)
	look := func() (int, error) {
		<-never
		ended <- struct{}{}
		return 1, nil
	}
	for range maxHangingLooks {
		_, err := answerWithin(t.Context(), &hanging, time.Millisecond, look)
		require.ErrorIs(t, err, errLookHangs)
	}
	_, err := answerWithin(t.Context(), &hanging, time.Hour, look)
	require.ErrorIs(t, err, errLookHangs, "no more of them are begun")
	close(never)
	for range maxHangingLooks {
		<-ended
	}
	require.Eventually(t, func() bool { return hanging.Load() == 0 }, time.Minute, time.Millisecond)
	found, err := answerWithin(t.Context(), &hanging, time.Hour, func() (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, found)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = answerWithin(ctx, &hanging, time.Hour, func() (int, error) { <-t.Context().Done(); return 0, nil })
	require.ErrorIs(t, err, context.Canceled)
}
