package run

import "fmt"

// Error is how a command failed.
type Error struct {
	Tool     string
	Code     int    // exit code; -1 when a signal killed it or it has not exited
	Output   string // the end of stderr, on one line
	TimedOut bool

	exited <-chan struct{}
	cause  error
}

func (e *Error) Error() string {
	switch {
	case e.exited != nil:
		return fmt.Sprintf("%s does not end although it was killed: it waits for a device", e.Tool)
	case e.TimedOut:
		return fmt.Sprintf("%s was killed at its deadline", e.Tool)
	case e.cause != nil:
		return fmt.Sprintf("%s was killed: %v", e.Tool, e.cause)
	case e.Output == "":
		return fmt.Sprintf("%s ended with code %d", e.Tool, e.Code)
	}
	return fmt.Sprintf("%s ended with code %d: %s", e.Tool, e.Code, e.Output)
}

// Unwrap returns the context's error when the command was killed because of it.
func (e *Error) Unwrap() error { return e.cause }

// Stuck returns a channel that is closed when the child has exited; nil when it has exited
// already. The child's device must not be changed before.
func (e *Error) Stuck() <-chan struct{} { return e.exited }

// MissingError is returned for a tool that is not installed.
type MissingError struct{ Tool, Package string }

func (e *MissingError) Error() string {
	if e.Package == "" {
		return fmt.Sprintf("%s is not in %v: install it", e.Tool, systemDirs)
	}
	return fmt.Sprintf("%s is not in %v: install the package %s", e.Tool, systemDirs, e.Package)
}
