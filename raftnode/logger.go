package raftnode

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger is raft's hclog.Logger on slog, at INFO and above (S147). Raft never
// logs an entry's data, except in "command" of a message that it does not know.
type raftLogger struct {
	log  *slog.Logger
	name string
	args []any
}

func newRaftLogger(l *slog.Logger) hclog.Logger { return &raftLogger{log: l.With("part", "raft")} }

func (l *raftLogger) emit(level slog.Level, msg string, args []any) {
	if level < slog.LevelInfo || !l.log.Enabled(context.Background(), level) {
		return
	}
	l.log.Log(context.Background(), level, msg, plainArgs(args)...)
}

// plainArgs turns hclog's lazy formats into text and drops what may hold an entry.
func plainArgs(args []any) []any {
	out := make([]any, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		key, value := fmt.Sprint(args[i]), args[i+1]
		if key == "command" {
			continue
		}
		if f, ok := value.(hclog.Format); ok && len(f) > 0 {
			value = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		out = append(out, key, value)
	}
	return out
}

// Log is hclog.Logger's; so are all methods below.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	switch level {
	case hclog.Error:
		l.Error(msg, args...)
	case hclog.Warn:
		l.Warn(msg, args...)
	case hclog.Info:
		l.Info(msg, args...)
	default:
	}
}

// Trace is dropped.
func (l *raftLogger) Trace(string, ...any) {}

// Debug is dropped.
func (l *raftLogger) Debug(string, ...any) {}

// Info logs at slog's level of that name.
func (l *raftLogger) Info(msg string, args ...any) { l.emit(slog.LevelInfo, msg, args) }

// Warn logs at slog's level of that name.
func (l *raftLogger) Warn(msg string, args ...any) { l.emit(slog.LevelWarn, msg, args) }

// Error logs at slog's level of that name.
func (l *raftLogger) Error(msg string, args ...any) { l.emit(slog.LevelError, msg, args) }

// IsTrace is false.
func (l *raftLogger) IsTrace() bool { return false }

// IsDebug is false.
func (l *raftLogger) IsDebug() bool { return false }

// IsInfo is true.
func (l *raftLogger) IsInfo() bool { return true }

// IsWarn is true.
func (l *raftLogger) IsWarn() bool { return true }

// IsError is true.
func (l *raftLogger) IsError() bool { return true }

// ImpliedArgs are those of With.
func (l *raftLogger) ImpliedArgs() []any { return l.args }

// With adds attributes.
func (l *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{log: l.log.With(plainArgs(args)...), name: l.name, args: append(l.args[:len(l.args):len(l.args)], args...)}
}

// Name is the name of a part of raft.
func (l *raftLogger) Name() string { return l.name }

// Named names a part of raft.
func (l *raftLogger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

// ResetNamed names a part of raft.
func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{log: l.log, name: name, args: l.args}
}

// SetLevel has no effect: the level is slog's.
func (l *raftLogger) SetLevel(hclog.Level) {}

// GetLevel is INFO.
func (l *raftLogger) GetLevel() hclog.Level { return hclog.Info }

// StandardLogger writes to nowhere: raft does not use it.
func (l *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(io.Discard, "", 0)
}

// StandardWriter writes to nowhere: raft does not use it.
func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
