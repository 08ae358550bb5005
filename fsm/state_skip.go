package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Skipped is an entry that the members skipped by their operators' decision, as
// Apply faulted on it. It is part of the state and of its hash permanently: a member that
// applied the entry holds another state than one that skipped it, and the next
// checkpoint detects that (S70, S23).
type Skipped struct {
	Index uint64
	Hash  []byte // sha256 of the entry's content
}

// Skip records an entry without deciding it. A proposer that retries it under the same
// request id gets a rejection that says so. cmd is nil where the content is not a command.
func (s *State) Skip(index uint64, hash []byte, cmd *fsmpb.Command) Result {
	m := s.begin(index, cmd)
	s.cluster.Skipped = append(slices.Clip(s.cluster.Skipped), Skipped{Index: index, Hash: slices.Clone(hash)})
	s.writes++
	outcome := rejected(m, Reject(Unsupported, "operators had every member pass over log index %d, as the state could not take it", index))
	if len(cmd.GetRequestId()) == RequestIDLen && len(cmd.GetActor()) <= maxIDBytes {
		key := answerKey{request: [RequestIDLen]byte(cmd.GetRequestId()), actor: cmd.GetActor()}
		if _, known := s.lookups.answers[key]; !known {
			s.putAnswer(&answer{key: key, index: index, outcome: outcome, textUnhashed: s.level2()})
		}
	}
	s.extendChain(false, index, func(e *encoder) { e.bytes(hash) }, outcome)
	return Result{Outcome: outcome}
}
