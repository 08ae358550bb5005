package admin

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// fillWithVolumes creates a cluster with local volumes, and with replicated ones that lack a replica, all
// on the node n1.
func fillWithVolumes(t testing.TB, local, lacking int) *env {
	w := &env{state: fsm.New(), items: map[fsm.NodeID][]Item{}, unreachable: map[fsm.NodeID]error{}, asked: func() {}}
	w.server = NewServer(Options{Cluster: w, Hosts: w, Name: "c1", Actor: func(context.Context) (string, error) { return "viewer/bob", nil }, Error: grpcError})
	do := func(actor string, cmd *fsmpb.Command) {
		w.index++
		cmd.Actor, cmd.RequestId, cmd.ProposedIndex = actor, fmt.Appendf(nil, "%016d", w.index), w.index-1
		cmd.SchemaVersion = fsm.LeastLevel(cmd)
		require.NoError(t, fsm.Err(w.state.Apply(w.index, cmd).Outcome))
	}
	do("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{ClusterId: "cluster-1", IncarnationId: make([]byte, 16), FeatureLevel: fsm.MaxFeatureLevel}}})
	for i, node := range []string{"n1", "n2", "n3"} {
		do("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: node, HostId: "host-" + node, BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel,
			Replication: &fsmpb.Replication{Address: fmt.Sprintf("192.0.2.%d", i+1), PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2},
			Pools:       []*fsmpb.Pool{{PoolId: "pool-" + node, Backend: "loopfile", CapacityBytes: 1 << 50, OvercommitPercent: 2000}}}}})
	}
	says := func(node, id string, facts ...*fsmpb.Observation) {
		for _, o := range facts {
			o.VolumeId = id
		}
		do("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: "boot", Observations: facts}}})
	}
	made := func() *fsmpb.Observation {
		return &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 20}}}
	}
	for n := range local + lacking {
		id := fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n+1)
		c := &fsmpb.CreateVolume{VolumeId: id, Name: fmt.Sprintf("pvc-%d", n), Fingerprint: []byte("f"), RequiredBytes: 1 << 20, Capabilities: []*fsmpb.Capability{capability()},
			Requisite: []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: "n1"}}}}}
		if n < local {
			do("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: c}})
			says("n1", id, made())
			continue
		}
		c.Replicas = 2
		do("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: c}})
		v, _ := w.state.Volume(fsm.VolumeID(id))
		for _, r := range v.Replicas {
			do("node/"+string(r.Node), &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{VolumeId: id, NodeId: string(r.Node), HostId: string(r.Host), BootId: "boot", Attach: 1}}})
			says(string(r.Node), id, made())
		}
		for range 2 {
			for _, r := range v.Replicas {
				v, _ = w.state.Volume(v.ID)
				seen := fsm.ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, PeerDisk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, Connection: connected, UUID: 7}
				seen.Boot, seen.Attachment, seen.Generation = "boot", 1, v.Replication.Generation
				says(string(r.Node), id, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}})
			}
		}
	}
	return w
}

func evictN1() *adminpb.PlanRequest { return &adminpb.PlanRequest{Verb: "evict", Node: "n1"} }

// S70: a plan bounds the commands that it tries, the steps that it lists and its answer, and counts the rest.
func TestS70_PlanOfManyVolumesIsBounded(t *testing.T) {
	w := fillWithVolumes(t, 1500, maxTodo+200)
	before := w.state.Hash()
	resp, err := w.server.Plan(t.Context(), evictN1())
	require.NoError(t, err)
	require.EqualValues(t, 1500, resp.GetBlocked(), "local ones are listed in part, and do not keep the others from being looked at")
	require.Greater(t, resp.GetTodo(), uint64(maxTodo))
	require.False(t, resp.GetDone())
	require.LessOrEqual(t, len(resp.GetSteps()), 3*maxTodo+3)
	require.EqualValues(t, resp.GetTodo()+resp.GetBlocked()+resp.GetWaiting(), uint64(len(resp.GetSteps()))+resp.GetMore())
	require.Less(t, proto.Size(resp), 1<<20, "gRPC's limit is 4 MiB")
	require.Equal(t, before, w.state.Hash())
	var out bytes.Buffer
	require.NoError(t, Print(&out, "table", resp))
	require.Contains(t, out.String(), fmt.Sprintf("and %s more\n", groupDigits(resp.GetMore())))
	require.Equal(t, []string{"7", "123", "1,234", "12,345", "1,234,567"}, []string{groupDigits(7), groupDigits(123), groupDigits(1234), groupDigits(12345), groupDigits(1234567)})
}

// S70: steps that one call does not carry out are left to the next, until nothing is left to do.
func TestS70_LongPlanIsCarriedOutInParts(t *testing.T) {
	w := fillWithVolumes(t, 0, maxTodo+200)
	w.server.Actor = func(context.Context) (string, error) { return "admin/alice", nil }
	req := evictN1()
	req.HostId = "host-n1"
	for left := ^uint64(0); left > 0; {
		resp, err := w.server.CarryOut(t.Context(), req)
		require.NoError(t, err)
		require.Less(t, resp.GetTodo(), left)
		require.Zero(t, resp.GetBlocked())
		left = resp.GetTodo()
	}
	for v := range w.state.Volumes("") {
		require.Nil(t, v.ActiveReplica("host-n1"))
		require.Len(t, v.ActiveReplicas(), 2)
	}
}

