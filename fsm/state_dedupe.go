package fsm

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// RequestIDLen is the length of a command's request id, in bytes. Any other length is rejected.
const RequestIDLen = 16

// answerOnce decides a command once: a repeated one gets its first answer, one that
// is older than the window is not applied (S4, S102).
func (s *State) answerOnce(m Meta, r row, cmd *fsmpb.Command, body proto.Message) *fsmpb.Outcome {
	if rej := s.checkEnvelope(cmd, body); rej != nil {
		return rejected(m, rej)
	}
	key := answerKey{request: [RequestIDLen]byte(cmd.GetRequestId()), actor: s.intern.actor(cmd.GetActor())}
	if a, ok := s.lookups.answers[key]; ok && !plantedbug.Is(plantedbug.RetryNotIdempotent) {
		return a.outcome
	}
	if p := cmd.GetProposedIndex(); m.Index > DedupeWindow && p < m.Index-DedupeWindow {
		return rejected(m, Reject(Expired, "the command was first proposed at log index %d, more than %d entries ago", p, DedupeWindow))
	}
	outcome := s.decide(m, r, cmd, body)
	s.putAnswer(&answer{key: key, index: m.Index, outcome: outcome, textUnhashed: s.level2()})
	return outcome
}

// checkEnvelope refuses a command whose answer could not be remembered.
func (s *State) checkEnvelope(cmd *fsmpb.Command, body proto.Message) *Rejection {
	if n := len(cmd.GetRequestId()); n != RequestIDLen {
		return Reject(Invalid, "the request id has %d bytes, not %d", n, RequestIDLen)
	}
	if n := len(cmd.GetActor()); n > maxIDBytes {
		return Reject(Invalid, "the actor has %d bytes, more than %d", n, maxIDBytes)
	}
	if rej := checkOperatorCall(cmd.GetCall()); rej != nil {
		return rej
	}
	if _, first := body.(*fsmpb.Bootstrap); s.cluster.ID == "" && !first {
		return Reject(Precondition, "the cluster has no first entry yet: bootstrap it")
	}
	return nil
}

// atClusterLevel is the part of a command that the cluster's level understands. A leader of this
// build proposes nothing else; a command above the level that another leader appended is
// rejected. A leader of level 1 did not see the fields of later levels that others sent it, and
// its members ignored them: here they are cleared, so that the states are equal.
func (s *State) atClusterLevel(m Meta, cmd *fsmpb.Command, body proto.Message) (proto.Message, *Rejection) {
	if s.cluster.ID == "" {
		return body, nil // the first command sets the level
	}
	rej := TooNew(s.cluster.FeatureLevel, cmd)
	if rej == nil || m.Level > Level1 || sinceOf(cmd.ProtoReflect().WhichOneof(oneof)) > Level1 {
		return body, rej
	}
	body = proto.Clone(body)
	Trim(body, Level1)
	return body, nil
}

func (s *State) decide(m Meta, r row, cmd *fsmpb.Command, body proto.Message) *fsmpb.Outcome {
	if actor := cmd.GetActor(); !s.mayPropose(r, actor, body) {
		return rejected(m, Reject(Forbidden, "%q may not propose %s", actor, r.command.Name()))
	}
	body, rej := s.atClusterLevel(m, cmd, body)
	if rej == nil {
		rej = s.checkEndpoint(cmd)
	}
	if rej != nil {
		return rejected(m, rej)
	}
	before := s.writes
	outcome, rej := r.apply(s, m, body)
	if rej == nil {
		outcome.RoleMoved = s.settleRelations(m)
		outcome.Index = m.Index
		return outcome
	}
	if s.writes != before {
		panic(fmt.Sprintf("log index %d: %s was rejected after it changed the state: %v", m.Index, r.command, rej))
	}
	return rejected(m, rej)
}

func rejected(m Meta, rej *Rejection) *fsmpb.Outcome {
	return &fsmpb.Outcome{
		Index:     m.Index,
		Rejection: &fsmpb.Rejection{Reason: uint32(rej.Reason), Message: clip(rej.Message)},
	}
}

// forgetOldAnswers drops the answers that no command within the window can repeat: a command
// that was first proposed within it was applied within it.
func (s *State) forgetOldAnswers(index uint64) {
	for {
		oldest, a, ok := s.answers.Min()
		if !ok || oldest+DedupeWindow >= index {
			return
		}
		s.removeAnswer(a)
	}
}
