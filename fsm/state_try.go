package fsm

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ErrFault says that Apply faulted on a command that was tried. It is a bug: committed,
// the command would end every member.
var ErrFault = errors.New("the state cannot take this command: a bug")

// Try applies a command to a fork that is only a plan, and answers what the log would.
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
