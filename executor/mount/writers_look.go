package mount

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// writersTimeout is how long a look at all processes may take. It asks no device, but some files of /proc may wait for a server.
	writersTimeout = 30 * time.Second
	// maxHangingLooks bounds the looks that the kernel does not answer.
	maxHangingLooks = 16
)

var errLookHangs = errors.New("the kernel does not say what processes have open")

// answerWithin gives a look up that the kernel does not answer in time: it hangs by itself, and is counted until it ends.
func answerWithin[T any](ctx context.Context, hanging *atomic.Int32, timeout time.Duration, look func() (T, error)) (none T, err error) {
	if hanging.Load() >= maxHangingLooks {
		return none, errLookHangs
	}
	type answer struct {
		found T
		err   error
	}
	answered := make(chan answer, 1)
	hanging.Add(1)
	go func() {
		defer hanging.Add(-1)
		found, err := look()
		answered <- answer{found, err}
	}()
	select {
	case a := <-answered:
		return a.found, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-time.After(timeout):
		return none, fmt.Errorf("%w within %s", errLookHangs, timeout)
	}
}
