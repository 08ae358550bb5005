package mount

import (
	"context"
	"fmt"
	"time"
)

// answerTimeout is how long a device may take to answer a read of this process, as long as a command may take.
const answerTimeout = time.Minute

// hangError is of a call of this process that the kernel does not answer. Whoever gets it leaves the device alone until the call has ended,
// as after a command that cannot be killed.
type hangError struct {
	cause error // of ctx, nil: it took too long
	ended chan struct{}
}

func (e *hangError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("the device has not answered yet: %v", e.cause)
	}
	return "the device does not answer"
}

func (e *hangError) Unwrap() error { return e.cause }

// Stuck is closed when the call has ended.
func (e *hangError) Stuck() <-chan struct{} { return e.ended }

// callDevice makes a call that a device may leave without an answer, which nothing can interrupt. An answer that comes after the error is
// discarded before the call counts as ended.
func callDevice[T any](ctx context.Context, within time.Duration, call func() (T, error), discard func(T)) (none T, err error) {
	var answer T
	var failed error
	ended, tooLong := make(chan struct{}), time.NewTimer(within)
	defer tooLong.Stop()
	go func() {
		defer close(ended)
		answer, failed = call()
	}()
	hangs := func(cause error) error {
		discarded := make(chan struct{})
		go func() {
			defer close(discarded)
			if <-ended; failed == nil {
				discard(answer)
			}
		}()
		return &hangError{cause, discarded}
	}
	select {
	case <-ended:
		return answer, failed
	case <-ctx.Done():
		return none, hangs(ctx.Err())
	case <-tooLong.C:
		return none, hangs(nil)
	}
}
