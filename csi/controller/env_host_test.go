package controller_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// fakeHost plays one storage host against the state: what a device or a mount would
// be is a path that exists. It is a node.Host.
type fakeHost struct {
	cluster *fakeCluster
	id      fsm.NodeID
	hostID  string
	pool    *fsmpb.Pool
	labels  []*fsmpb.Label
	site    string
	max     uint32

	mu                sync.Mutex
	idle              bool // does nothing that it is asked for
	dropUnstageReport bool // tears down, but its reports do not get through
	fail              *fsmpb.StepFailed
	failSnapshot      *fsmpb.StepFailed // of snapshots
	cannotKeep        bool              // has no room for what a replica had
	delayed           bool              // neither snapshots, expands nor limits
	thawEarly         bool              // a freeze ends before the snapshot is taken
	deviceSizes       map[fsm.VolumeID]int64
	appliedLimits     map[fsm.VolumeID]fsm.Limits
	sequence          map[fsm.VolumeID]uint64
	staged            map[fsm.VolumeID]string
	targets           map[string]fsm.VolumeID
	epochs            map[fsm.VolumeID]fsm.Epoch
	address           string // to which its peers replicate; empty: it holds no replicas
	replicas          map[fsm.VolumeID]*fakeReplica
}

const gib = int64(1) << 30

func newHost(c *fakeCluster, id fsm.NodeID, labels ...*fsmpb.Label) *fakeHost {
	return &fakeHost{
		cluster: c, id: id, hostID: "host-" + string(id), labels: labels,
		pool:        &fsmpb.Pool{PoolId: "pool-" + string(id), Backend: "loopfile", CapacityBytes: 100 * gib, OvercommitPercent: 1000},
		deviceSizes: map[fsm.VolumeID]int64{}, appliedLimits: map[fsm.VolumeID]fsm.Limits{},
		sequence: map[fsm.VolumeID]uint64{}, staged: map[fsm.VolumeID]string{},
		targets: map[string]fsm.VolumeID{}, epochs: map[fsm.VolumeID]fsm.Epoch{}, replicas: map[fsm.VolumeID]*fakeReplica{},
	}
}

// register makes the host known and has it work from now on.
func (h *fakeHost) register(t testing.TB) *fakeHost {
	t.Helper()
	_, err := h.propose(&fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: string(h.id), HostId: h.hostID, BootId: "boot", Pools: []*fsmpb.Pool{h.pool}, Labels: h.labels, Site: h.site,
		MaxVolumes: h.max, Version: "v0", FeatureLevel: fsm.MaxFeatureLevel, Replication: h.replication(),
	}}})
	require.NoError(t, err)
	h.cluster.hosts = append(h.cluster.hosts, h)
	return h
}

func (h *fakeHost) propose(cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	return h.cluster.apply("node/"+string(h.id), cmd)
}

func (h *fakeHost) setReachable(t testing.TB, reachable bool) {
	t.Helper()
	_, err := h.cluster.apply("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{
		SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: string(h.id), HostId: h.hostID, Reachable: reachable},
	}})
	require.NoError(t, err)
}

func (h *fakeHost) update(change func(*fakeHost)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// reconcile converges the host's devices to their desired state, and reports it.
func (h *fakeHost) reconcile() {
	h.mu.Lock()
	idle, fail := h.idle, h.fail
	h.mu.Unlock()
	if idle {
		return
	}
	var desired []fsm.DesiredVolume
	_ = h.cluster.View(func(s *fsm.State) error {
		for w := range s.DesiredVolumes(h.id) {
			desired = append(desired, w)
		}
		return nil
	})
	for _, w := range desired {
		if w.Replication != nil {
			h.reconcileReplica(&w)
		}
		switch {
		case fail != nil && w.Goal != fsm.GoalKeep:
			h.report(&fsmpb.Observation{VolumeId: string(w.Volume), Fact: &fsmpb.Observation_StepFailed{StepFailed: fail}})
		case w.Goal == fsm.GoalCreate && w.ReplicaState == fsm.ReplicaPlanned:
			h.report(&fsmpb.Observation{VolumeId: string(w.Volume), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.Size}}})
		case w.Goal == fsm.GoalRemove:
			h.report(&fsmpb.Observation{VolumeId: string(w.Volume), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
		case w.Goal == fsm.GoalKeep:
			h.reconcileKept(&w, fail)
		}
	}
}

func (h *fakeHost) report(o *fsmpb.Observation) {
	_, _ = h.propose(&fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
		NodeId: string(h.id), HostId: h.hostID, BootId: "boot", Observations: []*fsmpb.Observation{o},
	}}})
}

