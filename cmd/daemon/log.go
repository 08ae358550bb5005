package daemon

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// LogFlags say what is logged and how.
type LogFlags struct{ Level, Format string }

// Add adds the flags to a command's.
func (l *LogFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&l.Level, "log-level", "info", "least `level` that is logged: debug, info, warn or error")
	flags.StringVar(&l.Format, "log-format", "text", "`format` of the log on standard error: text or json")
}

// Logger makes the logger that the flags describe. A repeated warning is logged once a minute.
func (l *LogFlags) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, fmt.Errorf("--log-level %q is none of debug, info, warn, error", l.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.Format {
	case "text":
		return slog.New(newDedupHandler(slog.NewTextHandler(w, options))), nil
	case "json":
		return slog.New(newDedupHandler(slog.NewJSONHandler(w, options))), nil
	}
	return nil, fmt.Errorf("--log-format %q is neither text nor json", l.Format)
}