// S70, S118: the loss of a host with many volumes is written in batches by a sweep; a plan covers all of
// them, for its own loss and while an earlier loss's sweep is not finished.
func TestS70_ReplacementPlanCoversEveryVolume(t *testing.T) {
	const volumes = 400
	w := fillWithVolumes(t, 0, volumes)
	req := &adminpb.PlanRequest{Verb: "replace", Node: "n1", EvenIfReachable: true}
	resp, err := w.server.Plan(t.Context(), req)
	require.NoError(t, err)
	require.EqualValues(t, 1+volumes, resp.GetTodo(), "%s", resp.GetSummary())
	w.index++
	lose := &fsmpb.Command{Actor: "admin/alice", RequestId: fmt.Appendf(nil, "%016d", w.index), ProposedIndex: w.index - 1,
		Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"}}}
	lose.SchemaVersion = fsm.LeastLevel(lose)
	require.NoError(t, fsm.Err(w.state.Apply(w.index, lose).Outcome))
	require.NotEmpty(t, w.state.Cluster().Sweeps, "else this test shows nothing")
	resp, err = w.server.Plan(t.Context(), req)
	require.NoError(t, err)
	require.EqualValues(t, volumes, resp.GetTodo(), "%s", resp.GetSummary())
}

// S70: the number of concurrent plans is bounded; a viewer waits and is refused, and an admin does not
// wait for viewers.
func TestS70_ConcurrentPlansAreBounded(t *testing.T) {
	before := planTimeout
	planTimeout = 10 * time.Millisecond
	defer func() { planTimeout = before }()
	w := newEnv(t, "n1")
	viewer, free := "viewer/bob", make(chan struct{})
	var begun, ended sync.WaitGroup
	block := &blockingCluster{Cluster: w, started: &begun, release: free}
	w.server.Cluster = block
	w.server.Actor = func(context.Context) (string, error) { return viewer, nil }
	begun.Add(maxPlans)
	for range maxPlans {
		ended.Go(func() {
			_, err := w.server.Plan(t.Context(), evictN1())
			require.NoError(t, err)
		})
	}
	begun.Wait()
	_, err := w.server.Plan(t.Context(), evictN1())
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "ask again later")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	planTimeout = time.Hour
	_, err = w.server.Plan(ctx, evictN1())
	require.Equal(t, codes.Canceled, status.Code(err))

	close(free)
	ended.Wait()
	viewer = "admin/alice"
	for range maxPlans {
		w.server.plans <- struct{}{} // as many as viewers may make
	}
	begun.Add(1)
	_, err = w.server.Plan(t.Context(), evictN1())
	require.NoError(t, err)
}

// blockingCluster is a cluster whose reads block.
type blockingCluster struct {
	Cluster
	started *sync.WaitGroup
	release chan struct{}
	mu      sync.Mutex
}

func (b *blockingCluster) Fork() *fsm.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Cluster.Fork()
}

func (b *blockingCluster) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	b.started.Done()
	<-b.release
	return b.Cluster.Read(ctx, fn)
}

// BenchmarkPlan measures a viewer's plan of a node with 200,000 volumes.
func BenchmarkPlan(b *testing.B) {
	w := fillWithVolumes(b, 180_000, 20_000)
	for _, verb := range []string{"drain", "evict", "lost", "replace"} {
		b.Run(verb, func(b *testing.B) {
			b.ReportAllocs()
			var longest time.Duration
			var held uint64
			for range b.N {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				begin := time.Now()
				resp, err := w.server.Plan(b.Context(), &adminpb.PlanRequest{Verb: verb, Node: "n1", EvenIfReachable: true})
				longest = max(longest, time.Since(begin))
				runtime.ReadMemStats(&after)
				require.NoError(b, err)
				require.True(b, strings.HasPrefix(resp.GetSummary(), verb))
				held = max(held, after.TotalAlloc-before.TotalAlloc)
			}
			b.ReportMetric(float64(longest.Milliseconds()), "ms-longest")
			b.ReportMetric(float64(held)/(1<<20), "MiB-allocated")
		})
	}
}

// S70: a verification reads the whole journal, so one runs at a time.
func TestOneVerificationOfTheHistoryRuns(t *testing.T) {
	w := newEnv(t, "n1")
	w.server.verifying <- struct{}{}
	for range 2 {
		_, err := w.server.VerifyHistory(t.Context(), &adminpb.VerifyHistoryRequest{})
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
	}
	<-w.server.verifying
	for range 2 {
		_, err := w.server.VerifyHistory(t.Context(), &adminpb.VerifyHistoryRequest{})
		require.NoError(t, err)
	}
}
