package admin

import (
	"strings"
	"time"
)

// mapSlice applies a function to each element of a slice.
func mapSlice[T, V any](in []T, view func(T) V) []V {
	out := make([]V, 0, len(in))
	for _, t := range in {
		out = append(out, view(t))
	}
	return out
}

// timeView formats a time as RFC 3339 in UTC, empty for the zero time.
func timeView(t time.Time) string {
	if t.IsZero() || t.UnixNano() == 0 {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// enumView returns an enum's name in lower case, without its prefix; the zero value is unknown.
func enumView(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }
