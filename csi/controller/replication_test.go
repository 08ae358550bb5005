package controller_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// roleRequest is what requests of replication.Controller have in common.
type roleRequest struct {
	volume, id          string
	source              *spec.ReplicationSource
	parameters, secrets map[string]string
}

// ofDeprecated is the request with the field that replication_source replaced.
func ofDeprecated[R proto.Message](req R, volume string) R {
	m := req.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("volume_id"), protoreflect.ValueOfString(volume))
	return req
}

// roleCalls are all RPCs of replication.Controller.
var roleCalls = map[string]func(context.Context, spec.ControllerClient, roleRequest) error{
	"Enable": func(ctx context.Context, c spec.ControllerClient, r roleRequest) error {
		_, err := c.EnableVolumeReplication(ctx, ofDeprecated(&spec.EnableVolumeReplicationRequest{ReplicationId: r.id, ReplicationSource: r.source, Parameters: r.parameters, Secrets: r.secrets}, r.volume))
		return err
	},
	"Disable": func(ctx context.Context, c spec.ControllerClient, r roleRequest) error {
		_, err := c.DisableVolumeReplication(ctx, ofDeprecated(&spec.DisableVolumeReplicationRequest{ReplicationId: r.id, ReplicationSource: r.source, Parameters: r.parameters, Secrets: r.secrets}, r.volume))
		return err
	},
	"Promote": func(ctx context.Context, c spec.ControllerClient, r roleRequest) error {
		_, err := c.PromoteVolume(ctx, ofDeprecated(&spec.PromoteVolumeRequest{ReplicationId: r.id, ReplicationSource: r.source, Parameters: r.parameters, Secrets: r.secrets}, r.volume))
		return err
	},
	"Demote": func(ctx context.Context, c spec.ControllerClient, r roleRequest) error {
		_, err := c.DemoteVolume(ctx, ofDeprecated(&spec.DemoteVolumeRequest{ReplicationId: r.id, ReplicationSource: r.source, Parameters: r.parameters, Secrets: r.secrets}, r.volume))
		return err
	},
	"Resync": func(ctx context.Context, c spec.ControllerClient, r roleRequest) error {
		_, err := c.ResyncVolume(ctx, ofDeprecated(&spec.ResyncVolumeRequest{ReplicationId: r.id, ReplicationSource: r.source, Parameters: r.parameters, Secrets: r.secrets}, r.volume))
		return err
	},
	"Info": func(ctx context.Context, c spec.ControllerClient, r roleRequest) error {
		_, err := c.GetVolumeReplicationInfo(ctx, ofDeprecated(&spec.GetVolumeReplicationInfoRequest{ReplicationId: r.id, ReplicationSource: r.source, Secrets: r.secrets}, r.volume))
		return err
	},
}

