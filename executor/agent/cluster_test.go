package agent_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// testCluster is the real state machine behind an in-memory log. It stands for the Agent's
// Proposer and session.
type testCluster struct {
	t testing.TB

	mu          sync.Mutex
	state       *fsm.State
	index       uint64
	down        bool
	dropReports bool // reports are lost
	holdUpdates bool // updates are held back
	host        *agent.Agent
	heldUpdates []executor.Update
	// withhold says of which volumes the session has not read the change yet, as happens when it
	// reads the state for others.
	withhold func(fsm.VolumeID) bool
	pending  map[fsm.VolumeID]bool
	reports  int
	commands []*fsmpb.Command
	// beforeAnswer is called when a report is decided, before the host has its answer.
	beforeAnswer func(*fsmpb.Report)
	encrypted    bool // volumes are created encrypted
	discards     bool // and discards pass their encryption
}

func newTestCluster(t testing.TB) *testCluster {
	c := &testCluster{t: t, state: fsm.New()}
	c.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "test", IncarnationId: []byte("0123456789abcdef"), FeatureLevel: fsm.MaxFeatureLevel,
	}}})
	return c
}

type noQuorum struct{}

func (noQuorum) Error() string { return "there is no quorum" }

func (noQuorum) Unavailable() bool { return true }

// Propose is the Agent's Proposer.
func (c *testCluster) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	c.mu.Lock()
	if c.down || c.dropReports && cmd.GetReport() != nil {
		c.mu.Unlock()
		return nil, noQuorum{}
	}
	out, beforeAnswer := c.apply("node/n1", cmd), c.beforeAnswer
	c.mu.Unlock()
	if r := cmd.GetReport(); r != nil && beforeAnswer != nil {
		beforeAnswer(r)
	}
	return out, fsm.Err(out)
}

// apply applies a command and sends what it changed. The caller holds mu.
func (c *testCluster) apply(actor string, cmd *fsmpb.Command) *fsmpb.Outcome {
	cmd.Actor, cmd.SchemaVersion, cmd.ProposedIndex = actor, fsm.LeastLevel(cmd), c.index
	cmd.ProposedAt = time.Now().UnixNano()
	cmd.RequestId = make([]byte, 16)
	_, _ = rand.Read(cmd.RequestId)
	c.index++
	c.commands = append(c.commands, cmd)
	result := c.state.Apply(c.index, cmd)
	if err := c.state.Check(); err != nil {
		c.t.Errorf("after %v: %v", cmd, err)
	}
	c.sendTouched(result.Changes)
	return result.Outcome
}

func (c *testCluster) sendTouched(touched []fsm.Change) {
	u := executor.Update{At: c.at(), FeatureLevel: c.state.Cluster().FeatureLevel, Adopted: c.adopted(), IncarnationID: c.state.Cluster().IncarnationID}
	for _, touch := range touched {
		if touch.Snapshot != "" && touch.Node == "n1" {
			if d, ok := c.state.DesiredSnapshot("n1", touch.Snapshot); ok {
				u.Snapshots = append(u.Snapshots, d)
			} else {
				u.SnapshotsGone = append(u.SnapshotsGone, touch.Snapshot)
			}
		}
		if touch.Volume == "" || touch.Node != "n1" {
			continue
		}
		if c.withhold != nil && c.withhold(touch.Volume) {
			c.pending[touch.Volume] = true
			continue
		}
		delete(c.pending, touch.Volume)
		if d, ok := c.state.DesiredVolume("n1", touch.Volume); ok {
			u.Volumes = append(u.Volumes, d)
		} else {
			u.VolumesGone = append(u.VolumesGone, touch.Volume)
		}
	}
	if len(u.Volumes)+len(u.VolumesGone)+len(u.Snapshots)+len(u.SnapshotsGone) > 0 {
		c.send(u)
	}
}

// withholdTouched begins to hold back updates of these volumes.
func (c *testCluster) withholdTouched(these func(fsm.VolumeID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withhold = these
	if c.pending == nil {
		c.pending = map[fsm.VolumeID]bool{}
	}
}

// releaseWithheld sends what was held back, as it is now.
func (c *testCluster) releaseWithheld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withhold = nil
	var touched []fsm.Change
	for id := range c.pending {
		touched = append(touched, fsm.Change{Volume: id, Node: "n1"})
	}
	c.sendTouched(touched)
}

func (c *testCluster) send(u executor.Update) {
	switch {
	case c.host == nil:
	case c.holdUpdates:
		c.heldUpdates = append(c.heldUpdates, u)
	default:
		c.host.Update(u)
	}
}

func (c *testCluster) at() fsm.Epoch {
	return fsm.Epoch{Incarnation: c.state.Cluster().Incarnation, Index: c.index}
}

func (c *testCluster) adopted() bool {
	n, ok := c.state.Node("n1")
	return ok && n.Incarnation == c.state.Cluster().Incarnation
}

