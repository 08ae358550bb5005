package admin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// levelOf is an empty state of a cluster at a feature level.
func levelOf(level uint32) *fsm.State {
	st := fsm.New()
	st.Apply(1, &fsmpb.Command{RequestId: make([]byte, fsm.RequestIDLen), Actor: "controller/c1", SchemaVersion: level, Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster-1", IncarnationId: make([]byte, 16), FeatureLevel: level}}})
	return st
}

func tableOf(t *testing.T, answer proto.Message) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Print(&out, "table", answer))
	return out.String()
}

// threeMembers are voters that answer, of two sites.
func threeMembers() []Member {
	return []Member{
		{Name: "c1", MemberID: idOf(1), Voter: true, Role: "leader", Site: "A"}, {Name: "c2", MemberID: idOf(2), Voter: true, Site: "A"},
		{Name: "c3", MemberID: idOf(3), Voter: true, Site: "B"},
	}
}

func TestWhatIsAtRisk(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	w.members = threeMembers()
	replicated := w.replicate(1)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: "hf-00000000-0000-4000-8000-000000000002", Name: "pvc-2", Fingerprint: []byte("f"), RequiredBytes: 1 << 30,
		Requisite:    []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: "n1"}}}},
		Capabilities: []*fsmpb.Capability{capability()}}}})
	local := fsm.VolumeID("hf-00000000-0000-4000-8000-000000000002")
	w.observe(&fsmpb.Observation{VolumeId: string(local), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	w.stage(local, "/staging")
	w.snapshot(local, false)
	for name, tc := range map[string]struct {
		req  *adminpb.AtRiskRequest
		safe bool
		want []string // volume impact
		says string
	}{
		"one host": {req: &adminpb.AtRiskRequest{Nodes: []string{"n1"}}, safe: true,
			want: []string{string(local) + " unavailable", string(replicated) + " degraded"}, says: "volumes: 0 lost, 0 frozen, 1 unavailable, 1 degraded; 1 publication end"},
		"the other":            {req: &adminpb.AtRiskRequest{Nodes: []string{"n2"}}, safe: true, want: []string{string(replicated) + " degraded"}},
		"both":                 {req: &adminpb.AtRiskRequest{Nodes: []string{"n1", "n2", "n1"}}, want: []string{string(replicated) + " lost", string(local) + " unavailable"}},
		"the site of both":     {req: &adminpb.AtRiskRequest{Sites: []string{fsm.DefaultSite}}, want: []string{string(replicated) + " lost", string(local) + " unavailable"}},
		"a member":             {req: &adminpb.AtRiskRequest{Members: []string{"c3"}}, safe: true, says: "controllers: 2 of 3 voters are left that are ready, a quorum is 2"},
		"two members":          {req: &adminpb.AtRiskRequest{Members: []string{idOf(1), "c3"}}, want: []string{string(replicated) + " degraded"}, says: "NOTHING WOULD BE DECIDED"},
		"a site of members":    {req: &adminpb.AtRiskRequest{Sites: []string{"A"}}, want: []string{string(replicated) + " degraded"}, says: "NOTHING WOULD BE DECIDED"},
		"a site of one member": {req: &adminpb.AtRiskRequest{Sites: []string{"B"}}, safe: true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				resp, err := w.server.AtRisk(t.Context(), tc.req)
				require.NoError(t, err)
				var got []string
				for _, v := range resp.GetVolumes() {
					got = append(got, v.GetVolume()+" "+v.GetImpact())
				}
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.safe, resp.GetSafe())
				require.Contains(t, resp.GetSummary(), tc.says)
				require.Equal(t, w.index, resp.GetIndex())
				require.Contains(t, tableOf(t, resp), resp.GetSummary())
			}
		})
	}
	for name, tc := range map[string]struct {
		req  *adminpb.AtRiskRequest
		code codes.Code
	}{
		"nothing":              {&adminpb.AtRiskRequest{}, codes.InvalidArgument},
		"a host not known":     {&adminpb.AtRiskRequest{Nodes: []string{"n9"}}, codes.NotFound},
		"a zone not known":     {&adminpb.AtRiskRequest{Zones: []string{"z"}}, codes.NotFound},
		"a site not known":     {&adminpb.AtRiskRequest{Sites: []string{"C"}}, codes.NotFound},
		"a member not known":   {&adminpb.AtRiskRequest{Members: []string{"c9"}}, codes.NotFound},
		"an empty member name": {&adminpb.AtRiskRequest{Members: []string{""}}, codes.NotFound},
	} {
		for range 2 {
			_, err := w.server.AtRisk(t.Context(), tc.req)
			require.Equal(t, tc.code, status.Code(err), name)
		}
	}
	w.quorum = errNoQuorum
	_, err := w.server.AtRisk(t.Context(), &adminpb.AtRiskRequest{Nodes: []string{"n1"}})
	require.Equal(t, codes.Unavailable, status.Code(err))
}