// ADD-REPL-Source-01 to -06, -08, and of each RPC: ADD-REPL-Enable-02, -03, -04, -05, ADD-REPL-Disable-02, -03, -04, -05,
// ADD-REPL-Promote-02, -03, -04, -05, ADD-REPL-Demote-02, -03, -04, -05, ADD-REPL-Resync-02, -03, -04, -05, ADD-REPL-Info-02,
// -03, -04. Nothing is proposed, and no secret is in an answer.
func TestReplicationRequestsThatCannotBeRight(t *testing.T) {
	const canary = "canary-of-a-secret"
	good := mapOf("peerSite", "B")
	w := newSites(t)
	id := w.create(t, "v", between)
	group := w.createVolumeGroup(t, "g")
	for name, tc := range map[string]struct {
		req  roleRequest
		want codes.Code
	}{
		"Source-04: nothing":                   {roleRequest{parameters: good}, codes.InvalidArgument},
		"Source-01: an empty source":           {roleRequest{source: &spec.ReplicationSource{}, parameters: good}, codes.InvalidArgument},
		"Source-01: with the deprecated field": {roleRequest{volume: id, source: &spec.ReplicationSource{}, parameters: good}, codes.InvalidArgument},
		"Source-02: no volume id":              {roleRequest{source: ofVolume(""), parameters: good}, codes.InvalidArgument},
		"Source-02: no volume":                 {roleRequest{source: &spec.ReplicationSource{Type: &spec.ReplicationSource_Volume{}}, parameters: good}, codes.InvalidArgument},
		"Source-03: no group id":               {roleRequest{source: ofGroup(""), parameters: good}, codes.InvalidArgument},
		"Source-03: no group":                  {roleRequest{source: &spec.ReplicationSource{Type: &spec.ReplicationSource_Volumegroup{}}, parameters: good}, codes.InvalidArgument},
		"Source-06: two volumes":               {roleRequest{volume: unknownID, source: ofVolume(id), parameters: good}, codes.InvalidArgument},
		"Source-06: a volume and a group":      {roleRequest{volume: id, source: ofGroup(group), parameters: good}, codes.InvalidArgument},
		"-05: an unknown volume":               {roleRequest{source: ofVolume(unknownID), parameters: good}, codes.NotFound},
		"-05: by the deprecated field":         {roleRequest{volume: unknownID, parameters: good}, codes.NotFound},
		"-05: another driver's":                {roleRequest{source: ofVolume("0001-0242ac110002"), parameters: good}, codes.NotFound},
		"-05: an unknown group":                {roleRequest{source: ofGroup(unknownVolumeGroup), parameters: good}, codes.NotFound},
		"-05: another driver's group":          {roleRequest{source: ofGroup("x"), parameters: good}, codes.NotFound},
	} {
		for call, do := range roleCalls {
			t.Run(name+"/"+call, func(t *testing.T) {
				tc.req.secrets = mapOf("holdfastToken", canary)
				for range 2 {
					err := do(w.soon(t), w.roles, tc.req)
					requireCode(t, tc.want, err)
					require.NotContains(t, err.Error(), canary)
				}
			})
		}
	}
}

// ADD-REPL-Enable-02, ADD-REPL-Disable-02, ADD-REPL-Promote-02, ADD-REPL-Demote-02, ADD-REPL-Resync-02; S34.
func TestReplicationParameters(t *testing.T) {
	for name, tc := range map[string]struct {
		pairs []string
		want  codes.Code
	}{
		"another vendor's":            {[]string{"replication.storage.openshift.io/x", "y"}, codes.InvalidArgument},
		"those of orchestrators":      {[]string{"schedulingInterval", "1m", "schedulingStartTime", "14:00:00-05:00", "csi.storage.k8s.io/x", "y", "a.kubernetes.io/x", "y"}, codes.OK},
		"those that it has":           {[]string{"site", "A", "peerNode", "n2", "protocol", "C", "keep", "true", "together", "true"}, codes.OK},
		"an unknown one":              {[]string{"mirroringMode", "snapshot"}, codes.InvalidArgument},
		"S34: another site's":         {[]string{"site", "B"}, codes.InvalidArgument},
		"no name of a site":           {[]string{"peerSite", "/"}, codes.InvalidArgument},
		"no node":                     {[]string{"peerNode", ""}, codes.InvalidArgument},
		"another protocol":            {[]string{"protocol", "B"}, codes.InvalidArgument},
		"a protocol in small letters": {[]string{"protocol", "c"}, codes.InvalidArgument},
		"keep perhaps":                {[]string{"keep", "1"}, codes.InvalidArgument},
		"together perhaps":            {[]string{"together", ""}, codes.InvalidArgument},
		"isolated: burn":              {[]string{"isolated", "burn"}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSites(t)
			id := w.create(t, "v", between)
			given := mapOf("peerSite", "B")
			for key, value := range mapOf(tc.pairs...) {
				given[key] = value
			}
			before := w.cluster.proposedCount()
			for _, call := range []string{"Enable", "Enable", "Promote", "Promote", "Demote", "Demote", "Promote", "Disable", "Disable", "Enable"} {
				requireCode(t, tc.want, roleCalls[call](w.soon(t), w.roles, roleRequest{source: ofVolume(id), parameters: given}))
			}
			require.Equal(t, tc.want != codes.OK, w.cluster.proposedCount() == before)
		})
	}
	w := newSites(t)
	id := w.create(t, "v", between)
	requireCode(t, codes.InvalidArgument, roleCalls["Enable"](w.soon(t), w.roles, roleRequest{volume: id}))
	require.NoError(t, w.enable(t, ofVolume(id)))
	_, err := w.resync(t, ofVolume(id), false, "keep", "perhaps")
	requireCode(t, codes.InvalidArgument, err)
}