// full is the first update of a new session. The caller holds mu.
func (c *testCluster) full() executor.Update {
	u := executor.Update{At: c.at(), Full: true, FeatureLevel: c.state.Cluster().FeatureLevel, Adopted: c.adopted(), IncarnationID: c.state.Cluster().IncarnationID}
	for d := range c.state.DesiredVolumes("n1") {
		u.Volumes = append(u.Volumes, d)
	}
	for d := range c.state.DesiredSnapshots("n1") {
		u.Snapshots = append(u.Snapshots, d)
	}
	return u
}

// connectHost begins a session with a host.
func (c *testCluster) connectHost(e *agent.Agent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.apply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: e.Register()}})
	require.NoError(c.t, fsm.Err(out))
	c.host = e
	c.send(c.full())
}

func (c *testCluster) disconnectHost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = nil
}

func (c *testCluster) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

func (c *testCluster) setDropReports(drop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropReports = drop
}

func (c *testCluster) setBeforeAnswer(call func(*fsmpb.Report)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beforeAnswer = call
}

func (c *testCluster) setHoldUpdates(hold bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdUpdates = hold
	if hold {
		return
	}
	for _, u := range c.heldUpdates {
		c.send(u)
	}
	c.heldUpdates = nil
}

func (c *testCluster) try(actor string, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.apply(actor, cmd)
	return out, fsm.Err(out)
}

func (c *testCluster) must(actor string, cmd *fsmpb.Command) *fsmpb.Outcome {
	c.t.Helper()
	out, err := c.try(actor, cmd)
	require.NoError(c.t, err)
	return out
}

func (c *testCluster) volume(id fsm.VolumeID) (fsm.Volume, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.state.Volume(id)
	if !ok {
		return fsm.Volume{}, false
	}
	return *v, true
}

// failedOperation is the failed operation that was to make a volume or a snapshot, nil when there is none.
func (c *testCluster) failedOperation(id string) *fsm.Operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.CreateFailure(id)
}

func (c *testCluster) publication(id fsm.VolumeID) *fsm.Publication {
	v, _ := c.volume(id)
	return v.Publication("n1")
}

func (c *testCluster) proposals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.commands)
}

const (
	writer   = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER
	reader   = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_READER_ONLY
	multi    = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER
	testSize = 32 << 20
)

func proto(c fsm.Capability) *fsmpb.Capability {
	return &fsmpb.Capability{Mode: c.Mode, Block: c.Block, FsType: c.FSType}
}

// create creates a volume with the capability, and waits until its host has made it.
func (c *testCluster) create(id fsm.VolumeID, capability fsm.Capability) {
	c.t.Helper()
	c.startCreate(id, capability)
	c.eventually(func() bool { return c.isReady(id) }, "the volume is ready")
}

func (c *testCluster) startCreate(id fsm.VolumeID, capability fsm.Capability) {
	c.t.Helper()
	size := int64(testSize)
	if capability.FSType == "xfs" {
		size = fsm.MinXFSSize
	}
	c.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(id), Name: "pvc-" + string(id), Fingerprint: []byte("parameters"), RequiredBytes: size,
		Capabilities: []*fsmpb.Capability{proto(capability)}, Encrypted: c.encrypted, EncryptionDiscards: c.discards,
	}}})
}

func (c *testCluster) isReady(id fsm.VolumeID) bool {
	v, _ := c.volume(id)
	_, ready := v.Phase.(fsm.Ready)
	return ready
}

// publishVolume is ControllerPublishVolume.
func (c *testCluster) publishVolume(id fsm.VolumeID, capability fsm.Capability) fsm.Epoch {
	c.t.Helper()
	out := c.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
		VolumeId: string(id), NodeId: "n1", Capability: proto(capability),
	}}})
	return fsm.Epoch{Incarnation: out.GetEpoch().GetIncarnation(), Index: out.GetEpoch().GetIndex()}
}

func (c *testCluster) unpublishVolume(id fsm.VolumeID) error {
	_, err := c.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{
		VolumeId: string(id), NodeId: "n1",
	}}})
	return err
}

func (c *testCluster) deleteVolume(id fsm.VolumeID) error {
	_, err := c.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
	return err
}

func (c *testCluster) setReachable(host fsm.HostID, yes bool) {
	c.t.Helper()
	c.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{
		NodeId: "n1", HostId: string(host), Reachable: yes,
	}}})
}

func (c *testCluster) eventually(ok func() bool, what string) {
	c.t.Helper()
	require.Eventually(c.t, ok, time.Minute, time.Millisecond, what)
}

func reasonOf(err error) fsm.Reason {
	var rej *fsm.Rejection
	if errors.As(err, &rej) {
		return rej.Reason
	}
	return 0
}

func isUnavailable(err error) bool {
	var u interface{ Unavailable() bool }
	return errors.As(err, &u) && u.Unavailable()
}
