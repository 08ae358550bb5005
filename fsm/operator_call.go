package fsm

import (
	"unicode/utf8"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// MaxReasonBytes bounds why an operator does something, and the summary of a plan.
	MaxReasonBytes = 1024
	// maxPlanDigest bounds the digest of a plan.
	maxPlanDigest = 64
)

// CheckOperatorText validates what a person writes into the log: bounded UTF-8 on one line. what names it.
func CheckOperatorText(what, text string) *Rejection {
	if len(text) > MaxReasonBytes {
		return Reject(Invalid, "the %s has %d bytes, more than %d", what, len(text), MaxReasonBytes)
	}
	if !utf8.ValidString(text) {
		return Reject(Invalid, "the %s is not UTF-8", what)
	}
	for _, r := range text {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return Reject(Invalid, "the %s has the control character %U", what, r)
		}
	}
	return nil
}

func checkOperatorCall(c *fsmpb.OperatorCall) *Rejection {
	if c == nil {
		return nil
	}
	if rej := CheckOperatorText("reason", c.GetReason()); rej != nil {
		return rej
	}
	if n := len(c.GetPlanDigest()); n > maxPlanDigest {
		return Reject(Invalid, "the digest of the plan has %d bytes, more than %d", n, maxPlanDigest)
	}
	return CheckOperatorText("plan", c.GetPlan())
}

// applyRecordOperatorCall decides nothing: the entry is what is wanted.
func applyRecordOperatorCall(_ *State, _ Meta, c *fsmpb.RecordOperatorCall) (*fsmpb.Outcome, *Rejection) {
	if c.GetCall() == "" {
		return nil, Reject(Invalid, "record a call of an operator: it does not say which")
	}
	if rej := CheckOperatorText("call", c.GetCall()); rej != nil {
		return nil, rej
	}
	if rej := CheckOperatorText("subject", c.GetSubject()); rej != nil {
		return nil, rej
	}
	return &fsmpb.Outcome{}, nil
}