// ADD-REPL-Enable-01, ADD-REPL-Disable-01, ADD-REPL-Promote-01, ADD-REPL-Demote-01, ADD-REPL-Resync-01, ADD-REPL-Info-01: a volume
// has one relation, which is found under its id and without one, and under no other.
func TestReplicationIDs(t *testing.T) {
	w := newSites(t)
	id := w.create(t, "v", between)
	good := mapOf("peerSite", "B")
	calls := []string{"Enable", "Info", "Promote", "Demote", "Promote", "Disable"}
	for _, given := range []string{"of-an-orchestrator", ""} {
		require.NoError(t, roleCalls["Enable"](w.soon(t), w.roles, roleRequest{source: ofVolume(id), parameters: good, id: "of-an-orchestrator"}))
		for _, call := range append(calls[:len(calls)-1:len(calls)-1], "Resync") {
			requireCode(t, codes.NotFound, roleCalls[call](w.soon(t), w.roles, roleRequest{source: ofVolume(id), parameters: good, id: "another"}))
		}
		requireCode(t, codes.NotFound, roleCalls["Disable"](w.soon(t), w.roles, roleRequest{source: ofVolume(id), parameters: good, id: "another"}))
		for _, call := range calls {
			require.NoError(t, roleCalls[call](w.soon(t), w.roles, roleRequest{volume: id, source: ofVolume(id), parameters: good, id: given}), call)
		}
	}
}

// ADD-REPL-Svc-01, -02, -04, ADD-REPL-Source-05, -08, ADD-REPL-Enable-09, -10, ADD-REPL-Disable-09, ADD-REPL-Promote-10, -12, ADD-REPL-Demote-10, -12,
// ADD-REPL-Resync-10, -13: a relocation and its way back; each call is made again, also when another member leads.
func TestReplicationCallsAreIdempotent(t *testing.T) {
	w := newSites(t)
	id := w.create(t, "v", between)
	again := func(site, call string, want codes.Code) {
		t.Helper()
		for i := range 10 {
			w.cluster.site = site
			peer := map[string]string{"A": "B", "B": "A"}[site]
			requireCode(t, want, roleCalls[call](w.soon(t), w.roles, roleRequest{volume: id, parameters: mapOf("peerSite", peer)}))
			if i%2 == 1 {
				w.cluster.changeLeader(t)
			}
		}
	}
	w.cluster.actAs(t, "B")
	again("A", "Disable", codes.OK)
	again("A", "Enable", codes.OK)
	again("A", "Info", codes.OK)
	again("B", "Enable", codes.OK)
	again("B", "Info", codes.FailedPrecondition)
	again("B", "Demote", codes.OK)
	again("B", "Resync", codes.OK)
	again("A", "Demote", codes.OK)
	again("B", "Promote", codes.OK)
	again("B", "Info", codes.OK)
	again("A", "Resync", codes.OK)
	again("A", "Disable", codes.OK)
	again("B", "Disable", codes.OK)
	again("B", "Info", codes.FailedPrecondition)
	require.Len(t, w.cluster.volumes(), 1)
	require.NoError(t, w.cluster.state.Check())
}

// ADD-REPL-Enable-11, ADD-REPL-Enable-09: what is enabled is not changed by enabling it otherwise.
func TestEnablingOtherwiseChangesNothing(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	before := w.recorded(id)
	for name, pairs := range map[string][]string{
		"another peer": {"peerSite", "C"}, "protocol": {"protocol", "A"}, "keep": {"keep", "false"}, "together": {"together", "false"}, "isolated": {"isolated", "freeze"},
	} {
		for range 2 {
			requireCode(t, codes.FailedPrecondition, w.enable(t, ofVolume(id), pairs...))
			require.Equal(t, before, w.recorded(id), name)
		}
	}
	require.NoError(t, w.enable(t, ofVolume(id), "protocol", "C", "keep", "true", "together", "true"))
	require.Equal(t, before, w.recorded(id))
}

