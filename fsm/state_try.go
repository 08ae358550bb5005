package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ErrFault: Apply faulted on a command that was tried. It is a bug: committed,
// the command would stop every member.
var ErrFault = errors.New("the state cannot take this command: a bug")

// Try applies a command to a fork that is only for dry runs, and answers what the log would.
// A fault is an error here, and the fork is then to be dropped (S70). The command is
// taken for a new one: Try looks for no earlier answer to its request id, so it costs
// what the command costs, however large the state is.
func (s *State) Try(cmd *fsmpb.Command) (out *fsmpb.Outcome, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			out, err = nil, fmt.Errorf("%w: %v", ErrFault, cause)
		}
	}()
	if s.lookups == nil {
		s.lookups = newTrialLookups()
	}
	return s.Apply(s.cluster.Index+1, cmd).Outcome, nil
}

// DryRun answers what the log would answer to commands that are proposed now, one after the
// other: the fork keeps what each would change.
type DryRun struct {
	Fork  *State
	Actor string
	// AttachFacts gives a command what was measured, as the leader does; nil: nothing is.
	AttachFacts func(*fsmpb.Command)
}

// Apply applies a copy of the command to the fork. The error is ErrFault, after which the fork
// is to be dropped; a rejection is in the outcome.
func (d *DryRun) Apply(cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	cmd = proto.CloneOf(cmd)
	cmd.Actor, cmd.SchemaVersion, cmd.ProposedIndex = d.Actor, LeastLevel(cmd), d.Fork.cluster.Index
	cmd.RequestId = make([]byte, RequestIDLen)
	binary.BigEndian.PutUint64(cmd.RequestId, d.Fork.cluster.Index) // another for each command of this fork
	if d.AttachFacts != nil {
		d.AttachFacts(cmd)
	}
	return d.Fork.Try(cmd)
}