// nextSequence is the number of the host's next record of a volume (S16).
func (h *fakeHost) nextSequence(id fsm.VolumeID) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence[id]++
	return h.sequence[id]
}

func (h *fakeHost) Stage(ctx context.Context, req executor.StageRequest) error {
	if err := h.cluster.checkReachable(ctx); err != nil {
		return err
	}
	out, err := h.propose(&fsmpb.Command{Body: &fsmpb.Command_StageVolume{StageVolume: &fsmpb.StageVolume{
		VolumeId: string(req.Volume), NodeId: string(h.id), HostId: h.hostID, BootId: "boot", Epoch: req.Epoch.Proto(),
		StagingPath: req.Path, Capability: req.Capability.TextProto(), FsUuid: uuid.NewString(), Sequence: h.nextSequence(req.Volume),
	}}})
	if err != nil {
		return err
	}
	if f := out.GetGrant().GetFormat(); f.GetPhase() == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING || f.GetCloned() {
		h.report(&fsmpb.Observation{VolumeId: string(req.Volume), Epoch: req.Epoch.Proto(),
			Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: f.GetFsType(), FsUuid: f.GetFsUuid()}}})
	}
	h.report(&fsmpb.Observation{VolumeId: string(req.Volume), Epoch: req.Epoch.Proto(),
		Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: req.Path}}})
	h.update(func(h *fakeHost) { h.staged[req.Volume], h.epochs[req.Volume] = req.Path, req.Epoch })
	h.reconcile()
	return nil
}

func (h *fakeHost) Unstage(_ context.Context, id fsm.VolumeID, path string) error {
	h.mu.Lock()
	stagingPath, epoch, dropReport := h.staged[id], h.epochs[id], h.dropUnstageReport
	for _, volume := range h.targets {
		if volume == id {
			h.mu.Unlock()
			return fsm.Reject(fsm.InUse, "volume %s is still published", id)
		}
	}
	if stagingPath == path {
		delete(h.staged, id)
		delete(h.appliedLimits, id)
	}
	h.mu.Unlock()
	if stagingPath == path && !dropReport {
		h.reportUnstaged(id, epoch)
	}
	return nil
}

func (h *fakeHost) reportUnstaged(id fsm.VolumeID, epoch fsm.Epoch) {
	h.report(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch.Proto(), Sequence: h.nextSequence(id),
		Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
}

func (h *fakeHost) PublishTarget(ctx context.Context, req executor.PublishTargetRequest) error {
	if err := h.cluster.checkReachable(ctx); err != nil {
		return err
	}
	_, err := h.propose(&fsmpb.Command{Body: &fsmpb.Command_PublishTarget{PublishTarget: &fsmpb.PublishTarget{
		VolumeId: string(req.Volume), NodeId: string(h.id), HostId: h.hostID, BootId: "boot", Epoch: req.Epoch.Proto(),
		TargetPath: req.TargetPath, ReadOnly: req.ReadOnly, Capability: req.Capability.TextProto(),
		Fingerprint: []byte(req.Fingerprint), Sequence: h.nextSequence(req.Volume),
	}}})
	if err != nil {
		return err
	}
	if err := os.Mkdir(req.TargetPath, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	h.update(func(h *fakeHost) { h.targets[req.TargetPath] = req.Volume })
	h.report(&fsmpb.Observation{VolumeId: string(req.Volume), Epoch: req.Epoch.Proto(),
		Fact: &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: req.TargetPath}}})
	return nil
}

func (h *fakeHost) UnpublishTarget(_ context.Context, id fsm.VolumeID, target string) error {
	h.mu.Lock()
	volume, epoch := h.targets[target], h.epochs[id]
	if volume == id {
		delete(h.targets, target)
	}
	h.mu.Unlock()
	if volume != id {
		return nil
	}
	h.report(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch.Proto(), Sequence: h.nextSequence(id),
		Fact: &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: target}}})
	return os.Remove(target)
}

func (h *fakeHost) VolumeStats(_ context.Context, id fsm.VolumeID, path string) (executor.VolumeStats, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.staged[id] != path && h.targets[path] != id {
		return executor.VolumeStats{}, fsm.Reject(fsm.NotFound, "volume %s is not at that path", id)
	}
	return executor.VolumeStats{Bytes: executor.Usage{Total: gib, Used: 1, Available: gib - 1}, Inodes: executor.Usage{Total: 10, Used: 1, Available: 9}}, nil
}
