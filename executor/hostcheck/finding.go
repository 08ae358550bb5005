package hostcheck

import "fmt"

// Severity orders findings.
type Severity string

// The severities. Unknown is of what could not be found out: it is no error, and nothing that may be
// taken for good either.
const (
	OK      Severity = "ok"
	Warn    Severity = "warn"
	Error   Severity = "error"
	Unknown Severity = "unknown"
)

// Finding is one thing that was looked at.
type Finding struct {
	Severity Severity
	Found    string // one sentence
	Remedy   string // one sentence, a command where there is one; empty: there is nothing to do
	// Histogram has the durations that were found, if there are any.
	Histogram []Bucket
}

func (f Finding) with(histogram []Bucket) Finding {
	f.Histogram = histogram
	return f
}

func okf(format string, args ...any) Finding {
	return Finding{Severity: OK, Found: fmt.Sprintf(format, args...)}
}

// warn, fail and unknown are findings with a remedy, which is no format.
func warn(remedy, format string, args ...any) Finding {
	return Finding{Severity: Warn, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}

func fail(remedy, format string, args ...any) Finding {
	return Finding{Severity: Error, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}

func unknown(remedy, format string, args ...any) Finding {
	return Finding{Severity: Unknown, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}
