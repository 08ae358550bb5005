package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// configuredCluster has small limits for volume groups, keeps what they have, and wants a token.
var configuredCluster smallCluster

// maxGrouped is how many volumes a group of it can have; addonsToken is its token.
const (
	maxGrouped  = 3
	addonsToken = "conformance-token"
)

// withToken are secrets with the token of the configured cluster.
func withToken() map[string]string { return map[string]string{"holdfastToken": addonsToken} }

// ConfiguredCluster is shared by the rows about what is configured of CSI-Addons.
func (w *Env) ConfiguredCluster(t *testing.T) *harness.Cluster {
	t.Helper()
	return configuredCluster.start(t, func() []string {
		file := filepath.Join(w.Cluster.Base, "addons-token")
		require.NoError(t, os.WriteFile(file, []byte(addonsToken+"\n"), 0o600))
		token := "--addons-token-file=" + file
		return []string{"--controller-arg=" + token, "--node-arg=" + token, "--controller-arg=--volume-group-delete=refuse-nonempty",
			fmt.Sprintf("--controller-arg=--volume-group-max-volumes=%d", maxGrouped)}
	})
}

// configuredConn is a connection to a process of it.
func (k *fixture) configuredConn(id string) *grpc.ClientConn {
	k.t.Helper()
	return k.connOf(k.env.ConfiguredCluster(k.t), id)
}

// configuredGroup makes a group of so many new volumes there, and further volumes; all goes with the row.
func (k *fixture) configuredGroup(members, further int) (group string, volumes []string) {
	k.t.Helper()
	ctl, groups := csi.NewControllerClient(k.configuredConn("c1")), volumegroup.NewControllerClient(k.configuredConn("c1"))
	for range members + further {
		var res *csi.CreateVolumeResponse
		req := k.newCreateRequest()
		k.untilOK(func() (err error) {
			res, err = ctl.CreateVolume(k.ctx, req)
			return err
		})
		id := res.GetVolume().GetVolumeId()
		k.cleanUpWith(func(ctx context.Context) error {
			_, err := ctl.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		})
		volumes = append(volumes, id)
	}
	res, err := groups.CreateVolumeGroup(k.ctx, &volumegroup.CreateVolumeGroupRequest{Name: k.env.Name("set"), VolumeIds: volumes[:members], Secrets: withToken()})
	require.NoError(k.t, err)
	group = res.GetVolumeGroup().GetVolumeGroupId()
	k.cleanUpWith(func(ctx context.Context) error { return dissolve(ctx, groups, group, withToken()) })
	return group, volumes
}

// dissolve takes all volumes out of a group and deletes it.
func dissolve(ctx context.Context, groups volumegroup.ControllerClient, id string, secrets map[string]string) error {
	_, err := groups.ModifyVolumeGroupMembership(ctx, &volumegroup.ModifyVolumeGroupMembershipRequest{VolumeGroupId: id, Secrets: secrets})
	if ignoreCode(err, codes.NotFound) != nil {
		return err
	}
	_, err = groups.DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id, Secrets: secrets})
	return err
}
