package cluster

import (
	"context"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// useAddons uses what the raised level brings, beside the load that goes on: groups of volumes and of snapshots, fences, and
// the reclaim of a volume that nobody uses. Afterwards the members have equal states.
func (m *mixedCluster) useAddons() {
	m.t.Helper()
	co := m.NewCO()
	co.Timeout = harness.Patience
	made, err := makeBelongings(m.t.Context(), co, func(sets int) bool { return sets < 3 })
	require.NoError(m.t, err)
	v, err := co.Create(m.t.Context(), harness.Spec{Name: "reclaimed", Node: "n1"})
	require.NoError(m.t, err)
	require.NoError(m.t, co.PublishStageBind(m.t.Context(), v, "n1"))
	data, err := writeTo(v)
	require.NoError(m.t, err)
	require.NoError(m.t, co.UnbindUnstageUnpublish(m.t.Context(), v))
	const unused = "192.0.2.0/28" // of the addresses for documentation: no host has one
	for what, call := range map[string]func(context.Context, grpc.ClientConnInterface) error{
		"reclaim": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := reclaimspace.NewReclaimSpaceControllerClient(conn).ControllerReclaimSpace(ctx, &reclaimspace.ControllerReclaimSpaceRequest{VolumeId: v.ID})
			return err
		},
		"fence and unfence": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			cidrs := []*fence.CIDR{{Cidr: unused}}
			if _, err := fence.NewFenceControllerClient(conn).FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{Cidrs: cidrs}); err != nil {
				return err
			}
			_, err := fence.NewFenceControllerClient(conn).UnfenceClusterNetwork(ctx, &fence.UnfenceClusterNetworkRequest{Cidrs: cidrs})
			return err
		},
	} {
		require.NoError(m.t, co.At(m.t.Context(), what, call))
	}
	require.NoError(m.t, co.PublishStageBind(m.t.Context(), v, "n1"))
	require.NoError(m.t, sameData(v, data))
	require.NoError(m.t, co.UnbindUnstageUnpublish(m.t.Context(), v))
	require.NoError(m.t, co.Delete(m.t.Context(), v))
	require.NoError(m.t, deleteBelongings(m.t.Context(), co, made))
	m.awaitAgreement()
}
