package admin

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newEnrolling is newCertified where c1 and c2 issue certificates for tokens.
func newEnrolling(t *testing.T) *env {
	w := newCertified(t)
	w.members[0].EnrollAddr, w.members[1].EnrollAddr = "c1:9803", "c2:9803"
	w.server.TokenAuthority = func(string, string) ([]byte, string, error) { return bytes.Repeat([]byte{7}, 32), "prod", nil }
	return w
}

func tokenRequest(n byte, name string) *adminpb.TokenPlanRequest {
	return &adminpb.TokenPlanRequest{Verb: "create", Id: strings.Repeat("0", 15) + string('0'+n), SecretHash: bytes.Repeat([]byte{n}, 32), Role: "node", Name: name, TtlSeconds: 3600}
}

func TestAJoinTokenIsPlannedAndCreated(t *testing.T) {
	w := newEnrolling(t)
	req := tokenRequest(1, "n9")
	hash := w.state.Hash()
	for range 2 {
		plan, err := w.server.PlanToken(t.Context(), &adminpb.TokenPlanRequest{Verb: "create", Role: "node", Name: "n9", TtlSeconds: 3600})
		require.NoError(t, err)
		require.Equal(t, stepTodo, plan.GetSteps()[0].GetState())
		require.Equal(t, []string{"c1:9803", "c2:9803"}, plan.GetEnrollAddresses())
		require.Equal(t, hash, w.state.Hash())
	}
	for range 2 {
		resp, err := w.server.ChangeToken(t.Context(), req)
		require.NoError(t, err)
		require.True(t, resp.GetDone())
		require.NotEmpty(t, resp.GetExpires())
		require.Equal(t, bytes.Repeat([]byte{7}, 32), resp.GetCaPin())
		require.Equal(t, "prod", resp.GetCluster())
	}
	list, err := w.server.Tokens(t.Context(), &adminpb.TokensRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetTokens(), 1)
	require.Equal(t, "admin/alice", list.GetTokens()[0].GetCreatedBy())
	require.Equal(t, tokenWaiting, list.GetTokens()[0].GetCondition())
	require.Contains(t, table(t, list), "n9")
}

func table(t *testing.T, resp *adminpb.TokensResponse) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Print(&out, "table", resp))
	return out.String()
}

func TestAnotherTokenOfTheNameRevokesTheFirst(t *testing.T) {
	w := newEnrolling(t)
	_, err := w.server.ChangeToken(t.Context(), tokenRequest(1, "n1"))
	require.NoError(t, err)
	plan, err := w.server.PlanToken(t.Context(), tokenRequest(2, "n1"))
	require.NoError(t, err)
	require.Contains(t, plan.GetSteps()[1].GetDetail(), "token 0000000000000001 of the same name")
	require.Contains(t, plan.GetSteps()[2].GetDetail(), "certificate aa of this name is in use")
	_, err = w.server.ChangeToken(t.Context(), tokenRequest(2, "n1"))
	require.NoError(t, err)
	list, err := w.server.Tokens(t.Context(), &adminpb.TokensRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{tokenRevoked, tokenWaiting}, mapSlice(list.GetTokens(), (*adminpb.Token).GetCondition))
}

func TestTokensThatAreNotCreated(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*env, *adminpb.TokenPlanRequest)
		code   codes.Code
		want   string // of the first step, when there is a plan
	}{
		"nobody issues certificates": {func(w *env, _ *adminpb.TokenPlanRequest) { w.members[0].EnrollAddr, w.members[1].EnrollAddr = "", "" }, codes.OK, "--enroll-listen"},
		"who does is down": {func(w *env, _ *adminpb.TokenPlanRequest) {
			w.members[0].Err, w.members[1].EnrollAddr = errUnreachable, ""
		}, codes.OK, "--enroll-listen"},
		"for too long":    {func(_ *env, r *adminpb.TokenPlanRequest) { r.TtlSeconds = 1 << 30 }, codes.OK, "it may be good for"},
		"for an operator": {func(_ *env, r *adminpb.TokenPlanRequest) { r.Role = "admin" }, codes.OK, "none of the roles"},
		"a name that no certificate has": {func(w *env, _ *adminpb.TokenPlanRequest) {
			w.server.TokenAuthority = func(string, string) ([]byte, string, error) {
				return nil, "", status.Error(codes.InvalidArgument, "name")
			}
		}, codes.InvalidArgument, ""},
		"without an authority": {func(w *env, _ *adminpb.TokenPlanRequest) { w.server.TokenAuthority = nil }, codes.Unimplemented, ""},
		"without an id":        {func(_ *env, r *adminpb.TokenPlanRequest) { r.Id = "" }, codes.InvalidArgument, ""},
		"a secret":             {func(_ *env, r *adminpb.TokenPlanRequest) { r.SecretHash = []byte("secret") }, codes.InvalidArgument, ""},
		"another verb":         {func(_ *env, r *adminpb.TokenPlanRequest) { r.Verb = "use" }, codes.InvalidArgument, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnrolling(t)
			req := tokenRequest(1, "n9")
			tc.change(w, req)
			hash := w.state.Hash()
			for range 2 {
				resp, err := w.server.ChangeToken(t.Context(), req)
				require.Equal(t, tc.code, status.Code(err), "%v", err)
				if tc.code == codes.OK {
					require.Equal(t, stepBlocked, resp.GetSteps()[0].GetState())
					require.Contains(t, resp.GetSteps()[0].GetDetail(), tc.want)
				}
				require.Equal(t, hash, w.state.Hash())
			}
		})
	}
}

func TestAJoinTokenIsRevoked(t *testing.T) {
	w := newEnrolling(t)
	req := tokenRequest(1, "n9")
	_, err := w.server.ChangeToken(t.Context(), req)
	require.NoError(t, err)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_UseJoinToken{UseJoinToken: &fsmpb.UseJoinToken{
		TokenId: req.GetId(), SecretHash: req.GetSecretHash(), Role: "node", Name: "n9", KeyHash: make([]byte, 32)}}})
	revoke := &adminpb.TokenPlanRequest{Verb: "revoke", Id: req.GetId()}
	plan, err := w.server.PlanToken(t.Context(), revoke)
	require.NoError(t, err)
	require.Contains(t, plan.GetSteps()[1].GetDetail(), "certs revoke node n9")
	for range 2 {
		resp, err := w.server.ChangeToken(t.Context(), revoke)
		require.NoError(t, err)
		require.True(t, resp.GetDone())
	}
	_, err = w.server.PlanToken(t.Context(), &adminpb.TokenPlanRequest{Verb: "revoke", Id: "none"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

// A viewer sees a plan, and no call of a viewer creates anything: ChangeToken is for admins only.
func TestAViewersPlanOfATokenChangesNothing(t *testing.T) {
	w := newEnrolling(t)
	w.server.Actor = func(context.Context) (string, error) { return "viewer/bob", nil }
	hash := w.state.Hash()
	for range 2 {
		_, err := w.server.PlanToken(t.Context(), tokenRequest(1, "n9"))
		require.NoError(t, err)
		require.Equal(t, hash, w.state.Hash())
	}
}
