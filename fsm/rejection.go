package fsm

import "fmt"

// Reason says why a command was rejected. Every reason has one gRPC code, in csi/rpcerr.
// The numbers are durable: they are in outcomes that the log remembers.
type Reason uint32

const (
	// NotFound: the subject is not in the state.
	NotFound Reason = iota + 1
	// Incompatible: it exists already with other arguments (ALREADY_EXISTS).
	Incompatible
	// Busy: an operation on the subject is under way (ABORTED): retry.
	Busy
	// InUse: published elsewhere or still staged (FAILED_PRECONDITION).
	InUse
	// Precondition: the state does not allow it now and a retry alone will not help (FAILED_PRECONDITION).
	Precondition
	// OutOfRange: no size satisfies the range (OUT_OF_RANGE).
	OutOfRange
	// NoCapacity: no pool has room, or a host's volume limit is reached (RESOURCE_EXHAUSTED).
	NoCapacity
	// Invalid: the arguments cannot be right in any state (INVALID_ARGUMENT).
	Invalid
	// Forbidden: the actor may not propose this (PERMISSION_DENIED), S20.
	Forbidden
	// StaleEpoch: the command names an older epoch, boot, host or sequence than the state (FAILED_PRECONDITION).
	StaleEpoch
	// Expired: the command was first proposed before the dedupe window, so it is not applied (S4).
	// The caller reads the state by name and answers from it, else with ABORTED.
	Expired
	// Unsupported: the feature level or this build does not serve it (UNIMPLEMENTED).
	Unsupported
	// Unreachable: no member has a session of the host concerned (UNAVAILABLE).
	Unreachable
	// Unauthenticated: a token or a passphrase is missing or wrong (UNAUTHENTICATED).
	Unauthenticated
	// NotReplicated: the source is not replicated here between sites (FAILED_PRECONDITION).
	NotReplicated
	// NeedsForce: only force, which gives writes up, can promote the source here (FAILED_PRECONDITION). An
	// orchestrator answers it with force at once, so nothing else is refused for this reason (S40).
	NeedsForce
	// Moved: the role of the source moved after the call was decided (ABORTED), S39.
	Moved
)

// Rejection is a decision, the same on every member; the state is unchanged.
type Rejection struct {
	Reason Reason
	// Message says what was refused to what, for people. It holds no secret.
	Message string
}

func (r *Rejection) Error() string { return r.Message }

// Why is the reason, and zero when there is no rejection.
func (r *Rejection) Why() Reason {
	if r == nil {
		return 0
	}
	return r.Reason
}

// Reject makes a rejection. Executors and handlers use it too, so that one table maps all codes.
func Reject(reason Reason, format string, args ...any) *Rejection {
	return &Rejection{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
