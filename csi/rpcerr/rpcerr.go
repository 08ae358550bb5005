// Package rpcerr is the only place where a decision becomes a gRPC code.
package rpcerr

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// codeOf follows the error tables of the CSI spec, by the name of the code.
var codeOf = map[fsm.Reason]codes.Code{
	fsm.NotFound:     codes.NotFound,
	fsm.Incompatible: codes.AlreadyExists, // the same name or path with other arguments
	fsm.Busy:         codes.Aborted,       // an operation is pending: retry
	fsm.InUse:        codes.FailedPrecondition,
	fsm.Precondition: codes.FailedPrecondition,
	fsm.OutOfRange:   codes.OutOfRange,
	fsm.NoCapacity:   codes.ResourceExhausted, // pools and limits only (S28)
	fsm.Invalid:      codes.InvalidArgument,
	fsm.Forbidden:    codes.PermissionDenied,
	fsm.StaleEpoch:   codes.FailedPrecondition, // S3
	fsm.Expired:      codes.Aborted,            // S4: nothing was applied
	fsm.Unsupported:  codes.Unimplemented,
	fsm.Unreachable:  codes.Unavailable,

	fsm.Unauthenticated: codes.Unauthenticated,
	fsm.NotReplicated:   codes.FailedPrecondition,
	fsm.NeedsForce:      codes.FailedPrecondition,
	fsm.Moved:           codes.Aborted, // S39
}

// maxMessage bounds the text of a status in bytes.
const maxMessage = 1024

// unavailable is what errors of other packages implement when the caller should
// simply try again, as the executor's do while there is no quorum (S28).
type unavailable interface{ Unavailable() bool }

// From turns any error of this program into a gRPC status error with a canonical
// code, a message and no details. It leaves nil and what it made itself alone.
func From(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codeFor(err), printable(err.Error()))
}

func codeFor(err error) codes.Code {
	var rejection *fsm.Rejection
	var unavail unavailable
	var grpcError interface{ GRPCStatus() *status.Status }
	switch {
	case errors.As(err, &rejection):
		return codeOfReason(rejection.Reason)
	case errors.As(err, &unavail) && unavail.Unavailable(), raftnode.IsUnavailable(err):
		return codes.Unavailable // also for a caller with a short deadline (S28)
	case errors.As(err, &grpcError):
		return canonical(grpcError.GRPCStatus().Code())
	case errors.Is(err, context.DeadlineExceeded):
		return codes.Aborted // the operation continues; the retry joins it
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return codes.Internal // a bug or a broken host: alert on this code
}

func codeOfReason(reason fsm.Reason) codes.Code {
	if code, known := codeOf[reason]; known {
		return code
	}
	return codes.Internal
}

// canonical keeps a code of 1..16; a failed call is never OK.
func canonical(code codes.Code) codes.Code {
	if code == codes.OK || code > codes.Unauthenticated {
		return codes.Internal
	}
	return code
}

// Invalid is INVALID_ARGUMENT: the request cannot be right in any state.
func Invalid(format string, args ...any) error {
	return From(fsm.Reject(fsm.Invalid, format, args...))
}

// OrUnknown is From for calls of CSI-Addons whose error tables have UNKNOWN where From has INTERNAL.
func OrUnknown(err error) error {
	if err = From(err); status.Code(err) == codes.Internal {
		return status.Error(codes.Unknown, status.Convert(err).Message())
	}
	return err
}

// Promote is OrUnknown for PromoteVolume of CSI-Addons. Orchestrators answer its FAILED_PRECONDITION with force in the
// same second, which is consent to lose data, so nothing has that code but what force, or enabling replication, is the
// answer to; the rest is ABORTED (S40).
func Promote(err error) error {
	var rejection *fsm.Rejection
	isAnswered := errors.As(err, &rejection) && (rejection.Reason == fsm.NotReplicated || rejection.Reason == fsm.NeedsForce)
	if err = OrUnknown(err); status.Code(err) == codes.FailedPrecondition && !isAnswered {
		return status.Error(codes.Aborted, status.Convert(err).Message())
	}
	return err
}

// Unavailable is UNAVAILABLE: nothing is known to have happened, try again.
func Unavailable(format string, args ...any) error {
	return From(fsm.Reject(fsm.Unreachable, format, args...))
}

// printable makes one bounded, readable line of a message; it is never empty.
func printable(message string) string {
	if text, isStatus := statusText(message); isStatus {
		message = text
	}
	message = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(message, "?"))
	message = strings.TrimSpace(message)
	if message == "" {
		return "the call failed without saying why"
	}
	return fsm.Truncate(message, maxMessage)
}

// statusText takes the message out of the text of a gRPC status error.
func statusText(message string) (string, bool) {
	rest, found := strings.CutPrefix(message, "rpc error: code = ")
	if !found {
		return "", false
	}
	_, text, found := strings.Cut(rest, " desc = ")
	return text, found
}
