package daemon

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestDisabledCapabilities(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  Disabled
		grows bool
	}{
		"none": {grows: true},
		"one that controllers and nodes have": {names: []string{"EXPAND_VOLUME"}, want: Disabled{
			Controller: []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_EXPAND_VOLUME},
			Node:       []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_EXPAND_VOLUME}}},
		"a group's, which leaves nothing of its service": {names: []string{"create_delete_get_volume_group_snapshot"}, grows: true, want: Disabled{
			Group:    []csi.GroupControllerServiceCapability_RPC_Type{csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT},
			Services: []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE}}},
		"one of CSI-Addons": {names: []string{"modify_volume_group"}, grows: true, want: Disabled{Addons: []string{"MODIFY_VOLUME_GROUP"}}},
		"a whole service": {names: []string{"SNAPSHOT_METADATA_SERVICE"}, grows: true, want: Disabled{
			Services: []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE}}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				off, err := (&DisableFlags{names: tc.names}).Disabled()
				require.NoError(t, err)
				require.Equal(t, tc.want, off)
				require.Equal(t, !tc.grows, off.HasExpansion())
			}
		})
	}
	for _, name := range []string{"", "UNKNOWN", "FLYING", "CREATE_DELETE_VOLUME", "STAGE_UNSTAGE_VOLUME"} {
		_, err := (&DisableFlags{names: []string{name}}).Disabled()
		require.Equal(t, exit.Usage, exit.Code(err), name)
	}
}

func TestDisableCapabilityIsRepeatable(t *testing.T) {
	var o DisableFlags
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	o.Add(flags)
	require.NoError(t, flags.Parse([]string{"--disable-capability", "EXPAND_VOLUME", "--disable-capability=CLONE_VOLUME"}))
	off, err := o.Disabled()
	require.NoError(t, err)
	require.Len(t, off.Controller, 2)
}
