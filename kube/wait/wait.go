// Package wait repeats what may fail for a while, such as a request to an API server, and says what it waits for.
package wait

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Loop says how often something is tried, and where it is said why it failed.
type Loop struct {
	Log *slog.Logger
	// Most is the longest pause between two attempts; the first is a tenth of it.
	Most time.Duration
}

// sayEvery is how often the same reason is said again.
const sayEvery = 30 * time.Second

// stopped is an error that another attempt does not mend.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// Stop marks an error as one that ends the loop.
func Stop(err error) error { return stopped{err} }

// Until calls try until it succeeds, it returns an error of Stop, or ctx ends.
func (l Loop) Until(ctx context.Context, try func(context.Context) error) error {
	last, said := "", time.Time{}
	for pause := l.Most / 10; ; pause = min(2*pause, l.Most) {
		err := try(ctx)
		var end stopped
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.error
		}
		if text := err.Error(); text != last || time.Since(said) >= sayEvery {
			last, said = text, time.Now()
			l.Log.Warn("waiting, and trying again", "why", text)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting: %w", err)
		case <-time.After(pause):
		}
	}
}
