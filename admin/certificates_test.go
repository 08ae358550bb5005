package admin

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// issued is within the time that the states of these tests have.
var issued = time.Unix(1, 0).UTC()

const issuedText = "1970-01-01T00:00:01Z"

func certificate(role, name, serial string, left time.Duration) Certificate {
	return Certificate{Role: role, Name: name, Serial: serial, Issuer: "0011223344556677", Issued: issued, NotAfter: time.Now().Add(left)}
}

// newCertified are three controllers with certificates; n1 and alice are connected to two of them.
func newCertified(t *testing.T) *env {
	w := newEnv(t, "n1", "n2")
	host, admin := certificate("node", "n1", "aa", 24*time.Hour), certificate("admin", "alice", "bb", 9000*time.Hour)
	for i, name := range []string{"c1", "c2", "c3"} {
		own := certificate("controller", name, "c"+name[1:], 9000*time.Hour)
		w.members = append(w.members, Member{Name: name, MemberID: idOf(i + 1), Voter: true, Certificates: []Certificate{own}})
	}
	w.members[0].Certificates = append(w.members[0].Certificates, host, admin)
	w.members[1].Certificates = append(w.members[1].Certificates, host)
	w.server.CallerSerial = func(context.Context) string { return "bb" }
	return w
}

func TestCertificatesAreListedWithWhoSeesThem(t *testing.T) {
	w := newCertified(t)
	for range 2 {
		resp, err := w.server.Certificates(t.Context(), &adminpb.CertificatesRequest{})
		require.NoError(t, err)
		require.Len(t, resp.GetCertificates(), 5)
		host := resp.GetCertificates()[4]
		require.Equal(t, "node/n1", host.GetRole()+"/"+host.GetName())
		require.Equal(t, []string{"c1", "c2"}, host.GetSeenBy())
		require.Contains(t, host.GetCondition(), "expires on ")
		require.Empty(t, resp.GetCertificates()[0].GetCondition())
	}
	nodes, err := w.server.Nodes(t.Context(), &adminpb.NodesRequest{})
	require.NoError(t, err)
	require.Contains(t, nodes.GetNodes()[0].GetCertificate(), "expires on ")
	require.Empty(t, nodes.GetNodes()[1].GetCertificate())
	w.members[2].Certificates[0].NotAfter = time.Now().Add(time.Hour)
	members, err := w.server.Members(t.Context(), &adminpb.MembersRequest{})
	require.NoError(t, err)
	require.Empty(t, members.GetMembers()[0].GetDetail())
	require.Contains(t, members.GetMembers()[2].GetDetail(), "expires on ")
}

// What is made for a short time, as an operator's certificate by Kubernetes is, is not about to expire when it is made.
func TestACertificateIsJudgedByItsOwnLife(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		life, age time.Duration
		soon      bool
	}{
		"an hour, new":                  {time.Hour, 0, false},
		"an hour, half of it gone":      {time.Hour, 30 * time.Minute, false},
		"an hour, a quarter left":       {time.Hour, 45 * time.Minute, true},
		"a day, as long as it is whole": {day, 15 * time.Hour, false},
		"a year, three weeks left":      {365 * day, 344 * day, false},
		"a year, two weeks left":        {365 * day, 351 * day, true},
		"expired":                       {time.Hour, 2 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := Certificate{Issued: now.Add(-tc.age), NotAfter: now.Add(tc.life - tc.age)}
			require.Equal(t, tc.soon, expiryText(c, now) != "")
		})
	}
	require.NotEmpty(t, expiryText(Certificate{NotAfter: now.Add(day)}, now), "nobody says when it was issued")
	require.Empty(t, expiryText(Certificate{NotAfter: now.Add(30 * day)}, now))
}

