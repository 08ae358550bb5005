package admin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S50: what was kept before a resynchronisation is listed with its reason, is a volume's source, and is removed.
func TestS50_CopiesKeptBeforeAResynchronisation(t *testing.T) {
	w := newSitesEnv(t)
	id := w.replicated(1)
	w.lag(id)
	w.keepBeforeSync(id)
	w.keepCopy("n2", id)
	kept, err := w.server.Snapshots(t.Context(), &adminpb.SnapshotsRequest{Kept: true, Source: string(id)})
	require.NoError(t, err)
	require.True(t, kept.GetSnapshots()[0].GetKept().GetBeforeSync())
	var table bytes.Buffer
	require.NoError(t, PrintList(&table, "table", KeptCopyList, kept, listing.View{}))
	require.Contains(t, table.String(), "before resync")

	w.mustApply(&fsmpb.Command{Actor: "controller/cB", Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{Name: "cB", MemberId: "member of B", Site: "B"}}})
	restored := "hf-00000000-0000-4000-8000-000000000009"
	w.mustApply(&fsmpb.Command{Actor: "controller/cB", Site: "B", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: restored, Name: "restored", Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Capabilities: []*fsmpb.Capability{capability()}, Source: &fsmpb.Source{SnapshotId: string(copyID)}}}})
	require.Equal(t, fsm.NodeID("n2"), w.volume(fsm.VolumeID(restored)).Replicas[0].Node)

	req := &adminpb.PlanRequest{Verb: "remove-kept", Node: "n2", Volume: string(copyID)}
	require.Equal(t, "blocked", w.plan(req).GetSteps()[0].GetState(), "a volume is being made of it")
	w.reportReplica("n2", fsm.VolumeID(restored), &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	plan := w.carryOut(req)
	require.Contains(t, plan.GetSteps()[0].GetDetail(), "before a resynchronisation")
	require.Equal(t, "done", plan.GetSteps()[0].GetState())
}

// S43: the copy that a replica goes back to is not removed meanwhile.
func TestS43_TheCopyThatAReplicaGoesBackToStays(t *testing.T) {
	w := newSitesEnv(t)
	id := w.replicated(1)
	w.lag(id)
	w.keepBeforeSync(id)
	w.keepCopy("n2", id)
	half := w.seen(id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	half.Disk = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	w.reportReplica("n2", id, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: half.Proto()}})
	w.setUnreachable("n1")
	plan := w.carryOut(forced(promoteSite, "B"))
	require.Contains(t, details(plan), "the replica goes back to kept copy "+string(copyID))
	require.Contains(t, planText(plan), "waiting sever @", "it is being reverted")
	removal := w.carryOut(&adminpb.PlanRequest{Verb: "remove-kept", Node: "n2", Volume: string(copyID)})
	require.Equal(t, "blocked", removal.GetSteps()[0].GetState())
	require.Contains(t, details(removal), "goes back to it")
}
