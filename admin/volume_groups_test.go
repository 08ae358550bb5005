package admin

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// groupAt makes a volume group through a controller of a site, and is its id.
func (w *env) groupAt(site, name string, n int, volumes ...fsm.VolumeID) string {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "controller/c" + site, Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{
		Name: "c" + site, MemberId: "member of " + site, Site: site}}})
	cmd := &fsmpb.CreateVolumeGroup{VolumeGroupId: fmt.Sprintf("hg-00000000-0000-4000-8000-%012d", n), Name: name, MaxVolumes: 9}
	for _, id := range volumes {
		cmd.VolumeIds = append(cmd.VolumeIds, string(id))
	}
	return w.mustApply(&fsmpb.Command{Actor: "controller/c" + site, Site: site, Body: &fsmpb.Command_CreateVolumeGroup{CreateVolumeGroup: cmd}}).GetVolumeGroupId()
}

func TestVolumeGroups(t *testing.T) {
	w, ctx := newEnv(t, "n1"), context.Background()
	volume := w.create(1, true)
	shop := w.groupAt(fsm.DefaultSite, "shop", 1, volume)
	ofA, only := w.groupAt("A", "shop", 2), w.groupAt("A", "only", 3)
	for name, tc := range map[string]struct {
		req  *adminpb.VolumeGroupsRequest
		want []string
		next string
		code codes.Code
	}{
		"all":                        {req: &adminpb.VolumeGroupsRequest{}, want: []string{shop, ofA, only}},
		"a page":                     {req: &adminpb.VolumeGroupsRequest{PageSize: 2}, want: []string{shop, ofA}, next: ofA},
		"the next one":               {req: &adminpb.VolumeGroupsRequest{PageSize: 2, After: ofA}, want: []string{only}},
		"by id":                      {req: &adminpb.VolumeGroupsRequest{Group: ofA}, want: []string{ofA}},
		"by name":                    {req: &adminpb.VolumeGroupsRequest{Group: "only"}, want: []string{only}},
		"S33: by site and name":      {req: &adminpb.VolumeGroupsRequest{Group: "A/shop"}, want: []string{ofA}},
		"S33: a name of two sites":   {req: &adminpb.VolumeGroupsRequest{Group: "shop"}, want: []string{}, code: codes.NotFound},
		"one that is unknown":        {req: &adminpb.VolumeGroupsRequest{Group: "x"}, want: []string{}, code: codes.NotFound},
		"of this controller's state": {req: &adminpb.VolumeGroupsRequest{Stale: true, Group: shop}, want: []string{shop}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				resp, err := w.server.VolumeGroups(ctx, tc.req)
				require.Equal(t, tc.code, status.Code(err), err)
				require.Equal(t, tc.want, mapSlice(resp.GetGroups(), func(g *adminpb.VolumeGroup) string { return g.GetId() }))
				require.Equal(t, tc.next, resp.GetNext())
			}
		})
	}
	one, err := w.server.VolumeGroups(ctx, &adminpb.VolumeGroupsRequest{Group: shop})
	require.NoError(t, err)
	require.Equal(t, []string{string(volume)}, one.GetGroups()[0].GetMembers())
	volumes, err := w.server.Volumes(ctx, &adminpb.VolumesRequest{Volume: string(volume)})
	require.NoError(t, err)
	require.Equal(t, shop, volumes.GetVolumes()[0].GetGroup())
}

func TestStateHasTheVolumeGroups(t *testing.T) {
	w := newEnv(t)
	id := w.groupAt("A", "shop", 1)
	out := &collector[adminpb.StateResponse]{}
	require.NoError(t, w.server.State(&adminpb.StateRequest{}, out))
	require.Equal(t, id, out.got[len(out.got)-1].GetVolumeGroup().GetId())
	require.Equal(t, "A", out.got[len(out.got)-1].GetVolumeGroup().GetOrigin())
}
