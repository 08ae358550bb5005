package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// env is a cluster of one member with a real state and simulated hosts.
type env struct {
	t           *testing.T
	state       *fsm.State
	index       uint64
	log         []Entry
	members     []Member
	quorum      error // not nil: there is no quorum, and reads fail with it
	items       map[fsm.NodeID][]Item
	held        map[fsm.NodeID][]*fsmpb.HeldVolume
	snapshots   map[fsm.NodeID][]*fsmpb.HeldSnapshot
	storedErr   error
	remembered  map[fsm.NodeID][]*fsmpb.RevokeIdentity
	candidates  []*fsmpb.ImportCandidate
	replicasOf  map[fsm.NodeID][]*fsmpb.ImportCandidate // in place of candidates
	unreachable map[fsm.NodeID]error
	backups     map[fsm.NodeID]HeaderBackup
	stored      map[uint64][]byte // Raft snapshots, by index
	nodeChecks  map[fsm.NodeID]HostCheck
	checks      map[string]HostCheck // of members
	checkErr    error
	reach       sync.Map // what hosts were asked to reach, by node
	olderBuild  bool     // the hosts do not list mappings
	asked       func()   // called before each inventory
	server      *Server
}

func newEnv(t *testing.T, nodes ...string) *env { return newEnvAt(t, fsm.MaxFeatureLevel, nodes...) }

// newEnvAt is newEnv at a feature level.
func newEnvAt(t *testing.T, level uint32, nodes ...string) *env {
	w := &env{t: t, state: fsm.New(), stored: map[uint64][]byte{}, items: map[fsm.NodeID][]Item{}, unreachable: map[fsm.NodeID]error{}, asked: func() {}}
	w.server = NewServer(Options{Cluster: w, Hosts: w, HostChecks: w, Name: "c1", Now: func() time.Time { return time.Unix(int64(w.index), 0) }, AuditPause: time.Millisecond,
		Actor: func(context.Context) (string, error) { return "admin/alice", nil }, Error: grpcError})
	w.apply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster-1", IncarnationId: make([]byte, 16), FeatureLevel: level}}})
	for _, n := range nodes {
		w.apply(&fsmpb.Command{Actor: "node/" + n, Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: n, HostId: "host-" + n, BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel,
			Pools: []*fsmpb.Pool{{PoolId: "pool-" + n, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
	}
	return w
}

// grpcError replaces csi/rpcerr, which this package does not import.
func grpcError(err error) error {
	var rejected *fsm.Rejection
	switch {
	case err == nil:
		return nil
	case errors.As(err, &rejected) && rejected.Reason == fsm.NotFound:
		return status.Error(codes.NotFound, rejected.Message)
	case errors.As(err, &rejected):
		return status.Error(codes.FailedPrecondition, rejected.Message)
	}
	return status.Error(codes.Unavailable, err.Error())
}

var errNoQuorum = errors.New("no quorum")

func (w *env) apply(cmd *fsmpb.Command) *fsmpb.Outcome {
	w.index++
	cmd.RequestId = fmt.Appendf(nil, "request %8d", w.index)
	cmd.ProposedAt, cmd.SchemaVersion = int64(w.index)*int64(time.Second), fsm.LeastLevel(cmd)
	out := w.state.Apply(w.index, cmd).Outcome
	w.log = append(w.log, Entry{Index: w.index, Term: 1, Command: cmd, Outcome: out})
	return out
}

// mustApply applies a command that must not be rejected.
func (w *env) mustApply(cmd *fsmpb.Command) *fsmpb.Outcome {
	w.t.Helper()
	out := w.apply(cmd)
	require.NoError(w.t, fsm.Err(out))
	return out
}

// create creates a volume, and makes it Ready when made is set.
func (w *env) create(n int, made bool) fsm.VolumeID {
	w.t.Helper()
	id := fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", n)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: fmt.Sprintf("pvc-%d", n), Fingerprint: []byte("f"), RequiredBytes: 1 << 30,
		Capabilities: []*fsmpb.Capability{capability()}}}})
	if made {
		w.observe(&fsmpb.Observation{VolumeId: id, Fact: &fsmpb.Observation_DeviceCreated{
			DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	}
	return fsm.VolumeID(id)
}

func capability() *fsmpb.Capability {
	return &fsmpb.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}
}

func (w *env) observe(o *fsmpb.Observation) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
		NodeId: "n1", HostId: "host-n1", BootId: "boot", Observations: []*fsmpb.Observation{o}}}})
}

// stage publishes a volume to n1, and reports it staged at a path.
func (w *env) stage(id fsm.VolumeID, path string) {
	w.t.Helper()
	epoch := w.publish(id)
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_StageVolume{StageVolume: &fsmpb.StageVolume{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1", BootId: "boot", Epoch: epoch, StagingPath: path,
		Capability: capability(), FsUuid: "6f1ed002-ab5c-4e29-b3b7-6a3b3d4e0001", Sequence: 1}}})
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 2, Fact: &fsmpb.Observation_Formatted{
		Formatted: &fsmpb.Formatted{FsType: "ext4", FsUuid: "6f1ed002-ab5c-4e29-b3b7-6a3b3d4e0001"}}})
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 3, Fact: &fsmpb.Observation_Staged{
		Staged: &fsmpb.Staged{StagingPath: path}}})
}

