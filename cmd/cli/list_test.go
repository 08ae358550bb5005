package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// fakeLists serves lists. Volumes come two to a page.
type fakeLists struct {
	adminpb.UnimplementedAdminServer
	mu      sync.Mutex
	volumes []*adminpb.Volume
	asked   []*adminpb.VolumesRequest
}

func (f *fakeLists) set(volumes ...*adminpb.Volume) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.volumes = volumes
}

func (f *fakeLists) Volumes(_ context.Context, req *adminpb.VolumesRequest) (*adminpb.VolumesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, proto.CloneOf(req))
	resp := &adminpb.VolumesResponse{Index: 9}
	for _, v := range f.volumes {
		if v.GetId() <= req.GetAfter() {
			continue
		}
		if len(resp.GetVolumes()) == 2 {
			resp.Next = resp.GetVolumes()[1].GetId()
			break
		}
		resp.Volumes = append(resp.Volumes, v)
	}
	return resp, nil
}

func (f *fakeLists) Nodes(context.Context, *adminpb.NodesRequest) (*adminpb.NodesResponse, error) {
	return &adminpb.NodesResponse{Index: 9, Nodes: []*adminpb.Node{
		{Id: "n1", State: "reachable", Adopted: true, HostId: "h1", BootId: "boot-1", Pools: []*adminpb.Pool{
			{Id: "p1", Backend: "lvm", CapacityBytes: 1 << 30, Measured: true, FreeBytes: 9 << 20},
			{Id: "p2", Backend: "loopfile", CapacityBytes: 1 << 31, Measured: true, FreeBytes: 10 << 20, Condition: "90 % full"}}},
		{Id: "n10", State: "unreachable", Adopted: true},
		{Id: "n2", State: "reachable", Adopted: true, Cordoned: true},
	}}, nil
}

func (f *fakeLists) Operations(context.Context, *adminpb.OperationsRequest) (*adminpb.OperationsResponse, error) {
	return &adminpb.OperationsResponse{Operations: []*adminpb.Operation{{Id: "op-12", Kind: "create", State: "running", Name: "pvc-1"}}}, nil
}

func (f *fakeLists) Status(context.Context, *adminpb.StatusRequest) (*adminpb.StatusResponse, error) {
	return &adminpb.StatusResponse{Leader: "c1", Members: []*adminpb.Member{
		{Id: "c1", MemberId: "m-1", Role: "leader", Reachable: true, StateHash: bytes.Repeat([]byte{0xab}, 32), Address: "c1:9800"}}}, nil
}

func (f *fakeLists) Snapshots(context.Context, *adminpb.SnapshotsRequest) (*adminpb.SnapshotsResponse, error) {
	return nil, status.Error(codes.PermissionDenied, "not you")
}

func volume(n int, size int64, nodes ...string) *adminpb.Volume {
	v := &adminpb.Volume{Id: fmt.Sprintf("hv-%02d", n), Name: fmt.Sprintf("pvc-%d", n), SizeBytes: size, Phase: "ready"}
	for _, node := range nodes {
		v.Replicas = append(v.Replicas, &adminpb.Replica{Node: node, PoolId: "pool-" + node, State: "present"})
	}
	return v
}

// someVolumes are more than two pages.
func someVolumes() []*adminpb.Volume {
	degraded := volume(4, 900<<20, "n1", "n2")
	degraded.Replication = &adminpb.Replication{Wanted: 2, Minor: 1004, Generation: 77}
	degraded.Replicas[0].UpToDate = true
	failed := volume(5, 1<<30, "n2")
	failed.Phase, failed.Reason = "failed", "no room"
	return []*adminpb.Volume{volume(1, 10<<30, "n1"), volume(2, 9<<30, "n2"), volume(3, 1<<20, "n1", "n10"), degraded, failed}
}

// firstCells are the first cells of a table's rows, without its header and foot.
func firstCells(table string) string {
	var cells []string
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines[1 : len(lines)-1] {
		cells = append(cells, strings.Fields(line)[0])
	}
	return strings.Join(cells, " ")
}

func TestListsAreSortedAndSelectedOverAllPages(t *testing.T) {
	f := &fakeLists{volumes: someVolumes()}
	flags := f.serve(t)
	for args, want := range map[string]string{
		"volumes":                                        "hv-01 hv-02 hv-03 hv-04 hv-05",
		"volumes --sort-by -size":                        "hv-01 hv-02 hv-05 hv-04 hv-03",
		"volumes --sort-by phase,size":                   "hv-05 hv-03 hv-04 hv-02 hv-01",
		"volumes --node n1":                              "hv-01 hv-03 hv-04",
		"volumes --node n1 --node n2":                    "hv-04",
		"volumes --node n10,n2 --sort-by -id":            "hv-05 hv-04 hv-03 hv-02",
		"volumes list --pool pool-n2 --phase ready":      "hv-02 hv-04",
		"volumes --condition degraded":                   "hv-04",
		"volumes --condition abnormal":                   "hv-05",
		"volumes --condition unpublished --phase failed": "hv-05",
		"volumes --node nowhere":                         "",
		"volumes replicas --condition not-up-to-date":    "hv-04",
		"nodes --sort-by node":                           "n1 n1 n2 n10",
		"nodes --sort-by -free":                          "n1 n1 n10 n2", // the others as they came: their free space is not known
		"nodes --condition abnormal":                     "n1 n10",
		"nodes --pool p1":                                "n1",
		"nodes --state unreachable":                      "n10",
		"operations --kind create --state running":       "op-12",
		"operations --kind delete":                       "",
	} {
		for range 2 {
			var stdout, stderr bytes.Buffer
			require.Zero(t, Main(append(strings.Fields(args), flags...), &stdout, &stderr), "%s: %s", args, stderr.String())
			require.Equal(t, want, firstCells(stdout.String()), args)
		}
	}
	require.Contains(t, fmt.Sprint(f.asked), `node:"n1"`, "the server selects, too")
}

