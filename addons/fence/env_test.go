package fence_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	spec "github.com/csi-addons/spec/lib/go/fence"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/addons/fence"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const volume = "hf-00000000-0000-4000-8000-000000000001"

// fakeCluster is the real state machine in memory; its hosts do what a test says.
type fakeCluster struct {
	*fence.Server
	t        testing.TB
	mu       sync.Mutex
	state    *fsm.State
	index    uint64
	site     string
	proposed int
}

// newCluster has the hosts n1 and n2 of site A, and n3 of site B.
func newCluster(t testing.TB, disabled ...string) *fakeCluster {
	t.Helper()
	c := &fakeCluster{t: t, state: fsm.New(), site: "A"}
	c.Server = fence.New(c, disabled...)
	c.ok("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster", IncarnationId: []byte("incarnation-0001"), FeatureLevel: fsm.MaxFeatureLevel,
	}}})
	for node, site := range map[string]string{"n1": "A", "n2": "A", "n3": "B"} {
		c.register(node, site)
	}
	return c
}

func (c *fakeCluster) register(node, site string) {
	c.t.Helper()
	c.ok("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: node, HostId: "host-" + node, BootId: "boot", Site: site, FeatureLevel: fsm.MaxFeatureLevel, Addresses: []string{"fd00::" + node[1:]},
		Pools:       []*fsmpb.Pool{{PoolId: "pool-" + node, Backend: "loopfile", CapacityBytes: 1 << 40}},
		Replication: &fsmpb.Replication{Address: "192.0.2." + node[1:], PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2},
	}}})
}

func (c *fakeCluster) apply(actor string, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	cmd = proto.CloneOf(cmd)
	cmd.RequestId = make([]byte, fsm.RequestIDLen)
	_, _ = rand.Read(cmd.RequestId)
	cmd.ProposedIndex, cmd.Actor, cmd.ProposedAt, cmd.SchemaVersion = c.index-1, actor, time.Now().UnixNano(), fsm.LeastLevel(cmd)
	out := c.state.Apply(c.index, cmd).Outcome
	require.NoError(c.t, c.state.Check())
	return out, fsm.Err(out)
}

func (c *fakeCluster) ok(actor string, cmd *fsmpb.Command) {
	c.t.Helper()
	_, err := c.apply(actor, cmd)
	require.NoError(c.t, err)
}

func (c *fakeCluster) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	c.mu.Lock()
	c.proposed++
	c.mu.Unlock()
	name := "c" + c.site
	c.ok("controller/"+name, &fsmpb.Command{Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{Name: name, MemberId: "member", Site: c.site}}})
	return c.apply("controller/"+name, cmd)
}

func (c *fakeCluster) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	return c.index, c.View(fn)
}

func (c *fakeCluster) View(fn func(*fsm.State) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fn(c.state)
}

func (c *fakeCluster) Site() string                                           { return c.site }
func (c *fakeCluster) Actor() string                                          { return "controller/c" + c.site }
func (c *fakeCluster) WatchVolumes(...fsm.VolumeID) (<-chan struct{}, func()) { return nil, func() {} }
func (c *fakeCluster) WatchSnapshot(fsm.SnapshotID) (<-chan struct{}, func()) { return nil, func() {} }
func (c *fakeCluster) WatchGroup(fsm.GroupSnapshotID) (<-chan struct{}, func()) {
	return nil, func() {}
}

// fenced are the nodes that are fenced.
func (c *fakeCluster) fenced() (nodes []string) {
	_ = c.View(func(s *fsm.State) error {
		for n := range s.Nodes() {
			if n.IsFenced() {
				nodes = append(nodes, string(n.ID))
			}
		}
		return nil
	})
	return nodes
}

// publishedOn1 makes a replicated volume whose replicas on n1 and n2 are up to date, published to n1.
func (c *fakeCluster) publishedOn1() {
	c.t.Helper()
	capability := &fsmpb.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}
	c.ok("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: volume, Name: "pvc", Fingerprint: []byte("f"), Capabilities: []*fsmpb.Capability{capability}, Replicas: 2, Protocol: fsmpb.Protocol_PROTOCOL_C,
		Requisite: []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: "n1"}}}, {Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: "n2"}}}},
	}}})
	for _, node := range []string{"n1", "n2"} {
		c.ok("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
			VolumeId: volume, NodeId: node, HostId: "host-" + node, BootId: "boot", Attach: 1,
		}}})
		c.report(node, &fsmpb.Observation{VolumeId: volume, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	}
	for range 2 {
		for _, node := range []string{"n1", "n2"} {
			c.seen(node, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)
		}
	}
	c.ok("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: volume, NodeId: "n1", Capability: capability}}})
}

// seen reports what the node's host sees of its replica now.
func (c *fakeCluster) seen(node string, connection fsmpb.ConnectionState) {
	c.t.Helper()
	const upToDate = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	x := &fsmpb.ReplicaSeen{BootId: "boot", Attach: 1, Disk: upToDate, Connection: connection, CurrentUuid: 16}
	if connection == fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED {
		x.PeerDisk = upToDate
	}
	_ = c.View(func(s *fsm.State) error {
		v, ok := s.Volume(volume)
		require.True(c.t, ok)
		x.Generation = v.Replication.Generation
		return nil
	})
	c.report(node, &fsmpb.Observation{VolumeId: volume, Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: x}})
}

func (c *fakeCluster) report(node string, o *fsmpb.Observation) {
	c.t.Helper()
	c.ok("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
		NodeId: node, HostId: "host-" + node, BootId: "boot", Observations: []*fsmpb.Observation{o},
	}}})
}

func cidrs(texts ...string) (all []*spec.CIDR) {
	for _, text := range texts {
		all = append(all, &spec.CIDR{Cidr: text})
	}
	return all
}
