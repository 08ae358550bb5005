package controller

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	addonsspec "github.com/csi-addons/spec/lib/go/identity"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// testController is one controller, a cluster of its own.
type testController struct {
	t    *testing.T
	dir  string
	opts *options
	stop context.CancelFunc
	done chan error
}

func newTestController(t *testing.T) *testController {
	b := &testController{t: t, dir: t.TempDir(), done: make(chan error, 1)}
	require.NoError(t, pki.MakeCA(filepath.Join(b.dir, "ca"), "test"))
	cmd := Command()
	require.NoError(t, cmd.ParseFlags(nil))
	b.opts = &options{
		dataDir: filepath.Join(b.dir, "data"), logStore: "wal", site: fsm.DefaultSite, bootstrap: true, segmentSize: 1 << 20, diskReserve: -1,
		heartbeat: 100 * time.Millisecond, election: 100 * time.Millisecond, lease: 50 * time.Millisecond,
		nodeTimeout: time.Hour, drainTimeout: time.Minute, diskHang: time.Minute, journalRetain: 1 << 20,
		raftListen: "127.0.0.1:0", apiListen: "127.0.0.1:0",
	}
	b.opts.Log.Level, b.opts.Log.Format = "info", "json"
	b.opts.MetricsListen, b.opts.CSIEndpoint = "127.0.0.1:0", "unix://"+filepath.Join(b.dir, "c.sock")
	b.opts.Files = b.issue(pki.Controller, "c1")
	return b
}

func (b *testController) issue(role pki.Role, name string) pki.Files {
	files, err := pki.Issue(filepath.Join(b.dir, "ca"), filepath.Join(b.dir, string(role)), pki.Identity{Role: role, Name: name}, time.Hour)
	require.NoError(b.t, err)
	return files
}

// start runs the controller and waits until it serves.
func (b *testController) start() *controller {
	b.t.Helper()
	c, err := prepare(b.t.Context(), b.opts, io.Discard)
	require.NoError(b.t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(b.t, c.open(ctx))
	b.stop = stop
	go func() { b.done <- c.finish(c.serve(ctx)) }()
	b.t.Cleanup(stop)
	require.Eventually(b.t, func() bool { return c.cluster.Ready() == nil }, time.Minute, 10*time.Millisecond)
	return c
}

func (b *testController) stopAndWait() {
	b.t.Helper()
	b.stop()
	select {
	case err := <-b.done:
		require.NoError(b.t, err)
	case <-time.After(time.Minute):
		b.t.Fatal("the controller did not stop")
	}
}

func (b *testController) client(c *controller, role pki.Role, name string) *admin.Client {
	creds, err := pki.Load(b.issue(role, name))
	require.NoError(b.t, err)
	return admin.NewClient([]string{c.apiListener.Addr().String()}, creds.Client(pki.Controller))
}

func TestAControllerServesEveryListenerAndComesBack(t *testing.T) {
	b := newTestController(t)
	var cluster string
	for range 2 { // the second time on the same data
		c := b.start()
		viewer := b.client(c, pki.Viewer, "bob")
		var resp *adminpb.StatusResponse
		require.Eventually(t, func() bool { // a member that answers late is shown without its hash
			var err error
			resp, _, err = viewer.Status(t.Context())
			return err == nil && len(resp.GetMembers()) == 1 && len(resp.GetMembers()[0].GetStateHash()) == 32
		}, time.Minute, 10*time.Millisecond)
		require.Equal(t, "c1", resp.GetLeader())
		require.Equal(t, resp.GetIndex(), resp.GetMembers()[0].GetHashIndex())
		if cluster != "" {
			require.Equal(t, cluster, resp.GetClusterId())
		}
		cluster = resp.GetClusterId()
		b.checkCSI()
		b.checkHealth(c)
		b.stopAndWait()
	}
}

// TestAControllerThatIsStoppedAtOnceEndsWell: a stop before the listeners are served is a graceful stop.
func TestAControllerThatIsStoppedAtOnceEndsWell(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what was started last runs first
	b := newTestController(t)
	ctx, stop := context.WithCancel(t.Context())
	c, err := prepare(b.t.Context(), b.opts, io.Discard)
	require.NoError(t, err)
	require.NoError(t, c.open(ctx))
	stop()
	require.NoError(t, c.finish(c.serve(ctx)))
}

// checkCSI checks the services of the socket: Identity and Controller, never Node (S20).
func (b *testController) checkCSI() {
	b.t.Helper()
	conn, err := grpc.NewClient(b.opts.CSIEndpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, conn.Close()) }()
	probe, err := csispec.NewIdentityClient(conn).Probe(b.t.Context(), &csispec.ProbeRequest{})
	require.NoError(b.t, err)
	require.True(b.t, probe.GetReady().GetValue())
	_, err = csispec.NewControllerClient(conn).ListVolumes(b.t.Context(), &csispec.ListVolumesRequest{})
	require.NoError(b.t, err)
	named, err := addonsspec.NewIdentityClient(conn).GetIdentity(b.t.Context(), &addonsspec.GetIdentityRequest{})
	require.NoError(b.t, err)
	require.Equal(b.t, "csi.holdfast.storage", named.GetName())
	_, err = csispec.NewNodeClient(conn).NodeGetInfo(b.t.Context(), &csispec.NodeGetInfoRequest{})
	require.Equal(b.t, codes.Unimplemented, status.Code(err))
}