func (w *env) publish(id fsm.VolumeID) *fsmpb.Epoch {
	w.t.Helper()
	return w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
		VolumeId: string(id), NodeId: "n1", Capability: capability()}}}).GetEpoch()
}

func (w *env) delete(id fsm.VolumeID) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
}

const snapshotOne = "hs-00000000-0000-4000-8000-000000000001"

// snapshot creates the snapshot snapshotOne of a volume, and reports it taken when taken is set.
func (w *env) snapshot(source fsm.VolumeID, taken bool) fsm.SnapshotID {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
		SnapshotId: snapshotOne, Name: "snap-1", SourceVolumeId: string(source), Fingerprint: []byte("f")}}})
	if taken {
		w.observe(&fsmpb.Observation{VolumeId: string(source), SnapshotId: snapshotOne, Sequence: 1, Fact: &fsmpb.Observation_SnapshotCut{
			SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: 1 << 30, CutUnixNano: 1}}})
	}
	return snapshotOne
}

func (w *env) deleteSnapshot(id fsm.SnapshotID) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(id)}}})
}

// group creates a group snapshot of the volumes.
func (w *env) group(sources ...fsm.VolumeID) fsm.GroupSnapshotID {
	w.t.Helper()
	create := &fsmpb.CreateGroupSnapshot{GroupSnapshotId: "hgs-00000000-0000-4000-8000-000000000001", Name: "group-1", Fingerprint: []byte("f")}
	for i, id := range sources {
		create.Members = append(create.Members, &fsmpb.GroupMember{
			SourceVolumeId: string(id), SnapshotId: fmt.Sprintf("hs-00000000-0000-4000-8000-1%011x", i)})
	}
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateGroupSnapshot{CreateGroupSnapshot: create}})
	return fsm.GroupSnapshotID(create.GetGroupSnapshotId())
}

func snapshotItem(id fsm.SnapshotID) Item {
	return Item{Kind: "snapshot", Snapshot: id, Path: "/pool/snapshots/" + string(id) + ".img"}
}

func imageItem(id fsm.VolumeID) Item {
	return Item{Kind: "image", ID: id, Path: "/pool/volumes/" + string(id) + ".img"}
}

func (w *env) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if w.quorum != nil {
		return nil, w.quorum
	}
	out := w.apply(cmd)
	return out, fsm.Err(out)
}

func (w *env) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	if w.quorum != nil {
		return 0, w.quorum
	}
	return w.index, fn(w.state)
}

func (w *env) View(fn func(*fsm.State) error) error { return fn(w.state) }
func (w *env) Fork() *fsm.State                     { return w.state.Fork() }

func (w *env) Members(_ context.Context, hashAt uint64) []Member {
	out := append([]Member{}, w.members...)
	for i := range out {
		out[i].HashIndex = hashAt
	}
	return out
}

func (w *env) History(from, to uint64, fn func(Entry) bool) (uint64, error) {
	for _, e := range w.log {
		if (from == 0 || e.Index >= from) && (to == 0 || e.Index <= to) && !fn(e) {
			break
		}
	}
	return w.log[0].Index, nil
}

func (w *env) Held(_ context.Context, node fsm.NodeID) (Held, error) {
	return Held{Volumes: w.held[node], Snapshots: w.snapshots[node], Revocations: w.remembered[node]}, w.unreachable[node]
}

func (w *env) Candidates(_ context.Context, node fsm.NodeID) ([]*fsmpb.ImportCandidate, error) {
	if w.replicasOf != nil {
		return w.replicasOf[node], w.unreachable[node]
	}
	return w.candidates, w.unreachable[node]
}

// store has the member store a Raft snapshot of its state.
func (w *env) store() {
	w.t.Helper()
	var dump bytes.Buffer
	require.NoError(w.t, w.state.Fork().WriteDump(&dump, 1))
	w.stored[w.index] = dump.Bytes()
}

func (w *env) StoredDump(below uint64, to io.Writer) (uint64, error) {
	indexes := slices.Sorted(maps.Keys(w.stored))
	if len(indexes) == 0 || w.storedErr != nil {
		return 0, w.storedErr
	}
	chosen := indexes[0]
	for _, index := range indexes {
		if index <= below {
			chosen = index
		}
	}
	_, err := to.Write(w.stored[chosen])
	return chosen, err
}

func (w *env) CheckNode(_ context.Context, node fsm.NodeID, reach ReachRequest) (HostCheck, error) {
	w.reach.Store(node, reach)
	return w.nodeChecks[node], cmp.Or(w.unreachable[node], w.checkErr)
}

func (w *env) CheckMember(_ context.Context, id string) (HostCheck, error) {
	return w.checks[id], w.checkErr
}

func (w *env) Inventory(_ context.Context, node fsm.NodeID) (Inventory, error) {
	w.asked()
	return Inventory{Items: w.items[node], Encryption: !w.olderBuild}, w.unreachable[node]
}

func (w *env) HeaderBackup(_ context.Context, node fsm.NodeID, _ fsm.VolumeID) (HeaderBackup, error) {
	return w.backups[node], w.unreachable[node]
}

func (w *env) audit() *adminpb.AuditResponse {
	w.t.Helper()
	resp, err := w.server.Audit(context.Background(), &adminpb.AuditRequest{})
	require.NoError(w.t, err)
	return resp
}
