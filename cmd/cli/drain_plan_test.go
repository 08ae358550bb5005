package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path"
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
	return &adminpb.NodesResponse{Index: 9, Nodes: []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true}}}, nil
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

// kubeNodes is an API server whose nodes have no pods: in-kube is a node where nothing of Holdfast runs, and renamed one whose kubelet
// has the host n1.
func kubeNodes(out http.ResponseWriter, req *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	switch req.URL.Path {
	case "/api/v1/nodes/in-kube", "/api/v1/nodes/renamed":
		fmt.Fprintf(out, `{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"uid":"u"}}`, path.Base(req.URL.Path))
	case "/apis/storage.k8s.io/v1/csinodes/renamed":
		fmt.Fprint(out, `{"kind":"CSINode","apiVersion":"storage.k8s.io/v1","spec":{"drivers":[{"name":"csi.holdfast.storage","nodeID":"n1"}]}}`)
	case "/api/v1/nodes", "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets":
		fmt.Fprint(out, `{"items":[]}`)
	default:
		out.WriteHeader(http.StatusNotFound)
		fmt.Fprint(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

func TestDrainPlanOfANodeThatTheLogDoesNotHave(t *testing.T) {
	for name, tc := range map[string]struct {
		node string
		code int
		says string
	}{
		"nothing of Holdfast runs there":  {"in-kube", exit.OK, "drain of node in-kube: 0 at risk, 0 wait, 2 ok (at index 9)"},
		"that is said":                    {"in-kube", exit.OK, "no volume has a copy here or is used here"},
		"a host of another id runs there": {"renamed", exit.Refused, "`holdfast nodes drain-plan n1`"},
		"nobody has it":                   {"n9", exit.Refused, "drain-plan: say what a drain of n9 does: neither Kubernetes nor the log has a node of this name\n"},
		"Kubernetes alone lacks it":       {"n1", exit.Refused, "drain-plan: read node n1: "},
	} {
		t.Run(name, func(t *testing.T) {
			flags := append(serveAdmin(t, &drainWorld{volume: &adminpb.Volume{Phase: "ready"}}), "--kubeconfig", serveKube(t, kubeNodes))
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
