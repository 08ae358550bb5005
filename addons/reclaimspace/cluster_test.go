package reclaimspace_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	byController = "controller/c1"
	byNode       = "node/n1"
)

// testCluster is the real state machine in memory, with one host whose part the test plays.
type testCluster struct {
	t  *testing.T
	id fsm.VolumeID

	mu       sync.Mutex
	state    *fsm.State
	index    uint64
	sequence uint64
	changed  chan struct{}
	onBegin  func() // called when a reclaim was begun or joined
	facts    func(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (executor.VolumeFacts, error)
}

// newTestCluster has one volume that was formatted and is not published.
func newTestCluster(t *testing.T) *testCluster {
	c := &testCluster{t: t, id: fsm.VolumeIDFrom(uuid.New()), state: fsm.New(), changed: make(chan struct{}, 100)}
	c.must(byController, &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{ClusterId: "cluster", IncarnationId: make([]byte, 16), FeatureLevel: fsm.MaxFeatureLevel}}})
	c.must(byNode, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h1", BootId: "b1", FeatureLevel: fsm.MaxFeatureLevel,
		Pools: []*fsmpb.Pool{{PoolId: "pool", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}},
	}}})
	c.must(byController, &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(c.id), Name: "v", Fingerprint: make([]byte, 32), RequiredBytes: 1 << 30, Replicas: 1, Capabilities: []*fsmpb.Capability{capability()},
	}}})
	c.report(fsm.Epoch{}, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	epoch := c.publish()
	c.stage(epoch, "/staging")
	c.report(epoch, &fsmpb.Observation{Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: "ext4", FsUuid: "u"}}})
	c.report(epoch, &fsmpb.Observation{Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	c.must(byController, &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(c.id)}}})
	return c
}

func capability() *fsmpb.Capability {
	return &fsmpb.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}
}

func (c *testCluster) publish() fsm.Epoch {
	return fsm.EpochFrom(c.must(byController, &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
		VolumeId: string(c.id), NodeId: "n1", Capability: capability(),
	}}}).GetEpoch())
}

func (c *testCluster) stage(epoch fsm.Epoch, path string) {
	c.must(byNode, &fsmpb.Command{Body: &fsmpb.Command_StageVolume{StageVolume: &fsmpb.StageVolume{
		VolumeId: string(c.id), NodeId: "n1", HostId: "h1", BootId: "b1", Epoch: epoch.Proto(), StagingPath: path, Capability: capability(), FsUuid: "u", Sequence: c.next(),
	}}})
}

func (c *testCluster) next() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	return c.sequence
}

func (c *testCluster) report(epoch fsm.Epoch, ob *fsmpb.Observation) {
	ob.VolumeId, ob.Epoch, ob.Sequence = string(c.id), epoch.Proto(), c.next()
	c.must(byNode, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "h1", BootId: "b1", Observations: []*fsmpb.Observation{ob}}}})
}

// doReclaim is the host's part.
func (c *testCluster) doReclaim(f *fsmpb.Reclaimed) {
	epoch := c.publication().Epoch
	c.stage(epoch, fsm.ReclaimPath)
	c.report(epoch, &fsmpb.Observation{Fact: &fsmpb.Observation_Reclaimed{Reclaimed: f}})
	c.report(epoch, &fsmpb.Observation{Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
}

func (c *testCluster) publication() *fsm.Publication {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, _ := c.state.Volume(c.id)
	return v.Publication("n1")
}

func (c *testCluster) must(actor string, cmd *fsmpb.Command) *fsmpb.Outcome {
	c.t.Helper()
	out, err := c.apply(actor, cmd)
	require.NoError(c.t, err)
	return out
}

func (c *testCluster) apply(actor string, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	cmd = proto.Clone(cmd).(*fsmpb.Command)
	id := uuid.New()
	cmd.RequestId, cmd.ProposedIndex, cmd.Actor, cmd.ProposedAt, cmd.SchemaVersion = id[:], c.index-1, actor, time.Now().UnixNano(), fsm.LeastLevel(cmd)
	out := c.state.Apply(c.index, cmd).Outcome
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return out, fsm.Err(out)
}

func (c *testCluster) VolumeFacts(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (executor.VolumeFacts, error) {
	if c.facts == nil {
		return executor.VolumeFacts{}, errors.New("no controller has a session with the host")
	}
	return c.facts(ctx, node, id)
}

func (c *testCluster) Site() string  { return fsm.DefaultSite }
func (c *testCluster) Actor() string { return byController }

func (c *testCluster) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	out, err := c.apply(byController, cmd)
	if _, begins := cmd.GetBody().(*fsmpb.Command_BeginReclaim); begins && err == nil && c.onBegin != nil {
		c.onBegin()
	}
	return out, err
}

func (c *testCluster) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	return c.index, c.View(fn)
}

func (c *testCluster) View(fn func(*fsm.State) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fn(c.state)
}

func (c *testCluster) WatchVolumes(...fsm.VolumeID) (<-chan struct{}, func()) {
	return c.changed, func() {}
}

func (c *testCluster) WatchSnapshot(fsm.SnapshotID) (<-chan struct{}, func()) {
	return c.changed, func() {}
}

func (c *testCluster) WatchGroup(fsm.GroupSnapshotID) (<-chan struct{}, func()) {
	return c.changed, func() {}
}
