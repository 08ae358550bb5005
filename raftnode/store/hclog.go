package store

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// hclogTo gives the storage libraries a logger that writes to slog.
func hclogTo(l *slog.Logger, minLevel slog.Level) hclog.Logger {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Info})
	logger.RegisterSink(slogSink{l, minLevel})
	return logger
}

type slogSink struct {
	log      *slog.Logger
	minLevel slog.Level
}

// Accept logs one line.
func (s slogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	l := slog.LevelInfo
	switch {
	case level >= hclog.Error:
		l = slog.LevelError
	case level == hclog.Warn:
		l = slog.LevelWarn
	case level < hclog.Info:
		l = slog.LevelDebug
	}
	if l >= s.minLevel {
		s.log.Log(context.Background(), l, msg, args...)
	}
}
