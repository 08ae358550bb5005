package daemon

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
)

const (
	// dedupInterval is how long the same line stays out of the log at its own level.
	dedupInterval = time.Minute
	// maxRecentLines bounds how many different lines are remembered.
	maxRecentLines = 4096
)

// dedupSeed makes equal lines of this process equal.
var dedupSeed = maphash.MakeSeed()

// dedupHandler logs a warning once a minute: repetitions of the same message about the same
// subject within it become debug lines, and are counted in the next warning. Attributes
// that count attempts or time do not make two lines different.
type dedupHandler struct {
	slog.Handler
	attrsHash uint64 // of the attributes that With added
	recent    *recentLines
}

type recentLines struct {
	mu    sync.Mutex
	lines map[uint64]*recentLine
}

type recentLine struct {
	last       time.Time
	suppressed int
}

func newDedupHandler(h slog.Handler) slog.Handler {
	return &dedupHandler{Handler: h, recent: &recentLines{lines: map[uint64]*recentLine{}}}
}

func (r *dedupHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level < slog.LevelWarn {
		return r.Handler.Handle(ctx, record)
	}
	hidden, suppressed := r.recent.record(r.key(&record), record.Time)
	switch {
	case suppressed:
		record.Level = slog.LevelDebug
		if !r.Enabled(ctx, record.Level) {
			return nil
		}
	case hidden > 0:
		record.AddAttrs(slog.Int("repeated", hidden))
	}
	return r.Handler.Handle(ctx, record)
}

// record tells whether the line was logged within the interval, and else how often it was suppressed
// since.
func (s *recentLines) record(key uint64, now time.Time) (hidden int, suppress bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[key]
	if line == nil {
		if len(s.lines) >= maxRecentLines {
			clear(s.lines)
		}
		s.lines[key] = &recentLine{last: now}
		return 0, false
	}
	if now.Sub(line.last) < dedupInterval {
		line.suppressed++
		return 0, true
	}
	hidden = line.suppressed
	line.last, line.suppressed = now, 0
	return hidden, false
}

// key is of the message and what it is about.
func (r *dedupHandler) key(record *slog.Record) uint64 {
	key := r.attrsHash ^ maphash.String(dedupSeed, record.Message)
	record.Attrs(func(a slog.Attr) bool {
		key = mixAttr(key, a)
		return true
	})
	return key
}

// mixAttr adds an attribute: a number or a time tells how often or how long, not what.
func mixAttr(key uint64, a slog.Attr) uint64 {
	switch a.Value.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindDuration, slog.KindTime:
		return key
	}
	return key*31 + maphash.String(dedupSeed, a.Key+"="+a.Value.String())
}

func (r *dedupHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	hash := r.attrsHash
	for _, a := range attrs {
		hash = mixAttr(hash, a)
	}
	return &dedupHandler{Handler: r.Handler.WithAttrs(attrs), attrsHash: hash, recent: r.recent}
}

func (r *dedupHandler) WithGroup(name string) slog.Handler {
	return &dedupHandler{Handler: r.Handler.WithGroup(name), attrsHash: r.attrsHash*31 + maphash.String(dedupSeed, name), recent: r.recent}
}
