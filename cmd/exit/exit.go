// Package exit says how the holdfast command ends: with one of four codes and
// at most one line on standard error.
package exit

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The exit codes; scripts rely on them.
const (
	OK          = 0 // done
	Refused     = 1 // refused, or the answer is no: a check found something, a step is blocked
	Usage       = 2 // wrong command line, configuration, or a file that they name
	Unavailable = 3 // may succeed later: no quorum, no answer, busy
)

// Error is an error with an exit code. A silent one prints nothing: the command has printed everything
// on standard output.
type Error struct {
	Code   int
	Err    error
	Silent bool
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Wrap gives an error a code; nil stays nil.
func Wrap(code int, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// Usagef returns an error in how the command was called.
func Usagef(format string, args ...any) error { return Wrap(Usage, fmt.Errorf(format, args...)) }

// Refusedf returns a refusal.
func Refusedf(format string, args ...any) error { return Wrap(Refused, fmt.Errorf(format, args...)) }

// Unavailablef returns an error for what may succeed later.
func Unavailablef(format string, args ...any) error {
	return Wrap(Unavailable, fmt.Errorf(format, args...))
}

// Silent returns an error with a code and without a message.
func Silent(code int) error {
	return &Error{Code: code, Err: fmt.Errorf("exit code %d", code), Silent: true}
}

// Code returns the exit code of an error: its own, or the one that its gRPC code maps to.
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

// Line returns the line that reports the error, empty for nil and for silent errors. What is not printable in it, which may be
// another's words, becomes spaces: a terminal would obey it.
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
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, line)
}
