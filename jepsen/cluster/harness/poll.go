package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Patience is how long anything is waited for that must come: what took as long never came. It is the one bound of every wait for a
// condition, far beyond what the slowest machine needs, so that how fast a machine is decides nothing.
const Patience = 5 * time.Minute

// pollEvery is how often a condition is asked for.
const pollEvery = 50 * time.Millisecond

// permanentError ends a poll at once.
type permanentError struct{ err error }

func (f permanentError) Error() string { return f.err.Error() }
func (f permanentError) Unwrap() error { return f.err }

// Permanent marks an error of a condition that waiting does not repair: the poll ends with it.
func Permanent(err error) error { return permanentError{err} }

// Poll asks for the condition until it holds, it answers a final error, or the
// time is over. The error then names what was waited for and the last answer.
func Poll(ctx context.Context, within time.Duration, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		var end permanentError
		if errors.As(err, &end) {
			return fmt.Errorf("wait for %s: %w", what, end.err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait %s for %s: not so; last answer: %v", within, what, err)
		case <-time.After(pollEvery):
		}
	}
}
