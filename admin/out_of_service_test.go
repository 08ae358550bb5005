package admin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S170: the answer goes from refused, over taken out and not proven, to proven with its witnesses, and back into service.
func TestS170_ANodeGoesOutOfServiceAndReturns(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.publish(id)
	ask := func() *adminpb.OutOfServiceResponse {
		resp, err := w.server.OutOfService(t.Context(), &adminpb.OutOfServiceRequest{Node: "n1"})
		require.NoError(t, err)
		return resp
	}
	set := func(req *adminpb.SetOutOfServiceRequest, want codes.Code) {
		for range 2 {
			req.Node = "n1"
			_, err := w.server.SetOutOfService(t.Context(), req)
			require.Equal(t, want, status.Code(err), err)
		}
	}
	take := &adminpb.SetOutOfServiceRequest{HostId: "host-n1", Reason: "it lost its power"}
	set(take, codes.FailedPrecondition)
	require.Contains(t, ask().GetRefused()[0], "not recorded as unreachable")
	w.setUnreachable("n1")
	require.Empty(t, ask().GetRefused())
	set(take, codes.OK)
	since := ask().GetSince()
	require.NotZero(t, since)
	require.False(t, ask().GetProven())
	require.Len(t, ask().GetWaits(), 1)
	w.observeReplica("n2", id, fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE)
	proven := ask()
	require.True(t, proven.GetProven())
	require.Equal(t, "n2", proven.GetEnded()[0].GetWitness())
	require.Equal(t, since, proven.GetEnded()[0].GetGeneration())
	set(&adminpb.SetOutOfServiceRequest{Returned: since}, codes.FailedPrecondition)
	w.register("n1")
	require.NotEmpty(t, ask().GetReturnWaits())
	w.observeReplica("n1", id, fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE)
	w.reportReplica("n1", id, unstagedOf(w.volume(id)))
	require.Empty(t, ask().GetReturnWaits())
	set(&adminpb.SetOutOfServiceRequest{Returned: since}, codes.OK)
	require.Zero(t, ask().GetSince())
	var text bytes.Buffer
	require.NoError(t, Print(&text, "table", proven))
	require.Contains(t, text.String(), "NOTHING that it writes is acknowledged")
}

// unstagedOf is the report that the volume's teardown is done.
func unstagedOf(v *fsm.Volume) *fsmpb.Observation {
	return &fsmpb.Observation{Epoch: v.Teardowns[0].Epoch.Proto(), Sequence: v.Replica("host-n1").Sequence + 1, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}}
}

func TestOutOfServiceRequestsThatAreRefused(t *testing.T) {
	w := newReplicatedEnv(t, "n1")
	for name, tc := range map[string]struct {
		req  *adminpb.SetOutOfServiceRequest
		code codes.Code
	}{
		"neither":     {&adminpb.SetOutOfServiceRequest{Node: "n1"}, codes.InvalidArgument},
		"both":        {&adminpb.SetOutOfServiceRequest{Node: "n1", HostId: "host-n1", Returned: 3}, codes.InvalidArgument},
		"no node":     {&adminpb.SetOutOfServiceRequest{Node: "n9", HostId: "x"}, codes.NotFound},
		"other host":  {&adminpb.SetOutOfServiceRequest{Node: "n1", HostId: "x"}, codes.FailedPrecondition},
		"no return":   {&adminpb.SetOutOfServiceRequest{Node: "n9", Returned: 3}, codes.NotFound},
		"in service":  {&adminpb.SetOutOfServiceRequest{Node: "n1", Returned: 3}, codes.OK},
		"nothing ran": {&adminpb.SetOutOfServiceRequest{Node: "n1", HostId: "host-n1"}, codes.FailedPrecondition},
	} {
		for range 2 {
			_, err := w.server.SetOutOfService(t.Context(), tc.req)
			require.Equal(t, tc.code, status.Code(err), "%s: %v", name, err)
		}
	}
	_, err := w.server.OutOfService(t.Context(), &adminpb.OutOfServiceRequest{Node: "n9"})
	require.Equal(t, codes.NotFound, status.Code(err))
	w.quorum = errNoQuorum
	_, err = w.server.OutOfService(t.Context(), &adminpb.OutOfServiceRequest{Node: "n1"})
	require.Equal(t, codes.Unavailable, status.Code(err))
}
