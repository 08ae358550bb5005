package daemon

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
)

const (
	// repeatPause is how long the same line stays out of the log at its own level.
	repeatPause = time.Minute
	// repeatsKept bounds how many different lines are remembered.
	repeatsKept = 4096
)

// repeatSeed makes equal lines of this process equal.
var repeatSeed = maphash.MakeSeed()

// repeats passes a warning on once a minute: the same message about the same subject,
// said again meanwhile, is a line at debug level, and is counted in the next one. What
// counts attempts or time does not make a line another one.
type repeats struct {
	slog.Handler
	own  uint64 // of the attributes that With added
	seen *seenLines
}

type seenLines struct {
	mu    sync.Mutex
	lines map[uint64]*seenLine
}

type seenLine struct {
	last   time.Time
	hidden int
}

func newRepeats(h slog.Handler) slog.Handler {
	return &repeats{Handler: h, seen: &seenLines{lines: map[uint64]*seenLine{}}}
}

func (r *repeats) Handle(ctx context.Context, record slog.Record) error {
	if record.Level < slog.LevelWarn {
		return r.Handler.Handle(ctx, record)
	}
	hidden, again := r.seen.note(r.key(&record), record.Time)
	switch {
	case again:
		record.Level = slog.LevelDebug
		if !r.Enabled(ctx, record.Level) {
			return nil
		}
	case hidden > 0:
		record.AddAttrs(slog.Int("repeated", hidden))
	}
	return r.Handler.Handle(ctx, record)
}

// note tells whether the line was logged within the pause, and else how often it was
// left out since.
func (s *seenLines) note(key uint64, now time.Time) (hidden int, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[key]
	if line == nil {
		if len(s.lines) >= repeatsKept {
			clear(s.lines)
		}
		s.lines[key] = &seenLine{last: now}
		return 0, false
	}
	if now.Sub(line.last) < repeatPause {
		line.hidden++
		return 0, true
	}
	hidden = line.hidden
	line.last, line.hidden = now, 0
	return hidden, false
}

// key is of the message and what it is about.
func (r *repeats) key(record *slog.Record) uint64 {
	key := r.own ^ maphash.String(repeatSeed, record.Message)
	record.Attrs(func(a slog.Attr) bool {
		key = mixed(key, a)
		return true
	})
	return key
}

// mixed adds an attribute: a number or a time tells how often or how long, not what.
func mixed(key uint64, a slog.Attr) uint64 {
	switch a.Value.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindDuration, slog.KindTime:
		return key
	}
	return key*31 + maphash.String(repeatSeed, a.Key+"="+a.Value.String())
}

func (r *repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	own := r.own
	for _, a := range attrs {
		own = mixed(own, a)
	}
	return &repeats{Handler: r.Handler.WithAttrs(attrs), own: own, seen: r.seen}
}

func (r *repeats) WithGroup(name string) slog.Handler {
	return &repeats{Handler: r.Handler.WithGroup(name), own: r.own*31 + maphash.String(repeatSeed, name), seen: r.seen}
}
