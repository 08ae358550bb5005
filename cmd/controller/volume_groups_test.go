package controller

import (
	"testing"

	addonsspec "github.com/csi-addons/spec/lib/go/identity"
	groupspec "github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	addonsidentity "github.com/holdfast-storage/holdfast/addons/identity"
)

// advertised are the names of the capabilities that the socket advertises, and what a call that needs
// GET_VOLUME_GROUP answers there.
func (b *testController) advertised() (names []string, get error) {
	conn, err := grpc.NewClient(b.opts.CSIEndpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, conn.Close()) }()
	resp, err := addonsspec.NewIdentityClient(conn).GetCapabilities(b.t.Context(), &addonsspec.GetCapabilitiesRequest{})
	require.NoError(b.t, err)
	for _, c := range resp.GetCapabilities() {
		if c.GetVolumeGroup() == nil && c.GetService() == nil {
			continue // another service's
		}
		names = append(names, addonsidentity.Name(c))
	}
	_, get = groupspec.NewControllerClient(conn).ControllerGetVolumeGroup(b.t.Context(), &groupspec.ControllerGetVolumeGroupRequest{VolumeGroupId: "none"})
	return names, get
}

// ADD-VG-Svc-02, -03, -Get-01, -Delete-04: what the flags say is what is advertised and served.
func TestVolumeGroupsAreServedAsTheFlagsSay(t *testing.T) {
	all := []string{"VOLUME_GROUP", "MODIFY_VOLUME_GROUP", "GET_VOLUME_GROUP", "LIST_VOLUME_GROUPS", "LIMIT_VOLUME_TO_ONE_VOLUME_GROUP"}
	for name, tc := range map[string]struct {
		flags map[string]string
		want  []string
		get   codes.Code
	}{
		"by default":        {want: append([]string{"CONTROLLER_SERVICE"}, all...), get: codes.NotFound},
		"refuse-nonempty":   {flags: map[string]string{"volume-group-delete": "refuse-nonempty"}, want: append([]string{"CONTROLLER_SERVICE", "DO_NOT_ALLOW_VG_TO_DELETE_VOLUMES"}, all...), get: codes.NotFound},
		"without one of it": {flags: map[string]string{"disable-capability": "GET_VOLUME_GROUP"}, want: []string{"CONTROLLER_SERVICE", all[0], all[1], all[3], all[4]}, get: codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestController(t)
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			b.opts.disabled.Add(flags)
			b.opts.groups.add(flags)
			for flag, value := range tc.flags {
				require.NoError(t, flags.Set(flag, value))
			}
			c := b.start()
			defer b.stopAndWait()
			require.Len(t, c.csi.GetServiceInfo()["volumegroup.Controller"].Methods, 5)
			for range 2 {
				names, err := b.advertised()
				require.Subset(t, names, tc.want)
				require.Subset(t, tc.want, names)
				require.Equal(t, tc.get, status.Code(err), err)
			}
		})
	}
}
