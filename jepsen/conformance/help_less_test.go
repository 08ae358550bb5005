package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// less is a second, small cluster in which everything is turned off that can be.
var less struct {
	once    sync.Once
	cluster *harness.Cluster
	err     error
}

// turnedOff is all that a COs may do without.
var turnedOff = []string{"LIST_VOLUMES", "LIST_VOLUMES_PUBLISHED_NODES", "GET_CAPACITY", "GET_VOLUME",
	"CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "GET_SNAPSHOT", "CLONE_VOLUME", "EXPAND_VOLUME", "MODIFY_VOLUME", "VOLUME_MOUNT_GROUP",
	"CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT", "SNAPSHOT_METADATA_SERVICE"}

// alsoTurnedOff is what only controllers may do without.
var alsoTurnedOff = []string{"PUBLISH_READONLY", "SINGLE_NODE_MULTI_WRITER"}

// maxPublished is how many volumes its node takes.
const maxPublished = 2

// Less is a cluster of one controller and one node in which everything is turned
// off that can be, shared by the rows that ask what is not served.
func (w *World) Less(t *testing.T) *harness.Cluster {
	t.Helper()
	less.once.Do(func() {
		flags := []string{fmt.Sprintf("--node-arg=--max-volumes=%d", maxPublished)}
		for _, name := range turnedOff {
			off := "--disable-capability=" + name
			flags = append(flags, "--controller-arg="+off, "--node-arg="+off)
		}
		for _, name := range alsoTurnedOff {
			flags = append(flags, "--controller-arg=--disable-capability="+name)
		}
		path, err := builder.Path(context.Background())
		if err == nil {
			less.cluster, err = harness.Start(context.Background(), harness.Options{Binary: path, Controllers: 1, Nodes: 1, Flags: flags})
		}
		less.err = err
	})
	require.NoError(t, less.err)
	return less.cluster
}

// lessConn is a connection to a child of the cluster with everything off.
func (k *kit) lessConn(id string) *grpc.ClientConn {
	k.t.Helper()
	l, err := k.w.Less(k.t).Layout()
	require.NoError(k.t, err)
	conn, err := harness.Dial(endpointOf(l, id))
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// served makes a row of a capability: it is advertised and the call is served, and
// where it is not advertised the call is UNIMPLEMENTED.
func servedIff(advertised func(k *kit, conn *grpc.ClientConn) bool, call func(k *kit, conn *grpc.ClientConn) error) rowTest {
	return with(func(k *kit) {
		here, there := k.w.Conn(k.t, "c1"), k.lessConn("c1")
		require.True(k.t, advertised(k, here), "it is not advertised")
		require.NoError(k.t, call(k, here))
		require.False(k.t, advertised(k, there), "it is advertised where it is turned off")
		refused(k.t, call(k, there), codes.Unimplemented)
	})
}

// controllerHas tells whether a controller advertises a capability.
func controllerHas(want csi.ControllerServiceCapability_RPC_Type) func(*kit, *grpc.ClientConn) bool {
	return func(k *kit, conn *grpc.ClientConn) bool {
		res, err := csi.NewControllerClient(conn).ControllerGetCapabilities(k.ctx, &csi.ControllerGetCapabilitiesRequest{})
		require.NoError(k.t, err)
		for _, c := range res.GetCapabilities() {
			if c.GetRpc().GetType() == want {
				return true
			}
		}
		return false
	}
}

// pluginHas tells whether a process advertises a service.
func pluginHas(want csi.PluginCapability_Service_Type) func(*kit, *grpc.ClientConn) bool {
	return func(k *kit, conn *grpc.ClientConn) bool {
		res, err := csi.NewIdentityClient(conn).GetPluginCapabilities(k.ctx, &csi.GetPluginCapabilitiesRequest{})
		require.NoError(k.t, err)
		for _, c := range res.GetCapabilities() {
			if c.GetService().GetType() == want {
				return true
			}
		}
		return false
	}
}
