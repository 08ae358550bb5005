package fsm

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	gib  = int64(1) << 30
	ext4 = "ext4"

	writer   = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER
	readOnly = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_READER_ONLY
	single   = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER
	multi    = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER
	multiRWX = fsmpb.AccessMode_ACCESS_MODE_MULTI_NODE_MULTI_WRITER
)

// start is the first leader's clock.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is a state and the log that led to it.
type world struct {
	site  string // through which the commands come; empty: none
	t     testing.TB
	s     *State
	index uint64
	calls int
	log   []entry
}

type entry struct {
	index uint64
	cmd   *fsmpb.Command
}

// newWorld is a cluster with node n1 of one pool of 1 TiB, twentyfold.
func newWorld(t testing.TB) *world { return newWorldAt(t, MaxFeatureLevel) }

// newWorldAt is newWorld at a feature level.
func newWorldAt(t testing.TB, level uint32) *world {
	w := &world{t: t, s: New()}
	first := bootstrap()
	first.FeatureLevel = level
	w.ok("controller/c1", first)
	w.ok("node/n1", register("n1"))
	return w
}

func bootstrap() *fsmpb.Bootstrap {
	return &fsmpb.Bootstrap{ClusterId: "cluster-1", IncarnationId: bytesOf("incarnation", 16), FeatureLevel: MaxFeatureLevel}
}

func register(node string) *fsmpb.RegisterNode {
	return &fsmpb.RegisterNode{
		NodeId: node, HostId: "host-" + node, BootId: "boot-1",
		Pools:        []*fsmpb.Pool{{PoolId: "pool-" + node, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000, MinFreeBytes: gib}},
		FeatureLevel: MaxFeatureLevel,
	}
}

// bytesOf are bytes that follow from a text.
func bytesOf(text string, n int) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:n]
}

// volumeID is the n-th id of the tests.
func volumeID(n int) string { return fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n) }

func mount(mode fsmpb.AccessMode) *fsmpb.Capability {
	return &fsmpb.Capability{Mode: mode, FsType: ext4}
}

func block(mode fsmpb.AccessMode) *fsmpb.Capability {
	return &fsmpb.Capability{Mode: mode, Block: true}
}

// create asks for volume n, named after it, of 1 GiB ext4.
func create(n int) *fsmpb.CreateVolume {
	return &fsmpb.CreateVolume{
		VolumeId: volumeID(n), Name: fmt.Sprintf("pvc-%d", n), Fingerprint: bytesOf("parameters", 32),
		RequiredBytes: gib, Capabilities: []*fsmpb.Capability{mount(writer)},
	}
}

// envelope puts a command into an envelope of its own request id.
func envelope(actor, request string, index uint64, body proto.Message) *fsmpb.Command {
	cmd := &fsmpb.Command{
		RequestId: bytesOf(request, 16), Actor: actor, ProposedIndex: index,
		ProposedAt: start.Add(time.Duration(index) * time.Second).UnixNano(),
	}
	msg := cmd.ProtoReflect()
	for i := range oneof.Fields().Len() {
		if f := oneof.Fields().Get(i); f.Message().FullName() == body.ProtoReflect().Descriptor().FullName() {
			msg.Set(f, protoreflect.ValueOfMessage(body.ProtoReflect()))
		}
	}
	cmd.SchemaVersion = LeastLevel(cmd)
	return cmd
}

// through has the command come in through a site's endpoint.
func through(site string, cmd *fsmpb.Command) *fsmpb.Command {
	if site != "" {
		cmd.Site = site
		cmd.SchemaVersion = LeastLevel(cmd)
	}
	return cmd
}

// apply applies a new command at the next index and checks every invariant, and
// that the outcome is remembered for a retry.
func (w *world) apply(actor string, body proto.Message) *fsmpb.Outcome {
	w.t.Helper()
	w.calls++
	cmd := envelope(actor, fmt.Sprintf("request %d", w.calls), w.index, body)
	if !strings.HasPrefix(actor, "node/") {
		cmd = through(w.site, cmd)
	}
	return w.applyEnvelope(cmd)
}

// applyEnvelope applies an envelope at the next index.
func (w *world) applyEnvelope(cmd *fsmpb.Command) *fsmpb.Outcome {
	w.t.Helper()
	w.index++
	w.log = append(w.log, entry{w.index, cmd})
	out := w.s.Apply(w.index, cmd).Outcome
	require.NoError(w.t, w.s.Check(), "after %v", cmd)
	return out
}

