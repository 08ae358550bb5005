package drbd

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Exit codes of DRBD's tools that are treated specially.
const (
	exitInvalid  = 10 // the kernel refused the request; the output has its error code
	exitRefused  = 11 // the kernel refused the change of state
	exitNeedData = 17 // it needs access to data that are UpToDate
	exitTool     = 20 // usage, drbdmeta, or another command holds the device's lock
)

// kernelRejection is the rejection for one of the kernel's error codes. The numbers are DRBD's:
// negative ones of enum drbd_state_rv, the others of enum drbd_ret_code.
type kernelRejection struct {
	reason fsm.Reason
	text   string
}

// kernelRejections maps the kernel's error codes to rejections; users see the texts.
var kernelRejections = map[int]kernelRejection{
	-1:  {fsm.InUse, "its peer is primary"},
	-2:  {fsm.Precondition, "it has no access to data that are up to date"},
	-5:  {fsm.Precondition, "its peer has no disk"},
	-7:  {fsm.Precondition, "its peer is not known to be outdated"},
	-8:  {fsm.Busy, "a resynchronisation or a verification is under way"},
	-9:  {fsm.Precondition, "it has no connection"},
	-10: {fsm.Busy, "its peer refused the change"},
	-11: {fsm.Precondition, "it has no disk"},
	-12: {fsm.Busy, "its device is open"},
	-14: {fsm.Precondition, "it has no digest to verify with"},
	-15: {fsm.Precondition, "it is not connected"},
	-18: {fsm.Busy, "it is changing its state"},
	-19: {fsm.Busy, "it is changing its state"},
	-20: {fsm.InUse, "its peer is primary"},
	102: {fsm.Busy, "its address is in use by another connection"},
	103: {fsm.Busy, "its peer's address is in use by another connection"},
	123: {fsm.Precondition, "it is primary, so its data cannot be given up"},
	127: {fsm.Precondition, "its minor is not in the kernel"},
	130: {fsm.Busy, "a resynchronisation is under way"},
	131: {fsm.Precondition, "no replica of it is primary"},
	151: {fsm.Precondition, "it made its first generation already"},
	154: {fsm.Precondition, "protocol A does not go with freezing"},
	162: {fsm.Precondition, "it has no such connection"},
	164: {fsm.Precondition, "both replicas are primary"},
}

var (
	codePattern   = regexp.MustCompile(`\((-?\d{1,3})\)`)
	secretPattern = regexp.MustCompile(`(shared-secret[=\s"]+)[^\s"]+`)
	lockPattern   = regexp.MustCompile(`lock on \S+ currently held by`)
)

// Error is a failure of one of DRBD's tools that is not a rejection. It holds no secret.
type Error struct {
	Tool string
	Code int
	Text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s ended with code %d: %s", e.Tool, e.Code, e.Text)
}

// classifyError turns a tool's failure into a rejection where the kernel gave a known reason, into
// ErrReplicatorBusy where another command holds the resource, and otherwise into an *Error without
// the secret that drbdadm repeats in its messages.
func classifyError(action string, id fsm.VolumeID, err error) error {
	var failed *run.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &failed):
		return fmt.Errorf("%s %s: %w", action, id, err)
	case failed.Stuck() != nil:
		return fmt.Errorf("%s %s: %w", action, id, executor.ErrReplicatorBusy)
	case failed.TimedOut || failed.Unwrap() != nil:
		return fmt.Errorf("%s %s: %s was stopped: %w", action, id, failed.Tool, failed.Unwrap())
	case lockPattern.MatchString(failed.Output):
		return fmt.Errorf("%s %s: another command holds its lock: %w", action, id, executor.ErrReplicatorBusy)
	}
	if a, found := kernelRejections[kernelCode(failed)]; found {
		return fsm.Reject(a.reason, "%s %s: %s", action, id, a.text)
	}
	return fmt.Errorf("%s %s: %w", action, id, &Error{Tool: failed.Tool, Code: failed.Code, Text: sanitizeOutput(failed.Output)})
}

// kernelCode returns the kernel's error code from the output, 0 when there is none.
func kernelCode(failed *run.Error) int {
	if failed.Code == exitNeedData {
		return -2
	}
	if failed.Code != exitInvalid && failed.Code != exitRefused {
		return 0
	}
	m := codePattern.FindStringSubmatch(sanitizeOutput(failed.Output))
	if m == nil {
		return 0
	}
	code, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return code
}

// sanitizeOutput returns a tool's output without the command line that drbdadm repeats, which
// holds the secret. Of an output that was truncated in the middle of that line nothing is kept.
func sanitizeOutput(output string) string {
	text, _, found := strings.Cut(output, "Command '")
	if !found && strings.Contains(output, "' terminated with exit code") {
		return ""
	}
	return strings.TrimSpace(secretPattern.ReplaceAllString(text, "${1}..."))
}

// hasCode reports whether the kernel gave this error code.
func hasCode(err error, code int) bool {
	var failed *run.Error
	return errors.As(err, &failed) && kernelCode(failed) == code
}