// A volume's namespace is that of its claim, and the flag is kubectl's.
func TestVolumesOfANamespaceAreThoseOfItsClaims(t *testing.T) {
	volumes := someVolumes()
	volumes[1].Claim = &adminpb.Claim{Name: "data", Namespace: "shop"}
	volumes[3].Claim = &adminpb.Claim{Name: "data", Namespace: "bank"}
	flags := (&fakeLists{volumes: volumes}).serve(t)
	for args, want := range map[string]string{
		"volumes -n shop":                     "hv-02",
		"volumes list --namespace shop":       "hv-02",
		"volumes -n shop,bank --sort-by size": "hv-04 hv-02",
		"volumes -n shop --node n1":           "",
		"volumes replicas -n bank":            "hv-04 hv-04",
		"volumes replicas -n shop":            "",
		"volumes -n nowhere":                  "",
	} {
		var stdout, stderr bytes.Buffer
		require.Zero(t, Main(append(strings.Fields(args), flags...), &stdout, &stderr), "%s: %s", args, stderr.String())
		require.Equal(t, want, firstCells(stdout.String()), args)
	}
}

func TestJSONIsSortedAndSelectedAsTheTableIs(t *testing.T) {
	flags := (&fakeLists{volumes: someVolumes()}).serve(t)
	var stdout, stderr bytes.Buffer
	require.Zero(t, Main(append([]string{"volumes", "--node", "n1", "--sort-by", "size", "-o", "json"}, flags...), &stdout, &stderr), stderr.String())
	var answer struct {
		Index   uint64
		Volumes []struct{ ID string }
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &answer))
	require.Equal(t, []struct{ ID string }{{"hv-03"}, {"hv-04"}, {"hv-01"}}, answer.Volumes)
	stdout.Reset()
	require.Zero(t, Main(append([]string{"volumes", "--node", "nowhere", "-o", "json"}, flags...), &stdout, &stderr), stderr.String())
	require.Contains(t, stdout.String(), `"volumes": []`)
}

func TestWideHasMoreColumnsAndNothingShortened(t *testing.T) {
	flags := (&fakeLists{volumes: someVolumes()}).serve(t)
	for args, more := range map[string][]string{
		"volumes":          {"DEVICE", "/dev/drbd1004", "n1/pool-n1 present, up to date; n2/pool-n2 present, not up to date", "GENERATION"},
		"volumes replicas": {"PEER DISK", "pool-n2"},
		"nodes":            {"BOOT", "boot-1", "loopfile"},
		"operations":       {"DEADLINE"},
		"status":           {strings.Repeat("ab", 32), "c1:9800"},
	} {
		outputs := map[string]string{}
		for _, format := range []string{"table", "wide"} {
			var stdout, stderr bytes.Buffer
			require.Zero(t, Main(append(append(strings.Fields(args), "-o", format), flags...), &stdout, &stderr), stderr.String())
			outputs[format] = stdout.String()
		}
		for _, text := range more {
			require.Contains(t, outputs["wide"], text, args)
		}
		require.NotContains(t, outputs["table"], more[0], args)
	}
}

func TestListsRefuseWhatThereIsNotInOneLine(t *testing.T) {
	flags := (&fakeLists{}).serve(t)
	for args, want := range map[string]string{
		"volumes --sort-by weight":       `there is no column "weight": choose from id, name, size, phase`,
		"nodes --sort-by -weight":        `there is no column "weight": choose from node, state`,
		"volumes --condition well":       `there is no condition "well": choose from abnormal, published`,
		"volumes --phase asleep":         `there is no phase "asleep": choose from creating, ready, deleting, failed`,
		"nodes --state asleep":           `there is no state "asleep": choose from reachable, unreachable, lost`,
		"volumes --node=":                `--node: a value is empty`,
		"volumes --namespace=":           `--namespace: a value is empty`,
		"volumes --watch --interval 1ms": `--interval 1ms is too short`,
		"volumes --watch -o yaml":        `choose -o table, wide or json`,
		"volumes -o xml":                 `choose table, wide, json or yaml`,
		"groups --node n1":               `unknown flag: --node`,
	} {
		for range 2 {
			var stdout, stderr bytes.Buffer
			require.Equal(t, 2, Main(append(strings.Fields(args), flags...), &stdout, &stderr), args)
			require.Contains(t, stderr.String(), want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
			require.Empty(t, stdout.String())
		}
	}
}

// TestADaemonsEnvironmentSelectsNothing: on a host, HOLDFAST_POOL is the pool that its node uses.
func TestADaemonsEnvironmentSelectsNothing(t *testing.T) {
	t.Setenv("HOLDFAST_POOL", "lvm:vg/pool")
	t.Setenv("HOLDFAST_NODE", "n1")
	flags := (&fakeLists{volumes: someVolumes()}).serve(t)
	var stdout, stderr bytes.Buffer
	require.Zero(t, Main(append([]string{"volumes"}, flags...), &stdout, &stderr), stderr.String())
	require.Equal(t, "hv-01 hv-02 hv-03 hv-04 hv-05", firstCells(stdout.String()))
}

func (f *fakeLists) serve(t *testing.T) []string { t.Helper(); return serveAdmin(t, f) }
