package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// drainWorld is a cluster with one volume.
type drainWorld struct {
	adminpb.UnimplementedAdminServer
	volume *adminpb.Volume
}

func (w *drainWorld) AtRisk(_ context.Context, req *adminpb.AtRiskRequest) (*adminpb.AtRiskResponse, error) {
	if req.GetNodes()[0] != "n1" {
		return nil, status.Error(codes.NotFound, "no such host")
	}
	return &adminpb.AtRiskResponse{Index: 9}, nil
}

func (*drainWorld) Nodes(_ context.Context, req *adminpb.NodesRequest) (*adminpb.NodesResponse, error) {
	if !req.GetStopReasons() {
		return nil, status.Error(codes.InvalidArgument, "nobody asked why a node must not stop")
	}
	return &adminpb.NodesResponse{Nodes: []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true}}}, nil
}

func (*drainWorld) Members(context.Context, *adminpb.MembersRequest) (*adminpb.MembersResponse, error) {
	return &adminpb.MembersResponse{}, nil
}

func (w *drainWorld) Volumes(context.Context, *adminpb.VolumesRequest) (*adminpb.VolumesResponse, error) {
	return &adminpb.VolumesResponse{Volumes: []*adminpb.Volume{w.volume}}, nil
}

func TestDrainPlanSaysWhetherSomethingWaits(t *testing.T) {
	used := []*adminpb.Publication{{Node: "n1"}}
	for name, tc := range map[string]struct {
		node         string
		publications []*adminpb.Publication
		code         int
		says         string
	}{
		"in use":          {"n1", used, exit.Refused, "its only copy is here: who uses it cannot use it on another host"},
		"unused":          {"n1", nil, exit.OK, "drain of node n1: 0 at risk, 0 wait, 1 ok (at index 9)"},
		"an unknown node": {"n9", nil, exit.Refused, "say what a drain of n9 does: no such host"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &drainWorld{volume: &adminpb.Volume{Id: "hf-1", Phase: "ready", Replicas: []*adminpb.Replica{{Node: "n1"}}, Publications: tc.publications}}
			flags := serveAdmin(t, w)
			for range 2 {
				var out bytes.Buffer
				require.Equal(t, tc.code, Main(append([]string{"nodes", "drain-plan", tc.node}, flags...), &out, &out), out.String())
				require.Contains(t, out.String(), tc.says)
			}
		})
	}
}

func TestCertifyNeedsAFileForItsReport(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, exit.Usage, Main([]string{"certify", "--yes", "--dir", t.TempDir()}, &out, &out))
	require.Contains(t, out.String(), "--out")
}