// ADD-REPL-Enable-06, -10: a plain volume has a second replica made, which is waited for; the retry joins.
func TestEnableWaitsForTheSecondReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSites(t)
		id := w.create(t, "plain")
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = true })
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			err := roleCalls["Enable"](ctx, w.roles, roleRequest{volume: id, parameters: mapOf("peerSite", "B")})
			cancel()
			requireCode(t, codes.Aborted, err)
			require.Contains(t, said(err), "its second replica is being made")
		}
		_, err := w.info(t, ofVolume(id))
		requireCode(t, codes.NotFound, err) // ADD-REPL-Info-04: never synchronised
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = false })
		require.NoError(t, w.enable(t, ofVolume(id)))
		got, err := w.info(t, ofVolume(id))
		require.NoError(t, err)
		require.Equal(t, spec.GetVolumeReplicationInfoResponse_HEALTHY, got.GetStatus(), got.GetStatusMessage())
	})
}

// ADD-REPL-Promote-11, ADD-REPL-Demote-11, ADD-REPL-Resync-11, ADD-REPL-Resync-12, ADD-REPL-Info-09: what is not replicated, or not
// through this site.
func TestReplicationOfWhatIsNotReplicated(t *testing.T) {
	w := newSites(t)
	id := w.create(t, "v", between)
	for range 2 {
		for _, call := range []string{"Promote", "Demote", "Resync", "Info"} {
			requireCode(t, codes.FailedPrecondition, roleCalls[call](w.soon(t), w.roles, roleRequest{volume: id}))
		}
	}
	require.NoError(t, w.enable(t, ofVolume(id)))
	for range 2 {
		_, err := w.resync(t, ofVolume(id), true)
		requireCode(t, codes.FailedPrecondition, err)
	}
	w.cluster.actAs(t, "C")
	for _, call := range []string{"Promote", "Demote", "Resync", "Info"} {
		requireCode(t, codes.FailedPrecondition, roleCalls[call](w.soon(t), w.roles, roleRequest{volume: id}))
	}
	requireCode(t, codes.InvalidArgument, roleCalls["Disable"](w.soon(t), w.roles, roleRequest{volume: id}))
}

// S46, ADD-REPL-Demote-14, ADD-REPL-Demote-06: what is in use is not demoted, and says where it is in use.
func TestS46_DemoteOfWhatIsInUse(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.publishTo(id, "n1"))
	for range 2 {
		err := w.demote(t, ofVolume(id))
		requireCode(t, codes.FailedPrecondition, err)
		require.Contains(t, said(err), "n1")
		require.Contains(t, said(err), id)
	}
	w.hostOf("n1").update(func(h *fakeHost) { h.idle = true })
	require.NoError(t, w.unpublish(t, id, "n1"))
	for range 2 {
		requireCode(t, codes.Aborted, w.demote(t, ofVolume(id)))
	}
	w.hostOf("n1").update(func(h *fakeHost) { h.idle = false })
	w.cluster.reconcileHosts()
	require.NoError(t, w.demote(t, ofVolume(id)))
}

// S39, ADD-REPL-Promote-06, ADD-REPL-Demote-06: a call that was decided before the role moved changes nothing; one whose caller
// is gone is not proposed.
func TestS39_ACallThatWasHeldUpChangesNothing(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	w.cluster.actAs(t, "B")
	w.cluster.site = "A"
	moves := []*fsmpb.Command{
		{Site: "A", Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: &fsmpb.ReplicationSource{VolumeId: id}}}},
		{Site: "B", Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: &fsmpb.ReplicationSource{VolumeId: id}}}},
		{Site: "B", Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: &fsmpb.ReplicationSource{VolumeId: id}}}},
		{Site: "A", Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: &fsmpb.ReplicationSource{VolumeId: id}}}},
	}
	w.cluster.update(func(c *fakeCluster) {
		c.mutateCommand = func(cmd *fsmpb.Command) {
			if cmd.GetDemoteReplication() == nil {
				return
			}
			for _, move := range moves { // a whole failover and failback while the call is held up
				_, err := w.cluster.apply("controller/c"+move.GetSite(), move)
				require.NoError(t, err)
			}
		}
	})
	err := w.demote(t, ofVolume(id))
	requireCode(t, codes.Aborted, err)
	require.Contains(t, said(err), "role moved")
	w.cluster.update(func(c *fakeCluster) { c.mutateCommand = nil })
	_, err = w.info(t, ofVolume(id))
	require.NoError(t, err, "A is primary still")
	require.NoError(t, w.demote(t, ofVolume(id)))
}

