package admin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// history returns the kinds of the entries that are selected, and their lines.
func (w *env) history(req *adminpb.HistoryRequest) (kinds []string, lines string) {
	w.t.Helper()
	out := &collector[adminpb.HistoryResponse]{}
	require.NoError(w.t, w.server.History(req, out))
	var text bytes.Buffer
	for _, m := range out.got[1:] {
		kinds = append(kinds, m.GetEntry().GetKind())
		require.NoError(w.t, Print(&text, "table", m.GetEntry()))
	}
	return kinds, text.String()
}

func (w *env) fence(site string, cidrs ...string) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Site: site, Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: cidrs}}})
}

// TestHistoryOfAFencedNode checks that fences are shown for the hosts that they bind, by the addresses of that time.
func TestHistoryOfAFencedNode(t *testing.T) {
	w := newFenceEnv(t)
	w.fence("", "203.0.113.1/32")
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: []string{"203.0.113.1/32"}}}})
	w.fence("", "198.51.100.0/24")
	again := w.registration("n2")
	again.Addresses = []string{"203.0.113.9"}
	w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_RegisterNode{RegisterNode: again}})
	w.fence("", "203.0.113.2/32")
	from := w.index - 4
	for range 2 {
		kinds, lines := w.history(&adminpb.HistoryRequest{Node: "n1", From: from})
		require.Equal(t, []string{"fence_network", "unfence_network"}, kinds)
		require.Contains(t, lines, "@n1  fence of 203.0.113.1/32 for operator binds n1: ok")
		require.Contains(t, lines, "end of the fence of 203.0.113.1/32 for operator frees n1: ok")
		kinds, _ = w.history(&adminpb.HistoryRequest{Node: "n2", From: from})
		require.Equal(t, []string{"register_node"}, kinds, "its former address binds it no more")
		_, lines = w.history(&adminpb.HistoryRequest{From: from})
		require.Contains(t, lines, "fence of 198.51.100.0/24 for operator binds no host: ok")
		require.Contains(t, lines, "fence of 203.0.113.2/32 for operator binds no host: ok")
	}
}

// TestHistoryOfAGroup checks a group by id and by name, and its volumes: those that it had before are named too.
func TestHistoryOfAGroup(t *testing.T) {
	w := newEnv(t, "n1")
	first, second := w.create(1, true), w.create(2, true)
	group := w.groupAt(fsm.DefaultSite, "shop", 1, first)
	w.mustApply(&fsmpb.Command{Actor: "controller/cdefault", Body: &fsmpb.Command_ModifyVolumeGroup{ModifyVolumeGroup: &fsmpb.ModifyVolumeGroup{
		VolumeGroupId: group, VolumeIds: []string{string(second)}, MaxVolumes: 9}}})
	w.mustApply(&fsmpb.Command{Actor: "controller/cdefault", Body: &fsmpb.Command_DeleteVolumeGroup{DeleteVolumeGroup: &fsmpb.DeleteVolumeGroup{VolumeGroupId: group}}})
	life := []string{"create_volume_group", "modify_volume_group", "delete_volume_group"}
	for range 2 {
		for _, name := range []string{group, "shop"} {
			kinds, lines := w.history(&adminpb.HistoryRequest{Group: name})
			require.Equal(t, life, kinds)
			require.Contains(t, lines, group+","+string(first)+"  group shop of 1 volume: ok")
			require.Contains(t, lines, "the group has 1 volume from now on: ok")
			require.Contains(t, lines, "the group goes with its volumes: ok")
		}
		kinds, _ := w.history(&adminpb.HistoryRequest{Volume: string(first)})
		require.Equal(t, append([]string{"create_volume", "report"}, life[:2]...), kinds, "it left the group")
		kinds, _ = w.history(&adminpb.HistoryRequest{Volume: "pvc-2"})
		require.Equal(t, append([]string{"create_volume", "report"}, life[1:]...), kinds)
		_, lines := w.history(&adminpb.HistoryRequest{})
		require.Contains(t, lines, "controller cdefault acts for site default: ok")
	}
}

