package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// call is who asks for a change, why, and by which plan: what its commands have in the log.
type call struct {
	actor string
	why   fsmpb.OperatorCall
	level uint32 // the cluster's, when the call began
}

// newCall begins a call that changes something. reason is the caller's, empty where none was given.
func (s *Server) newCall(ctx context.Context, reason string) (*call, error) {
	actor, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if rej := fsm.CheckOperatorText("reason", reason); rej != nil {
		return nil, status.Error(codes.InvalidArgument, rej.Message)
	}
	c := &call{actor: actor}
	c.why.Reason = reason
	if err := s.Cluster.View(func(st *fsm.State) error { c.level = st.Cluster().FeatureLevel; return nil }); err != nil {
		return nil, s.Error(err)
	}
	return c, nil
}

// requireKept refuses a reason that the cluster's level has no place for.
func (c *call) requireKept() (*call, error) {
	if c.why.GetReason() != "" && c.level < fsm.Level3 {
		return nil, status.Errorf(codes.FailedPrecondition,
			"the log keeps the reason of this call from feature level %d on, and the cluster runs at %d: leave the reason out, or raise the level with `holdfast upgrade finish`", fsm.Level3, c.level)
	}
	return c, nil
}

// newKeptCall is newCall for one whose commands have no place of their own for a reason.
func (s *Server) newKeptCall(ctx context.Context, reason string) (*call, error) {
	c, err := s.newCall(ctx, reason)
	if err != nil {
		return nil, err
	}
	return c.requireKept()
}

// follows says by which plan the call is carried out. A long one is in the log by its summary and its digest.
func (c *call) follows(summary string, steps []*adminpb.PlanStep) {
	c.why.Plan, c.why.PlanDigest = planLine(summary), planDigest(summary, steps)
}

func planDigest(summary string, steps []*adminpb.PlanStep) []byte {
	digest := sha256.New()
	fmt.Fprintf(digest, "%s\n", summary)
	for _, t := range steps {
		fmt.Fprintf(digest, "%q %q %q %q %q\n", t.GetState(), t.GetAction(), t.GetNode(), t.GetVolume(), t.GetDetail())
	}
	return digest.Sum(nil)
}

// planMark writes the beginning of the digest of a plan that can be carried out: the history has it when it was.
func planMark(w io.Writer, summary string, steps []*adminpb.PlanStep) {
	if slices.ContainsFunc(steps, func(t *adminpb.PlanStep) bool { return t.GetState() == stepTodo }) {
		fmt.Fprintf(w, "plan %.6x\n", planDigest(summary, steps))
	}
}

// planLine is a summary as the log takes it.
func planLine(summary string) string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(summary, "?")), " ")
	for len(line) > fsm.MaxReasonBytes {
		line = strings.ToValidUTF8(line[:fsm.MaxReasonBytes], "")
	}
	return line
}

// stamp puts it into a command.
func (c *call) stamp(cmd *fsmpb.Command) *fsmpb.Command {
	cmd.Actor = c.actor
	if c.level >= fsm.Level3 && (c.why.GetReason() != "" || c.why.GetPlan() != "") {
		cmd.Call = &fsmpb.OperatorCall{Reason: c.why.GetReason(), Plan: c.why.GetPlan(), PlanDigest: c.why.GetPlanDigest()}
	}
	return cmd
}

// record puts a call into the log whose effect is not in it, before it is carried out. Below level 3 the log has no place for it.
func (s *Server) record(ctx context.Context, c *call, what, subject string) error {
	return s.Error(s.proposeRecord(ctx, c, what, subject))
}

func (s *Server) proposeRecord(ctx context.Context, c *call, what, subject string) error {
	if c.level < fsm.Level3 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	_, err := s.Cluster.Propose(ctx, c.stamp(&fsmpb.Command{Body: &fsmpb.Command_RecordOperatorCall{
		RecordOperatorCall: &fsmpb.RecordOperatorCall{Call: what, Subject: subject}}}))
	return err
}

// recordOrGoOn is record of a call that is carried out also where the log takes nothing, as its disk is full or
// the members do not agree on the state: the controller's own log has it then. A rejection, and a caller who is gone, end it.
func (s *Server) recordOrGoOn(ctx context.Context, c *call, what, subject string) error {
	err := s.proposeRecord(ctx, c, what, subject)
	var refused *fsm.Rejection
	if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
		return s.Error(err)
	}
	s.Logger.WarnContext(ctx, "a call is carried out and the log could not record it",
		"actor", c.actor, "call", what, "subject", subject, "reason", c.why.GetReason(), "error", err)
	return nil
}

// callCell is why something was done, and by which plan.
func callCell(c *fsmpb.OperatorCall) string {
	var parts []string
	if c.GetReason() != "" {
		parts = append(parts, fmt.Sprintf("why: %q", c.GetReason()))
	}
	if c.GetPlan() != "" {
		parts = append(parts, fmt.Sprintf("plan %.6x: %s", c.GetPlanDigest(), c.GetPlan()))
	}
	if len(parts) == 0 {
		return ""
	}
	return " [" + strings.Join(parts, "; ") + "]"
}