// S28, ADD-REPL-Promote-16: nothing that passes by itself is FAILED_PRECONDITION of a promotion.
func TestReplicationWithoutAQuorum(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	w.cluster.update(func(c *fakeCluster) { c.noQuorum = true })
	for call, do := range roleCalls {
		for range 2 {
			requireCode(t, codes.Unavailable, do(w.soon(t), w.roles, roleRequest{volume: id, parameters: mapOf("peerSite", "B")}))
		}
		require.NotEmpty(t, call)
	}
}

// ADD-REPL-Info-10 to -15, ADD-REPL-Info-04, S56: from the log and from the primary's host, at this moment.
func TestS56_InformationIsObservedWhileTheCallerWaits(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	before := w.cluster.state.Hash()
	proposed, asked := w.cluster.proposedCount(), time.Now()
	var last time.Time
	for range 3 {
		got, err := w.info(t, ofVolume(id))
		require.NoError(t, err)
		require.Equal(t, spec.GetVolumeReplicationInfoResponse_HEALTHY, got.GetStatus(), got.GetStatusMessage())
		require.True(t, got.GetLastSyncTime().AsTime().After(asked))
		require.Nil(t, got.GetLastSyncDuration(), "none ended")
		require.Zero(t, got.GetLastSyncBytes())
		require.LessOrEqual(t, len(got.GetStatusMessage()), 128)
		last = got.GetLastSyncTime().AsTime()
	}
	require.Equal(t, proposed, w.cluster.proposedCount())
	require.Equal(t, before, w.cluster.state.Hash(), "ADD-REPL-Info-13")

	w.hostOf("n2").update(func(h *fakeHost) { h.idle = true }) // the log does not know yet
	got, err := w.info(t, ofVolume(id))
	require.NoError(t, err)
	require.Equal(t, spec.GetVolumeReplicationInfoResponse_DEGRADED, got.GetStatus(), "never a stale HEALTHY")
	require.True(t, got.GetLastSyncTime().AsTime().Before(last), "nothing newer is known")

	w.hostOf("n1").update(func(h *fakeHost) { h.idle = true })
	began := time.Now()
	got, err = w.info(t, ofVolume(id))
	require.NoError(t, err)
	require.Equal(t, spec.GetVolumeReplicationInfoResponse_UNKNOWN, got.GetStatus())
	require.Less(t, time.Since(began), 900*time.Millisecond, "the host is waited for as long as its answer would count")
	require.NotZero(t, got.GetLastSyncTime().AsTime().Unix())
	require.LessOrEqual(t, len(got.GetStatusMessage()), 128)
	w.hostOf("n1").setReachable(t, false)
	got, err = w.info(t, ofVolume(id))
	require.NoError(t, err)
	require.Equal(t, spec.GetVolumeReplicationInfoResponse_UNKNOWN, got.GetStatus())
	require.False(t, strings.ContainsAny(got.GetStatusMessage(), "\n\t"))
}

// S56: an observation of a generation that the log has left is none.
func TestS56_AnObservationOfAnotherGenerationIsNone(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	w.cluster.update(func(c *fakeCluster) {
		c.changeReplicaNow = func(seen *fsm.ReplicaObservation) { seen.Generation-- }
	})
	got, err := w.info(t, ofVolume(id))
	require.NoError(t, err)
	require.Equal(t, spec.GetVolumeReplicationInfoResponse_UNKNOWN, got.GetStatus())
	for name, change := range map[string]func(*fsm.ReplicaObservation){
		"not connected": func(seen *fsm.ReplicaObservation) {
			seen.Connection = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
		},
		"synchronising":    func(seen *fsm.ReplicaObservation) { seen.PeerDisk = fsmpb.DiskState_DISK_STATE_INCONSISTENT },
		"its own disk":     func(seen *fsm.ReplicaObservation) { seen.Disk = fsmpb.DiskState_DISK_STATE_DISKLESS },
		"different blocks": func(seen *fsm.ReplicaObservation) { seen.OutOfSync = 4096 },
	} {
		w.cluster.update(func(c *fakeCluster) { c.changeReplicaNow = change })
		got, err := w.info(t, ofVolume(id))
		require.NoError(t, err)
		require.Equal(t, spec.GetVolumeReplicationInfoResponse_DEGRADED, got.GetStatus(), name)
	}
}