// requireVolumeLine requires that the list of volumes shows the volume's encryption so.
func (w *env) requireVolumeLine(id fsm.VolumeID, encryption string) {
	w.t.Helper()
	resp, err := w.server.Volumes(w.t.Context(), &adminpb.VolumesRequest{Volume: string(id)})
	require.NoError(w.t, err)
	require.Equal(w.t, encryption, encryptionCell(resp.GetVolumes()[0].GetEncryption()))
	var out bytes.Buffer
	require.NoError(w.t, Print(&out, "table", resp))
	require.Contains(w.t, out.String(), "  "+encryption+"  ")
}

// TestHistoryOfEncryptionAndReclaims checks what a volume's history says of a key rotation, a restored header and a reclaim.
func TestHistoryOfEncryptionAndReclaims(t *testing.T) {
	w := newEnv(t, "n1")
	id, _ := w.stageEncrypted()
	epoch := publicationOn(w.volume(id), w.node("n1")).Epoch.Proto()
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_BeginKeyRotation{BeginKeyRotation: &fsmpb.BeginKeyRotation{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1", BootId: "boot", Epoch: epoch, Sequence: 5, Slots: []uint32{0}}}})
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 6, Fact: &fsmpb.Observation_KeyAdded{KeyAdded: &fsmpb.KeyAdded{Slot: 1}}})
	w.requireVolumeLine(id, "key 0, rotation added")
	w.snapshot(id, true)
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 7, Fact: &fsmpb.Observation_KeyDropped{KeyDropped: &fsmpb.KeyDropped{Slot: 1}}})
	w.requireVolumeLine(id, "key 1")
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_RestoreHeader{RestoreHeader: &fsmpb.RestoreHeader{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1", LuksUuid: luksUUID, Reason: "its blocks were lost"}}})
	plain := w.create(2, true)
	w.stage(plain, "/plain")
	w.observe(&fsmpb.Observation{VolumeId: string(plain), Epoch: publicationOn(w.volume(plain), w.node("n1")).Epoch.Proto(), Sequence: 4, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(plain), NodeId: "n1"}}})
	reclaim := w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_BeginReclaim{BeginReclaim: &fsmpb.BeginReclaim{VolumeId: string(plain)}}}).GetEpoch()
	w.observe(&fsmpb.Observation{VolumeId: string(plain), Epoch: reclaim, Sequence: 5, Fact: &fsmpb.Observation_Reclaimed{
		Reclaimed: &fsmpb.Reclaimed{Known: true, BeforeBytes: 4 << 20, AfterBytes: 1 << 20}}})
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_EndReclaim{EndReclaim: &fsmpb.EndReclaim{VolumeId: string(plain)}}})
	for _, volume := range []string{string(id), "pvc-1"} {
		_, lines := w.history(&adminpb.HistoryRequest{Volume: volume})
		for _, want := range []string{
			"@n1  a new key for the volume: ok", "key_added the new key opens slot 1, and so does the former its own: ok",
			"key_dropped only the new key opens the header; former keys still open 1 snapshot: ok",
			"@n1  the node may restore LUKS header " + luksUUID + ": its blocks were lost: ok",
		} {
			require.Contains(t, lines, want)
		}
	}
	_, lines := w.history(&adminpb.HistoryRequest{Volume: "pvc-2"})
	for _, want := range []string{"what the unpublished volume does not use is discarded: ok", "reclaimed it gave back 3 MiB of 4 MiB: ok", "that discarding ends before it is done: ok"} {
		require.Contains(t, lines, want)
	}
	for want, r := range map[string]*fsmpb.Reclaimed{
		"nothing more was reclaimed: an I/O error":             {Error: "an I/O error"},
		"done, and the pool cannot tell how much it gave back": {},
		"it gave back 0 B of 1 B":                              {Known: true, BeforeBytes: 1, AfterBytes: 2},
	} {
		require.Equal(t, want, reclaimedSentence(r))
	}
}
