package nemesis

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFaultsAreDoneAndCountedUntilStop(t *testing.T) {
	var calls atomic.Int64
	n := Start(context.Background(),
		Fault{Name: "kill", Every: time.Millisecond, Inject: func(context.Context) error { calls.Add(1); return nil }},
		Fault{Name: "break", Every: time.Millisecond, Inject: func(context.Context) error { return errors.New("no") }})
	require.Eventually(t, func() bool { return calls.Load() > 3 }, 10*time.Second, time.Millisecond)
	done, err := n.Stop()
	require.Equal(t, int(calls.Load()), done["kill"])
	require.Zero(t, done["break"])
	require.ErrorContains(t, err, "break: no")
}