func (b *testController) checkHealth(c *controller) {
	b.t.Helper()
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/debug/pprof/": "404"} {
		require.Contains(b.t, b.get(c, path), want, path)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(b.get(c, "/metrics")))
	require.NoError(b.t, err)
	for _, name := range []string{
		"holdfast_build_info", "holdfast_csi_calls_total", "holdfast_api_calls_total", "holdfast_csi_call_duration_seconds",
		"holdfast_raft_state", "holdfast_raft_apply_seconds", "holdfast_raft_fsync_seconds", "holdfast_cluster_nodes", "go_goroutines",
		"holdfast_certificate_expiry_timestamp_seconds",
	} {
		require.Contains(b.t, families, name)
	}
}

func (b *testController) get(c *controller, path string) string {
	b.t.Helper()
	resp, err := http.Get("http://" + c.health.Addr() + path)
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return string(text)
}

func TestWhatEachRoleMayDoOnTheAPI(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	read := func(ctx context.Context, api adminpb.AdminClient) error {
		_, err := api.Nodes(ctx, &adminpb.NodesRequest{})
		return err
	}
	change := func(ctx context.Context, api adminpb.AdminClient) error {
		_, err := api.CancelOperation(ctx, &adminpb.OperationRequest{Id: 7})
		return err
	}
	history := func(ctx context.Context, api adminpb.AdminClient) error {
		in, err := api.History(ctx, &adminpb.HistoryRequest{})
		if err == nil {
			_, err = in.Recv()
		}
		return err
	}
	for name, tc := range map[string]struct {
		role pki.Role
		call func(context.Context, adminpb.AdminClient) error
		want codes.Code
	}{
		"an admin reads":               {pki.Admin, read, codes.OK},
		"an admin changes":             {pki.Admin, change, codes.NotFound}, // it came through
		"a viewer reads":               {pki.Viewer, read, codes.OK},
		"a viewer reads history":       {pki.Viewer, history, codes.OK},
		"a viewer changes nothing":     {pki.Viewer, change, codes.PermissionDenied},
		"a node does not read":         {pki.Node, read, codes.PermissionDenied},
		"a node does not read history": {pki.Node, history, codes.PermissionDenied},
		"a node changes nothing":       {pki.Node, change, codes.PermissionDenied},
		"a controller changes nothing": {pki.Controller, change, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			client := b.client(c, tc.role, "x")
			for range 2 {
				require.Equal(t, tc.want, status.Code(client.TryEach(t.Context(), tc.call)))
			}
		})
	}
}

func TestOperationsAreCountedByKindAndOutcome(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	cluster := csiCluster{c.cluster, "controller/c1", "default"}
	propose := func(cmd *fsmpb.Command) {
		t.Helper()
		_, err := cluster.Propose(t.Context(), cmd)
		require.NoError(t, err)
	}
	nodeSays := func(cmd *fsmpb.Command) {
		t.Helper()
		cmd.Actor = "node/n1"
		_, err := c.cluster.Propose(t.Context(), cmd)
		require.NoError(t, err)
	}
	const id = "hf-00000000-0000-4000-8000-000000000001"
	nodeSays(&fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h", BootId: "b", FeatureLevel: fsm.MaxFeatureLevel, Pools: []*fsmpb.Pool{{PoolId: "p", Backend: "loopfile", CapacityBytes: 1 << 40}}}}})
	propose(&fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: "v", Fingerprint: []byte("f"), Capabilities: []*fsmpb.Capability{{Mode: 1, FsType: "ext4"}}}}})
	require.Eventually(t, func() bool {
		return strings.Contains(b.get(c, "/metrics"), `holdfast_operations{kind="create",state="running"} 1`)
	}, time.Minute, 10*time.Millisecond)
	nodeSays(&fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "h", BootId: "b",
		Observations: []*fsmpb.Observation{{VolumeId: id, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}}}}}})
	require.Eventually(t, func() bool {
		text := b.get(c, "/metrics")
		return strings.Contains(text, `holdfast_operations_ended_total{kind="create",outcome="done"} 1`) &&
			strings.Contains(text, `holdfast_operations{kind="create",state="running"} 0`)
	}, time.Minute, 10*time.Millisecond)
	require.Contains(t, b.get(c, "/metrics"), `holdfast_cluster_pool_volumes{node="n1",pool="p"} 1`)
}

func TestAControllerThatCannotStartLeavesNothingOpen(t *testing.T) {
	b := newTestController(t)
	b.opts.CSIEndpoint = "unix:///nowhere/c.sock"
	for range 2 {
		err := run(t.Context(), b.opts, io.Discard)
		require.ErrorContains(t, err, "/nowhere/c.sock")
		require.Equal(t, exit.Unavailable, exit.Code(err))
	}
}
