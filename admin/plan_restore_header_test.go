package admin

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	luksUUID  = "11111111-2222-4333-8444-555555555555"
	otherLUKS = "11111111-2222-4333-8444-666666666666"
)

// createEncrypted is a volume whose header was made, published to n1.
func (w *env) createEncrypted() (fsm.VolumeID, *fsmpb.Epoch) {
	w.t.Helper()
	id := w.createUnformatted()
	epoch := w.beginStage(id)
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 2, Fact: &fsmpb.Observation_HeaderMade{HeaderMade: &fsmpb.HeaderMade{LuksUuid: luksUUID}}})
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 3, Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: "ext4", FsUuid: "fs"}}})
	return id, epoch
}

// createUnformatted is an encrypted volume without a header, published to nobody.
func (w *env) createUnformatted() fsm.VolumeID {
	w.t.Helper()
	id := "hf-00000000-0000-4000-8000-000000000001"
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: "pvc-1", Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Encrypted: true, Capabilities: []*fsmpb.Capability{capability()}}}})
	w.observe(&fsmpb.Observation{VolumeId: id, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	return fsm.VolumeID(id)
}

// beginStage publishes the volume to n1 and begins to stage it: its header may be made.
func (w *env) beginStage(id fsm.VolumeID) *fsmpb.Epoch {
	w.t.Helper()
	epoch := w.publish(id)
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_StageVolume{StageVolume: &fsmpb.StageVolume{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1", BootId: "boot", Epoch: epoch, StagingPath: "/staging", Capability: capability(), FsUuid: "fs", LuksUuid: luksUUID, Sequence: 1}}})
	return epoch
}

// S62: the plan says whose backup is written, and nothing is written until somebody said yes to it.
func TestS62_PlanOfRestoringAHeader(t *testing.T) {
	w := newEnv(t, "n1", "n2")
	id, epoch := w.createEncrypted()
	w.backups = map[fsm.NodeID]HeaderBackup{"n1": {UUID: luksUUID}}
	for _, req := range []*adminpb.PlanRequest{{Verb: "restore-header", Volume: "pvc-1"}, {Verb: "restore-header", Volume: string(id), Node: "n1"}} {
		p := w.plan(req)
		require.Equal(t, "n1", p.GetNode())
		require.Equal(t, "host-n1", p.GetHostId())
		require.Equal(t, "restore-header todo", p.GetSteps()[0].GetAction()+" "+p.GetSteps()[0].GetState())
		require.Contains(t, p.GetSteps()[0].GetDetail(), luksUUID)
	}
	require.Nil(t, w.volume(id).HeaderRestore, "it was only shown")
	req := &adminpb.PlanRequest{Verb: "restore-header", Volume: "pvc-1"}
	require.Equal(t, "done", w.carryOut(req).GetSteps()[0].GetState())
	require.Equal(t, luksUUID, w.volume(id).HeaderRestore.UUID)
	require.Equal(t, "waiting", w.plan(req).GetSteps()[0].GetState(), "until it is staged")
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 4, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
	require.True(t, w.plan(req).GetDone(), "its header is there")
}

// S62: without the right backup the plan says so and has nothing to do.
func TestS62_NoPlanRestoresAnythingButTheRightHeader(t *testing.T) {
	for name, tc := range map[string]struct {
		backup string
		err    error
		want   string
	}{
		"no backup":          {want: "no backup of the header; without one the data cannot be read"},
		"of another header":  {backup: otherLUKS, want: "is of header " + otherLUKS},
		"it cannot be asked": {backup: luksUUID, err: errors.New("no session"), want: "cannot be asked for its backup: no session"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, "n1", "n2")
			id, _ := w.createEncrypted()
			w.backups, w.unreachable = map[fsm.NodeID]HeaderBackup{"n1": {UUID: tc.backup}}, map[fsm.NodeID]error{"n1": tc.err}
			req := &adminpb.PlanRequest{Verb: "restore-header", Volume: string(id)}
			for _, p := range []*adminpb.PlanResponse{w.plan(req), w.carryOut(req)} {
				require.Equal(t, "blocked", p.GetSteps()[0].GetState())
				require.Contains(t, p.GetSteps()[0].GetDetail(), tc.want)
			}
			require.Nil(t, w.volume(id).HeaderRestore)
		})
	}
	w := newEnv(t, "n1", "n2")
	id, _ := w.createEncrypted()
	clear := w.create(2, false)
	for want, req := range map[string]*adminpb.PlanRequest{
		`no volume has the id or name "pvc-9"`: {Volume: "pvc-9"},
		"is not encrypted":                     {Volume: string(clear)},
	} {
		req.Verb = "restore-header"
		_, err := w.server.Plan(t.Context(), req)
		require.ErrorContains(t, err, want)
	}
	w.backups = map[fsm.NodeID]HeaderBackup{"n1": {UUID: luksUUID}}
	require.Contains(t, w.plan(&adminpb.PlanRequest{Verb: "restore-header", Volume: string(id), Node: "n2"}).GetSteps()[0].GetDetail(), "node n1 has one")
	_, err := w.server.CarryOut(t.Context(), &adminpb.PlanRequest{Verb: "restore-header", Volume: string(id), HostId: "host-n2"})
	require.Error(t, err, "S71: it is not the host that the plan showed")
}

// rotate replaces the key of a volume that createEncrypted made, and unstages it.
func (w *env) rotate(id fsm.VolumeID, epoch *fsmpb.Epoch) {
	w.t.Helper()
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 4, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_BeginKeyRotation{BeginKeyRotation: &fsmpb.BeginKeyRotation{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1", BootId: "boot", Epoch: epoch, Sequence: 5, Slots: []uint32{0}}}})
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 6, Fact: &fsmpb.Observation_KeyAdded{KeyAdded: &fsmpb.KeyAdded{Slot: 1}}})
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 7, Fact: &fsmpb.Observation_KeyDropped{KeyDropped: &fsmpb.KeyDropped{Slot: 1}}})
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 8, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	require.EqualValues(w.t, 1, w.volume(id).Crypt.KeyGeneration)
}

// S65: a backup of before a rotation is not offered, and the plan says what it is.
func TestS65_NoPlanRestoresABackupOfAnOlderKey(t *testing.T) {
	w := newEnv(t, "n1", "n2")
	id, epoch := w.createEncrypted()
	w.rotate(id, epoch)
	w.backups = map[fsm.NodeID]HeaderBackup{"n1": {UUID: luksUUID}}
	req := &adminpb.PlanRequest{Verb: "restore-header", Volume: string(id)}
	for _, p := range []*adminpb.PlanResponse{w.plan(req), w.carryOut(req)} {
		require.Equal(t, "blocked", p.GetSteps()[0].GetState())
		require.Contains(t, p.GetSteps()[0].GetDetail(), "is of key generation 0, the volume's is 1: it would bring back a key that was replaced")
	}
	require.Nil(t, w.volume(id).HeaderRestore)
	w.backups["n1"] = HeaderBackup{UUID: luksUUID, Generation: 1}
	require.Equal(t, "todo", w.plan(req).GetSteps()[0].GetState())
	v := *w.volume(id)
	v.Replicas = []fsm.Replica{{Node: "n1"}, {Node: "n2"}}
	older := map[fsm.NodeID]headerBackup{"n1": {HeaderBackup: HeaderBackup{UUID: luksUUID}}, "n2": {HeaderBackup: HeaderBackup{UUID: luksUUID, Generation: 1}}}
	require.Equal(t, fsm.NodeID("n2"), nodeToRestoreOn(&v, older), "although it is published to n1")
}