// ok applies a command that must not be rejected.
func (w *world) ok(actor string, body proto.Message) *fsmpb.Outcome {
	w.t.Helper()
	out := w.apply(actor, body)
	require.NoError(w.t, Err(out))
	return out
}

// rejected applies a command that must be rejected for the reason, twice: the second
// is a new request, later in the log.
func (w *world) rejected(reason Reason, actor string, body proto.Message) *fsmpb.Outcome {
	w.t.Helper()
	before := w.contents()
	first, second := w.apply(actor, body), w.apply(actor, body)
	require.Equal(w.t, reason, reasonOf(first), first.GetRejection().GetMessage())
	require.Equal(w.t, first.GetRejection().GetMessage(), second.GetRejection().GetMessage())
	require.Equal(w.t, before, w.contents(), "a rejection changes nothing")
	return first
}

func reasonOf(o *fsmpb.Outcome) Reason { return Reason(o.GetRejection().GetReason()) }

// twice applies a command that must be accepted and leave, asked again, what it left once.
func (w *world) twice(actor string, body proto.Message) *fsmpb.Outcome {
	w.t.Helper()
	first := w.ok(actor, body)
	before := w.contents()
	second := w.ok(actor, body)
	require.Equal(w.t, before, w.contents(), "the same again changes nothing")
	require.Equal(w.t, first.GetVolumeId(), second.GetVolumeId())
	require.True(w.t, proto.Equal(first.GetEpoch(), second.GetEpoch()))
	return first
}

// contents are all volumes and nodes, without the index that changed them last.
func (w *world) contents() (all []any) {
	for v := range w.s.Volumes("") {
		c := *v
		if v.Replication != nil {
			c = v.withReplication() // what is written to a shared ReplicaSync is seen
		}
		c.Modified = 0
		all = append(all, c)
	}
	for n := range w.s.Nodes() {
		all = append(all, *n)
	}
	for n := range w.s.Snapshots("") {
		c := *n
		c.Modified = 0
		all = append(all, c)
	}
	for g := range w.s.GroupSnapshots("") {
		c := *g
		c.Modified = 0
		all = append(all, c)
	}
	return all
}

func (w *world) volume(n int) *Volume {
	w.t.Helper()
	v, ok := w.s.Volume(VolumeID(volumeID(n)))
	require.True(w.t, ok, "volume %d", n)
	return v
}

// ready makes volume n and reports its device.
func (w *world) ready(n int, c *fsmpb.CreateVolume) *Volume {
	w.t.Helper()
	w.ok("controller/c1", c)
	v := w.volume(n)
	w.report(string(v.Replicas[0].Node), &fsmpb.Observation{
		VolumeId: c.GetVolumeId(), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}},
	})
	require.Equal(w.t, Ready{}, w.volume(n).Phase)
	return w.volume(n)
}

// report is accepted from a node's first boot.
func (w *world) report(node string, observations ...*fsmpb.Observation) *fsmpb.Outcome {
	w.t.Helper()
	return w.ok("node/"+node, &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: "boot-1", Observations: observations})
}

func publish(n int, node string) *fsmpb.PublishVolume {
	return &fsmpb.PublishVolume{VolumeId: volumeID(n), NodeId: node, Capability: mount(writer)}
}

// stage asks for the current publication of volume n on the node.
func (w *world) stage(n int, node string, sequence uint64) *fsmpb.StageVolume {
	w.t.Helper()
	p := w.volume(n).Publication(NodeID(node))
	require.NotNil(w.t, p)
	return &fsmpb.StageVolume{
		VolumeId: volumeID(n), NodeId: node, HostId: "host-" + node, BootId: "boot-1", Epoch: p.Epoch.Proto(),
		StagingPath: "/staging", Capability: mount(writer), FsUuid: "uuid-1", Sequence: sequence,
	}
}

// staged brings volume n up on the node: published, granted, formatted, staged.
func (w *world) staged(n int, node string, sequence uint64) *Publication {
	w.t.Helper()
	w.ok("controller/c1", publish(n, node))
	w.ok("node/"+node, w.stage(n, node, sequence))
	epoch := w.volume(n).Publication(NodeID(node)).Epoch.Proto()
	w.report(node,
		&fsmpb.Observation{VolumeId: volumeID(n), Epoch: epoch, Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: "uuid-1"}}},
		&fsmpb.Observation{VolumeId: volumeID(n), Epoch: epoch, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
	p := w.volume(n).Publication(NodeID(node))
	require.True(w.t, p.Staging.Done)
	return p
}