func TestToleranceIsReadInPages(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	w.members = threeMembers()
	first, second := w.replicate(1), w.replicate(2)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: "hf-00000000-0000-4000-8000-000000000003", Name: "pvc-3", Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Capabilities: []*fsmpb.Capability{capability()}}}})
	one := &adminpb.Tolerance{Loss: 1, Use: 1}
	for range 2 {
		page, err := w.server.Tolerance(t.Context(), &adminpb.ToleranceRequest{PageSize: 1})
		require.NoError(t, err)
		require.True(t, proto.Equal(&adminpb.ClusterTolerance{Node: one, Zone: &adminpb.Tolerance{}, Site: &adminpb.Tolerance{}, Members: 1, LimitedBy: string(first)}, page.GetCluster()), page)
		require.Equal(t, string(first), page.GetNext())
		require.True(t, proto.Equal(one, page.GetVolumes()[0].GetNode()))
		next, err := w.server.Tolerance(t.Context(), &adminpb.ToleranceRequest{PageSize: 1, After: page.GetNext()})
		require.NoError(t, err)
		require.Nil(t, next.GetCluster())
		require.Empty(t, next.GetNext(), "the one that is being made is not counted")
		require.Equal(t, string(second), next.GetVolumes()[0].GetVolume())
		named, err := w.server.Tolerance(t.Context(), &adminpb.ToleranceRequest{Volume: "pvc-2"})
		require.NoError(t, err)
		require.Len(t, named.GetVolumes(), 1)
		require.Contains(t, tableOf(t, page), "nodes 1/1, zones 0/0, sites 0/0; controllers 1")
	}
	_, err := w.server.Tolerance(t.Context(), &adminpb.ToleranceRequest{Volume: "nobody"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestRebootsAreClaimed(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2", "n3")
	w.replicate(1)
	ask := func(req *adminpb.RebootSafeRequest) *adminpb.RebootSafeResponse {
		t.Helper()
		call := w.server.RebootSafe
		if req.GetClaim() || req.GetRelease() {
			call = w.server.ClaimMaintenance
		}
		first, err := call(t.Context(), req)
		require.NoError(t, err)
		second, err := call(t.Context(), req)
		require.NoError(t, err)
		first.Index, second.Index = 0, 0
		require.True(t, proto.Equal(first, second), "%v\n%v", first, second)
		return second
	}
	index := w.index
	require.True(t, ask(&adminpb.RebootSafeRequest{Node: "n1"}).GetSafe())
	require.Equal(t, index, w.index, "a question changes nothing")
	claimed := ask(&adminpb.RebootSafeRequest{Node: "n1", HostId: "host-n1", Claim: true})
	require.True(t, claimed.GetSafe())
	require.NotZero(t, claimed.GetClaimed())
	require.Contains(t, tableOf(t, claimed), "it is in maintenance since index")
	refused := ask(&adminpb.RebootSafeRequest{Node: "n2", Claim: true})
	require.False(t, refused.GetSafe())
	require.Zero(t, refused.GetClaimed())
	require.Equal(t, []string{"n1"}, refused.GetInMaintenance())
	require.Contains(t, tableOf(t, refused), "MAY NOT be rebooted now")
	require.True(t, ask(&adminpb.RebootSafeRequest{Node: "n3", Claim: true}).GetSafe(), "it shares no volume with n1")
	nodes, err := w.server.Nodes(t.Context(), &adminpb.NodesRequest{})
	require.NoError(t, err)
	require.Equal(t, claimed.GetClaimed(), nodes.GetNodes()[0].GetMaintenance())
	require.Contains(t, tableOf(t, nodes), "in maintenance since")
	require.Zero(t, ask(&adminpb.RebootSafeRequest{Node: "n1", Release: true}).GetClaimed())
	require.True(t, ask(&adminpb.RebootSafeRequest{Node: "n2"}).GetSafe())
	ask(&adminpb.RebootSafeRequest{Node: "n2", Claim: true})
	w.setUnreachable("n2") // it goes down
	_, err = w.server.RebootSafe(t.Context(), &adminpb.RebootSafeRequest{Node: "n2"})
	require.Equal(t, codes.Unavailable, status.Code(err), "nobody knows what it does")
	require.Zero(t, ask(&adminpb.RebootSafeRequest{Node: "n2", Release: true}).GetClaimed())
}

func TestQuestionsAboutRebootsThatAreRefused(t *testing.T) {
	w := newReplicatedEnv(t, "n1")
	for name, tc := range map[string]struct {
		req  *adminpb.RebootSafeRequest
		code codes.Code
	}{
		"a node that is not known":   {&adminpb.RebootSafeRequest{Node: "n9"}, codes.NotFound},
		"another host":               {&adminpb.RebootSafeRequest{Node: "n1", HostId: "another"}, codes.FailedPrecondition},
		"another host, to claim":     {&adminpb.RebootSafeRequest{Node: "n1", HostId: "another", Claim: true}, codes.FailedPrecondition},
		"a claim and its end":        {&adminpb.RebootSafeRequest{Node: "n1", Claim: true, Release: true}, codes.InvalidArgument},
		"a release of one not known": {&adminpb.RebootSafeRequest{Node: "n9", Release: true}, codes.NotFound},
	} {
		for range 2 {
			_, err := w.server.RebootSafe(t.Context(), &adminpb.RebootSafeRequest{Node: "n1", Claim: true})
			require.Equal(t, codes.InvalidArgument, status.Code(err), "a viewer's question changes nothing")
			call := w.server.ClaimMaintenance
			if !tc.req.GetClaim() && !tc.req.GetRelease() {
				_, err := call(t.Context(), tc.req)
				require.Equal(t, codes.InvalidArgument, status.Code(err), name)
				call = w.server.RebootSafe
			}
			_, err = call(t.Context(), tc.req)
			require.Equal(t, tc.code, status.Code(err), name)
		}
	}
	w.quorum = errNoQuorum
	for _, req := range []*adminpb.RebootSafeRequest{{Node: "n1", Claim: true}, {Node: "n1", Release: true}} {
		_, err := w.server.ClaimMaintenance(t.Context(), req)
		require.Equal(t, codes.Unavailable, status.Code(err))
	}
}

// A drain says what is in use on the host, and what cannot be used while it is away; its end releases a claim.
func TestADrainShowsWhatIsLeft(t *testing.T) {
	w := newEnv(t, "n1")
	id := w.create(1, true)
	w.create(2, true)
	w.stage(id, "/staging")
	req := &adminpb.PlanRequest{Verb: "drain", Node: "n1"}
	for range 2 {
		resp, err := w.server.Plan(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, []uint64{1, 1, 2}, []uint64{resp.GetPublished(), resp.GetStaged(), resp.GetOnlyHere()})
		require.EqualValues(t, 1, resp.GetWaiting(), "what cannot move is not waited for")
	}
}

// The end of a drain is the end of a claim too: the other hosts of its volumes may be rebooted again.
func TestUndrainReleasesAClaim(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	w.replicate(1)
	_, err := w.server.ClaimMaintenance(t.Context(), &adminpb.RebootSafeRequest{Node: "n1", Claim: true})
	require.NoError(t, err)
	undrain := &adminpb.PlanRequest{Verb: "undrain", Node: "n1", HostId: "host-n1"}
	plan, err := w.server.Plan(t.Context(), undrain)
	require.NoError(t, err)
	require.Equal(t, []string{"done uncordon", "todo release"}, []string{
		plan.GetSteps()[0].GetState() + " " + plan.GetSteps()[0].GetAction(), plan.GetSteps()[1].GetState() + " " + plan.GetSteps()[1].GetAction()})
	for range 2 {
		resp, err := w.server.CarryOut(t.Context(), undrain)
		require.NoError(t, err)
		require.True(t, resp.GetDone())
	}
	n, _ := w.state.Node("n1")
	require.Zero(t, n.Maintenance)
}
