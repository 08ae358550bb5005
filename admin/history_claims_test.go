package admin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// createWithClaim creates a volume for a claim, from a source where one is given.
func (w *env) createWithClaim(n string, source *fsmpb.Source, claim *fsmpb.Claim) string {
	w.t.Helper()
	id := "hf-00000000-0000-4000-8000-00000000000" + n
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: "pvc-" + n, Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Source: source, Claim: claim,
		Capabilities: []*fsmpb.Capability{capability()}}}})
	return id
}

// TestClaimsAreInTheHistory checks that the claims that the provisioner and the resizer pass are shown
// in history and operations, also for deleted volumes, and that a clone has its own claim.
func TestClaimsAreInTheHistory(t *testing.T) {
	w := newEnv(t, "n1")
	first := w.createWithClaim("1", nil, &fsmpb.Claim{Name: "data", Namespace: "shop", Volume: "pv-1"})
	made := func(id string) {
		w.observe(&fsmpb.Observation{VolumeId: id, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	}
	made(first)
	clone := w.createWithClaim("2", &fsmpb.Source{VolumeId: first}, &fsmpb.Claim{Name: "copy", Namespace: "shop"})
	operations, err := w.server.Operations(ctx, &adminpb.OperationsRequest{})
	require.NoError(t, err)
	require.Equal(t, "shop/copy", claimCell(operations.GetOperations()[0].GetClaim()))
	var table bytes.Buffer
	require.NoError(t, Print(&table, "table", operations))
	require.Contains(t, table.String(), "shop/copy")
	made(clone)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_ModifyVolume{ModifyVolume: &fsmpb.ModifyVolume{VolumeId: clone, Claim: &fsmpb.Claim{Name: "renamed", Namespace: "shop"}}}})
	w.delete(fsm.VolumeID(first))
	w.observe(&fsmpb.Observation{VolumeId: first, Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
	nameless := w.createWithClaim("3", nil, nil)
	_, here := w.state.Volume(fsm.VolumeID(first))
	require.False(t, here)

	out := &collector[adminpb.HistoryResponse]{}
	require.NoError(t, w.server.History(&adminpb.HistoryRequest{From: 3}, out))
	var lines []string
	for _, m := range out.got[1:] {
		var line bytes.Buffer
		require.NoError(t, Print(&line, "table", m.GetEntry()))
		lines = append(lines, line.String())
	}
	for i, want := range []string{first + " (shop/data) ", first + " (shop/data) ", first + " (shop/data)," + clone + " (shop/copy) ", clone + " (shop/renamed) ",
		clone + " (shop/renamed) ", first + " (shop/data) ", first + " (shop/data) ", nameless + "  ok"} {
		if i == 2 {
			require.Contains(t, lines[i], first+" (shop/data)")
			require.Contains(t, lines[i], clone+" (shop/copy)")
			continue
		}
		require.Contains(t, lines[i], want, "line %d", i)
	}
}

// TestClaimsOfDeletedVolumesAreBounded checks the bound on remembered claims.
func TestClaimsOfDeletedVolumesAreBounded(t *testing.T) {
	c := &claims{state: fsm.New(), deleted: map[string]*adminpb.Claim{}}
	for range 3 * maxDeletedClaims {
		c.remember(string(rune(len(c.deleted))), &adminpb.Claim{})
		require.LessOrEqual(t, len(c.deleted), maxDeletedClaims)
	}
}
