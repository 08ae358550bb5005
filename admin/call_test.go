package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// calls are the log's commands of a person, with why and by which plan.
func (w *env) calls(from int) (all []*fsmpb.Command) {
	for _, e := range w.log[from:] {
		if strings.HasPrefix(e.Command.GetActor(), "admin/") || isOperator(e.Command.GetActor()) {
			all = append(all, e.Command)
		}
	}
	return all
}

func TestTheLogHasWhoWhyAndWhichPlan(t *testing.T) {
	w := newEnv(t, "n1", "n2")
	w.create(1, true)
	req := &adminpb.PlanRequest{Verb: "drain", Node: "n1", HostId: "host-n1", Reason: "a new disk"}
	for range 2 {
		plan, err := w.server.Plan(ctx, req)
		require.NoError(t, err)
		before := len(w.log)
		_, err = w.server.CarryOut(ctx, req)
		require.NoError(t, err)
		calls := w.calls(before)
		require.NotEmpty(t, calls)
		for _, cmd := range calls {
			require.Equal(t, "admin/alice", cmd.GetActor())
			require.Equal(t, "a new disk", cmd.GetCall().GetReason())
			require.Equal(t, plan.GetSummary(), cmd.GetCall().GetPlan())
			require.Equal(t, planDigest(plan.GetSummary(), plan.GetSteps()), cmd.GetCall().GetPlanDigest())
		}
		var shown bytes.Buffer
		require.NoError(t, printTable(&shown, plan, listing.View{}))
		var line bytes.Buffer
		historyLine(&line, entryView(w.log[len(w.log)-1]))
		require.Contains(t, line.String(), "[why: \"a new disk\"; plan ")
		mark := shown.String()[strings.LastIndex(shown.String(), "\nplan ")+1:]
		require.Contains(t, line.String(), strings.TrimSpace(mark)+": drain n1")
		_, err = w.server.CarryOut(ctx, &adminpb.PlanRequest{Verb: "undrain", Node: "n1", HostId: "host-n1"})
		require.NoError(t, err)
	}
}

func TestAReasonIsOneLineOfText(t *testing.T) {
	for name, reason := range map[string]string{
		"too long": strings.Repeat("x", fsm.MaxReasonBytes+1), "a new line": "a\nb", "a terminal's escape": "a\x1b[2J", "a C1 control": "a\u0085b",
		"a line separator": "a\u2028b", "not UTF-8": "a\xff",
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, "n1")
			before := len(w.log)
			for range 2 {
				_, err := w.server.CarryOut(ctx, &adminpb.PlanRequest{Verb: "drain", Node: "n1", HostId: "host-n1", Reason: reason})
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				_, err = w.server.RetryOperation(ctx, &adminpb.OperationRequest{Id: 4, Reason: reason})
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				_, err = w.server.ClaimMaintenance(ctx, &adminpb.RebootSafeRequest{Node: "n1", Claim: true, Reason: reason})
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				_, err = w.server.FinishUpgrade(ctx, &adminpb.UpgradeRequest{Reason: reason})
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				err = w.server.recordBackup(ctx, &adminpb.BackupRequest{Stale: true, Reason: reason})
				require.Equal(t, codes.InvalidArgument, status.Code(err))
			}
			require.Len(t, w.log, before)
		})
	}
}

func TestBelowLevel3TheLogHasNoReason(t *testing.T) {
	w := newEnvAt(t, fsm.Level2, "n1")
	for range 2 {
		before := len(w.log)
		_, err := w.server.CarryOut(ctx, &adminpb.PlanRequest{Verb: "drain", Node: "n1", HostId: "host-n1", Reason: "a new disk"})
		require.NoError(t, err)
		for _, cmd := range w.calls(before) {
			require.Nil(t, cmd.GetCall())
		}
		_, err = w.server.RetryOperation(ctx, &adminpb.OperationRequest{Id: 4, Reason: "why"})
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.ErrorContains(t, err, "from feature level 3 on")
		require.NoError(t, w.server.recordBackup(ctx, &adminpb.BackupRequest{}))
		require.Equal(t, before, len(w.log)-len(w.calls(before)))
	}
}

