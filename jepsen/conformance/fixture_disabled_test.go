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

// smallCluster is a cluster of one controller and one node, started when a row needs it.
type smallCluster struct {
	once    sync.Once
	cluster *harness.Cluster
	err     error
}

// start starts it at the first call.
func (s *smallCluster) start(t *testing.T, flags func() []string) *harness.Cluster {
	t.Helper()
	s.once.Do(func() {
		path, err := builder.Path(context.Background())
		if err == nil {
			s.cluster, err = harness.Start(context.Background(), harness.Options{Binary: path, Controllers: 1, Nodes: 1, Flags: flags()})
		}
		s.err = err
	})
	require.NoError(t, s.err)
	return s.cluster
}

// connOf is a connection to a process of a cluster.
func (k *fixture) connOf(c *harness.Cluster, id string) *grpc.ClientConn {
	k.t.Helper()
	l, err := c.Layout()
	require.NoError(k.t, err)
	conn, err := harness.Dial(endpointPath(l, id))
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// disabledCluster has every optional capability disabled.
var disabledCluster smallCluster

// turnedOff are all capabilities without which a CO can work.
var turnedOff = []string{"LIST_VOLUMES", "LIST_VOLUMES_PUBLISHED_NODES", "GET_CAPACITY", "GET_VOLUME",
	"CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "GET_SNAPSHOT", "CLONE_VOLUME", "EXPAND_VOLUME", "MODIFY_VOLUME", "VOLUME_MOUNT_GROUP",
	"CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT", "SNAPSHOT_METADATA_SERVICE",
	"NETWORK_FENCE", "GET_CLIENTS_TO_FENCE", "OFFLINE", "ONLINE", "VOLUME_GROUP", "MODIFY_VOLUME_GROUP", "GET_VOLUME_GROUP", "LIST_VOLUME_GROUPS",
	"ENCRYPTIONKEYROTATION", "VOLUME_REPLICATION"}

// alsoTurnedOff are those of controllers only.
var alsoTurnedOff = []string{"PUBLISH_READONLY", "SINGLE_NODE_MULTI_WRITER"}

// maxPublished is how many volumes its node takes.
const maxPublished = 2

// DisabledCluster returns a cluster of one controller and one node with every optional capability disabled, shared by
// the rows about calls that are not served.
func (w *Env) DisabledCluster(t *testing.T) *harness.Cluster {
	t.Helper()
	return disabledCluster.start(t, func() []string {
		flags := []string{fmt.Sprintf("--node-arg=--max-volumes=%d", maxPublished)}
		for _, name := range turnedOff {
			off := "--disable-capability=" + name
			flags = append(flags, "--controller-arg="+off, "--node-arg="+off)
		}
		for _, name := range alsoTurnedOff {
			flags = append(flags, "--controller-arg=--disable-capability="+name)
		}
		return flags
	})
}

// disabledConn returns a connection to a child of the cluster with every optional capability disabled.
func (k *fixture) disabledConn(id string) *grpc.ClientConn {
	k.t.Helper()
	return k.connOf(k.env.DisabledCluster(k.t), id)
}

// rowServedIff makes a row of a capability: where it is advertised the call is served, and elsewhere the call is
// UNIMPLEMENTED.
func rowServedIff(advertised func(k *fixture, conn *grpc.ClientConn) bool, call func(k *fixture, conn *grpc.ClientConn) error) rowTest {
	return rowServedIffAt("c1", advertised, call)
}

func rowServedIffAt(id string, advertised func(k *fixture, conn *grpc.ClientConn) bool, call func(k *fixture, conn *grpc.ClientConn) error) rowTest {
	return rowOf(func(k *fixture) {
		here, there := k.env.Conn(k.t, id), k.disabledConn(id)
		require.True(k.t, advertised(k, here), "it is not advertised")
		require.NoError(k.t, call(k, here))
		require.False(k.t, advertised(k, there), "it is advertised where it is turned off")
		requireRefused(k.t, call(k, there), codes.Unimplemented)
	})
}

// controllerHas reports whether a controller advertises a capability.
func controllerHas(want csi.ControllerServiceCapability_RPC_Type) func(*fixture, *grpc.ClientConn) bool {
	return func(k *fixture, conn *grpc.ClientConn) bool {
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

// pluginHas reports whether a process advertises a service.
func pluginHas(want csi.PluginCapability_Service_Type) func(*fixture, *grpc.ClientConn) bool {
	return func(k *fixture, conn *grpc.ClientConn) bool {
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