func TestARevocationIsPlannedAndCarriedOut(t *testing.T) {
	for name, tc := range map[string]struct {
		req    *adminpb.RevocationPlanRequest
		state  string // of the first step
		detail string // of the last one
	}{
		"a host": {&adminpb.RevocationPlanRequest{Role: "node", Name: "n1", IssuedUntil: issuedText}, stepTodo, "certificate aa, seen by c1, c2: this host has no session"},
		"one of its certificates that nobody sees": {&adminpb.RevocationPlanRequest{Role: "node", Name: "n1", Serials: []string{"77"}}, stepTodo, "certificates 77"},
		"a controller":         {&adminpb.RevocationPlanRequest{Role: "controller", Name: "c3", IssuedUntil: issuedText}, stepTodo, "neither votes nor serves"},
		"who asks":             {&adminpb.RevocationPlanRequest{Role: "admin", Name: "alice", IssuedUntil: issuedText}, stepBlocked, "it is who asks"},
		"with its certificate": {&adminpb.RevocationPlanRequest{Role: "admin", Name: "alice", Serials: []string{"bb"}}, stepBlocked, "that you ask with"},
		"no serial number":     {&adminpb.RevocationPlanRequest{Role: "node", Name: "n1", Serials: []string{"x"}}, stepBlocked, "no serial number"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCertified(t)
			tc.req.Verb, tc.req.Reason = "revoke", "sold"
			hash := w.state.Hash()
			for range 2 {
				resp, err := w.server.PlanRevocation(t.Context(), tc.req)
				require.NoError(t, err)
				require.Equal(t, tc.state, resp.GetSteps()[0].GetState())
				require.Contains(t, resp.GetSteps()[len(resp.GetSteps())-1].GetDetail(), tc.detail)
				require.Equal(t, hash, w.state.Hash(), "a plan changes nothing")
			}
			for range 2 {
				resp, err := w.server.ChangeRevocation(t.Context(), tc.req)
				require.NoError(t, err)
				require.Equal(t, tc.state == stepTodo, resp.GetDone())
				require.NoError(t, w.state.Check())
			}
			_, revoked := w.state.Revocation(tc.req.GetRole(), tc.req.GetName())
			require.Equal(t, tc.state == stepTodo, revoked)
		})
	}
}

func TestARevocationIsBoundToItsPlan(t *testing.T) {
	w := newCertified(t)
	change := func(req *adminpb.RevocationPlanRequest) (*adminpb.RevocationPlanResponse, error) {
		return w.server.ChangeRevocation(t.Context(), req)
	}
	for _, req := range []*adminpb.RevocationPlanRequest{
		{Verb: "revoke", Role: "node", Name: "n1"}, {Verb: "unrevoke", Role: "node", Name: "n1"}, {Verb: "revoke", Role: "node", Name: "n1", IssuedUntil: "yesterday"}, {Verb: "burn", Role: "node", Name: "n1"},
	} {
		_, err := change(req)
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", req)
	}
	plan, err := w.server.PlanRevocation(t.Context(), &adminpb.RevocationPlanRequest{Verb: "revoke", Role: "node", Name: "n1"})
	require.NoError(t, err)
	until, err := time.Parse(time.RFC3339, plan.GetIssuedUntil())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), until, time.Minute)

	_, err = change(&adminpb.RevocationPlanRequest{Verb: "revoke", Role: "node", Name: "n1", IssuedUntil: issuedText})
	require.NoError(t, err)
	first, _ := w.state.Revocation("node", "n1")
	list, err := w.server.Certificates(t.Context(), &adminpb.CertificatesRequest{})
	require.NoError(t, err)
	require.Equal(t, "revoked", list.GetCertificates()[4].GetCondition())
	require.Equal(t, issuedText, list.GetRevocations()[0].GetIssuedUntil())
	require.Equal(t, "certificates of node/n1 are revoked (all issued until "+issuedText+"): ", sentenceOf(&adminpb.HistoryEntry{Command: w.log[len(w.log)-1].Command}))
	lift := &adminpb.RevocationPlanRequest{Verb: "unrevoke", Role: "node", Name: "n1", Since: first.Since}
	for range 2 {
		resp, err := change(lift)
		require.NoError(t, err)
		require.True(t, resp.GetDone())
	}
	_, err = change(&adminpb.RevocationPlanRequest{Verb: "revoke", Role: "node", Name: "n1", Serials: []string{"aa"}})
	require.NoError(t, err)
	resp, err := change(lift)
	require.NoError(t, err)
	require.Equal(t, stepBlocked, resp.GetSteps()[0].GetState(), "it is another revocation")
}

// Of three controllers one may be cut off; the second one that does not answer counts as cut off when anything of it is
// revoked.
func TestAQuorumOfControllersStays(t *testing.T) {
	w := newCertified(t)
	revoke := func(name string) string {
		resp, err := w.server.ChangeRevocation(t.Context(), &adminpb.RevocationPlanRequest{Verb: "revoke", Role: "controller", Name: name, IssuedUntil: issuedText})
		require.NoError(t, err)
		return resp.GetSteps()[0].GetState()
	}
	require.Equal(t, stepDone, revoke("c3"))
	require.Equal(t, stepBlocked, revoke("c2"))
	w.members[2].Certificates[0].Issued = issued.Add(time.Second) // it has another certificate
	require.Equal(t, stepDone, revoke("c2"))
}