func TestOperatorsChangeNothingBelowLevel3(t *testing.T) {
	w := newEnvAt(t, fsm.Level2, "n1")
	w.server.Actor = func(context.Context) (string, error) { return "operator/ann", nil }
	before := len(w.log)
	for range 2 {
		_, err := w.server.CarryOut(ctx, &adminpb.PlanRequest{Verb: "drain", Node: "n1", HostId: "host-n1"})
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.ErrorContains(t, err, "the role operator needs feature level 3, the cluster runs at 2")
	}
	require.Len(t, w.log, before)
}

// backups is the server's side of a backup.
type backups struct {
	collector[adminpb.BackupResponse]
}

func TestABackupIsInTheLogBeforeItIsTaken(t *testing.T) {
	w := newEnv(t, "n1")
	taken := 0
	w.server.TakeBackup = func(context.Context, BackupRequest, io.Writer) error {
		taken++
		return nil
	}
	for range 2 {
		before := len(w.log)
		require.NoError(t, w.server.Backup(&adminpb.BackupRequest{Reason: "before the upgrade", Increment: true, Since: 7}, &backups{}))
		calls := w.calls(before)
		require.Len(t, calls, 1)
		require.Equal(t, "before the upgrade", calls[0].GetCall().GetReason())
		require.Equal(t, "backup", calls[0].GetRecordOperatorCall().GetCall())
		require.Equal(t, "backup of the commands above index 7", sentenceOf(entryView(w.log[len(w.log)-1])))
	}
	w.quorum = errNoQuorum
	for range 2 {
		require.Equal(t, codes.Unavailable, status.Code(w.server.Backup(&adminpb.BackupRequest{}, &backups{})))
		require.Equal(t, 2, taken)
	}
	require.NoError(t, w.server.Backup(&adminpb.BackupRequest{Stale: true}, &backups{}), "of its own state, without a quorum")
	require.Equal(t, 3, taken)
}

// refusing is a cluster whose log takes nothing.
type refusing struct {
	*env
	err error
}

func (r refusing) Propose(context.Context, *fsmpb.Command) (*fsmpb.Outcome, error) { return nil, r.err }

func TestMembersAreChangedWhereTheLogTakesNothing(t *testing.T) {
	change := func(err error) (*fakeMembership, string, error) {
		v := newFakeMembership(t)
		var logged bytes.Buffer
		v.server.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		v.server.Cluster = refusing{v.env, err}
		for range 2 {
			_, err = v.server.ChangeMember(ctx, &adminpb.MemberPlanRequest{Verb: "remove", MemberId: idOf(3), Reason: "its state differs"})
		}
		return v, logged.String(), err
	}
	v, logged, err := change(errors.New("the members do not agree on the state"))
	require.NoError(t, err)
	require.Equal(t, []string{idOf(3)}, v.removed)
	for _, part := range []string{"level=WARN", "admin/alice", "members remove", "member " + idOf(3), "its state differs", "do not agree"} {
		require.Contains(t, logged, part)
	}
	v, logged, err = change(fsm.Reject(fsm.Forbidden, "not allowed"))
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Empty(t, v.removed)
	require.Empty(t, logged)
	v.server.TakeBackup = func(context.Context, BackupRequest, io.Writer) error { panic("it is taken") }
	for range 2 {
		require.Equal(t, codes.FailedPrecondition, status.Code(v.server.Backup(&adminpb.BackupRequest{Stale: true}, &backups{})))
	}
}

func TestALongPlanIsInTheLogByItsSummary(t *testing.T) {
	steps := make([]*adminpb.PlanStep, 10_000)
	for i := range steps {
		steps[i] = &adminpb.PlanStep{Action: "adopt", State: stepTodo, Detail: strings.Repeat("x", 200)}
	}
	c := &call{actor: "admin/ann", level: fsm.Level3}
	c.follows(strings.Repeat("é", 5000)+"\n", steps)
	cmd := c.stamp(&fsmpb.Command{})
	require.LessOrEqual(t, len(cmd.GetCall().GetPlan()), fsm.MaxReasonBytes)
	require.Nil(t, fsm.CheckOperatorText("plan", cmd.GetCall().GetPlan()))
	require.Len(t, cmd.GetCall().GetPlanDigest(), 32)
	steps[9_999].Detail = "another"
	require.NotEqual(t, planDigest(strings.Repeat("é", 5000)+"\n", steps), cmd.GetCall().GetPlanDigest())
}
