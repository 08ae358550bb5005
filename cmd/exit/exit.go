// Package exit says how the holdfast command ends: with one of four codes and
// at most one line on standard error.
package exit

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The exit codes that scripts rely on.
const (
	OK          = 0 // it is done
	Refused     = 1 // the answer is no
	Usage       = 2 // the command line, a configuration or a file that it names is wrong
	Unavailable = 3 // no quorum, nobody there, not now
)

// Error is an error with an exit code. A silent one has printed all there is on
// standard output.
type Error struct {
	Code   int
	Err    error
	Silent bool
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is the error inside.
func (e *Error) Unwrap() error { return e.Err }

// Wrap gives an error a code; nil stays nil.
func Wrap(code int, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// Usagef is an error in how the command was called.
func Usagef(format string, args ...any) error { return Wrap(Usage, fmt.Errorf(format, args...)) }

// Refusedf is a refusal.
func Refusedf(format string, args ...any) error { return Wrap(Refused, fmt.Errorf(format, args...)) }

// Unavailablef is for what may succeed later.
func Unavailablef(format string, args ...any) error {
	return Wrap(Unavailable, fmt.Errorf(format, args...))
}

// Silent ends with a code and no message.
func Silent(code int) error {
	return &Error{Code: code, Err: fmt.Errorf("exit code %d", code), Silent: true}
}

// Code is the exit code of an error: its own, or what its gRPC code stands for.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
		return Unavailable
	case codes.InvalidArgument:
		return Usage
	default:
		return Refused
	}
}

// Line is the one line that reports the error, empty for none and for silent ones.
func Line(err error) string {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e.Silent {
		return ""
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok && !errors.As(err, &e) {
		text = s.Message()
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
