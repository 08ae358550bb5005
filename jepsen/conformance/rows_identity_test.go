package conformance

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// everyone is all processes of the shared cluster.
var everyone = []string{"c1", "c2", "c3", "n1", "n2"}

var identityRows = map[string]rowTest{
	"CSI-ID-GetPluginInfo-01": withInfo(func(k *fixture, info *csi.GetPluginInfoResponse) {
		for _, label := range strings.Split(info.GetName(), ".") {
			require.Regexp(k.t, `^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`, label)
		}
	}),
	"CSI-ID-GetPluginInfo-02": withInfo(func(k *fixture, info *csi.GetPluginInfoResponse) {
		require.LessOrEqual(k.t, len(info.GetName()), 63)
	}),
	"CSI-ID-GetPluginInfo-03": withInfo(func(k *fixture, info *csi.GetPluginInfoResponse) {
		require.Regexp(k.t, regexp.MustCompile(`^[A-Za-z]([-.A-Za-z0-9]*[A-Za-z])?$`), info.GetName())
	}),
	"CSI-ID-GetPluginInfo-04": withInfo(func(k *fixture, info *csi.GetPluginInfoResponse) { require.NotEmpty(k.t, info.GetName()) }),
	"CSI-ID-GetPluginInfo-05": withInfo(func(k *fixture, info *csi.GetPluginInfoResponse) {
		require.NotEmpty(k.t, info.GetVendorVersion())
		first, err := k.identity("c1").GetPluginInfo(k.ctx, &csi.GetPluginInfoRequest{})
		require.NoError(k.t, err)
		require.Equal(k.t, first.GetVendorVersion(), info.GetVendorVersion())
	}),
	"CSI-ID-GetPluginInfo-06": withInfo(func(k *fixture, info *csi.GetPluginInfoResponse) {
		total := 0
		for key, value := range info.GetManifest() {
			total += len(key) + len(value)
		}
		require.LessOrEqual(k.t, total, 4096)
	}),
	"CSI-ID-GetPluginInfo-08": withInfo(func(k *fixture, info *csi.GetPluginInfoResponse) {
		require.Equal(k.t, "csi.holdfast.storage", info.GetName())
	}),

	"CSI-ID-GetPluginCapabilities-01": withCapabilities(func(k *fixture, res *csi.GetPluginCapabilitiesResponse) {
		require.NotEmpty(k.t, res.GetCapabilities())
	}),
	"CSI-ID-GetPluginCapabilities-03": rowOf(func(k *fixture) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_CONTROLLER_SERVICE)(k, k.env.Conn(k.t, "c1")))
		_, err := k.controller.ListVolumes(k.ctx, &csi.ListVolumesRequest{})
		require.NoError(k.t, err)
	}),
	"CSI-ID-GetPluginCapabilities-04": rowOf(func(k *fixture) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_CONTROLLER_SERVICE)(k, k.env.Conn(k.t, "c1")))
		_, err := k.controller.ControllerGetCapabilities(k.ctx, &csi.ControllerGetCapabilitiesRequest{})
		require.NoError(k.t, err)
		v := k.volume()
		res, err := k.controller.ValidateVolumeCapabilities(k.ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: v.ID, VolumeCapabilities: []*csi.VolumeCapability{v.Capability()}})
		require.NoError(k.t, err)
		require.NotNil(k.t, res.GetConfirmed())
	}),
	"CSI-ID-GetPluginCapabilities-05": rowOf(func(k *fixture) {
		info, err := k.env.Node(k.t).NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
		require.NoError(k.t, err)
		res, err := k.controller.CreateVolume(k.ctx, harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest())
		require.NoError(k.t, err)
		k.deleteVolumeLater(res.GetVolume().GetVolumeId())
		used := len(info.GetAccessibleTopology().GetSegments()) > 0 && len(res.GetVolume().GetAccessibleTopology()) > 0
		require.True(k.t, used)
		require.Equal(k.t, used, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.env.Conn(k.t, "c1")))
	}),
	"CSI-ID-GetPluginCapabilities-06": rowServedIff(pluginHas(csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE), func(k *fixture, conn *grpc.ClientConn) error {
		_, err := csi.NewGroupControllerClient(conn).GroupControllerGetCapabilities(k.ctx, &csi.GroupControllerGetCapabilitiesRequest{})
		return err
	}),
	"CSI-ID-GetPluginCapabilities-07": rowOf(func(k *fixture) {
		expands := controllerHas(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
		for _, conn := range []*grpc.ClientConn{k.env.Conn(k.t, "c1"), k.disabledConn("c1")} {
			require.Equal(k.t, expands(k, conn), online(k, conn))
		}
		require.True(k.t, online(k, k.env.Conn(k.t, "c1")))
		require.False(k.t, online(k, k.disabledConn("c1")))
	}),
	"CSI-ID-GetPluginCapabilities-08": rowOf(func(k *fixture) {
		require.True(k.t, online(k, k.env.Conn(k.t, "c1")))
		v := k.volume()
		k.mountUntilEnd(v)
		res, err := k.controller.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.ID,
			CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}, VolumeCapability: v.Capability()})
		require.NoError(k.t, err)
		require.EqualValues(k.t, 32*harness.Mi, res.GetCapacityBytes())
	}),
	"CSI-ID-GetPluginCapabilities-11": withCapabilities(func(k *fixture, res *csi.GetPluginCapabilitiesResponse) {
		for _, c := range res.GetCapabilities() {
			require.NotNil(k.t, c.GetType())
			known := c.GetService().GetType() != csi.PluginCapability_Service_UNKNOWN || c.GetVolumeExpansion().GetType() != csi.PluginCapability_VolumeExpansion_UNKNOWN
			require.True(k.t, known, "%v", c)
		}
	}),

	"CSI-ID-Probe-01": rowOf(func(k *fixture) {
		for _, id := range everyone {
			_, err := k.identity(id).Probe(k.ctx, &csi.ProbeRequest{})
			k.requireCode("Probe of "+id, err, codes.OK)
		}
	}),
	"CSI-ID-Probe-03": rowOf(func(k *fixture) {
		res := k.waiting().awaitProbe(false)
		require.False(k.t, res.GetReady().GetValue())
	}),
	"CSI-ID-Probe-04": rowOf(func(k *fixture) {
		for _, id := range everyone {
			k.awaitReady(id, k.csiProbe(id))
		}
		_, err := k.controller.ListVolumes(k.ctx, &csi.ListVolumesRequest{})
		require.NoError(k.t, err)
	}),
	"CSI-ID-Probe-05": rowOf(func(k *fixture) {
		require.NotNil(k.t, k.waiting().awaitProbe(false).GetReady(), "a plugin that says nothing counts as ready")
	}),
	"CSI-ID-Probe-08": rowOf(func(k *fixture) {
		before := k.env.inventory(k.t)
		id := k.identity("c1")
		var took []time.Duration
		for range 1000 {
			start := time.Now()
			_, err := id.Probe(k.ctx, &csi.ProbeRequest{})
			require.NoError(k.t, err)
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		require.Less(k.t, took[990], time.Second) // bounded, on a busy machine too
		require.Equal(k.t, before, k.env.inventory(k.t))
	}),
	"CSI-ID-Probe-09": documented("## Probe", "FAILED_PRECONDITION", "ready=false"),
}

func withInfo(see func(k *fixture, info *csi.GetPluginInfoResponse)) rowTest {
	return rowOf(func(k *fixture) {
		for _, id := range everyone {
			info, err := k.identity(id).GetPluginInfo(k.ctx, &csi.GetPluginInfoRequest{})
			require.NoError(k.t, err, id)
			see(k, info)
		}
	})
}

func withCapabilities(see func(k *fixture, res *csi.GetPluginCapabilitiesResponse)) rowTest {
	return rowOf(func(k *fixture) {
		for _, id := range everyone {
			see(k, k.pluginCapabilities(id))
		}
	})
}

func (k *fixture) pluginCapabilities(id string) *csi.GetPluginCapabilitiesResponse {
	k.t.Helper()
	res, err := k.identity(id).GetPluginCapabilities(k.ctx, &csi.GetPluginCapabilitiesRequest{})
	require.NoError(k.t, err, id)
	return res
}

func (k *fixture) identity(id string) csi.IdentityClient {
	return csi.NewIdentityClient(k.env.Conn(k.t, id))
}

func online(k *fixture, conn *grpc.ClientConn) bool {
	res, err := csi.NewIdentityClient(conn).GetPluginCapabilities(k.ctx, &csi.GetPluginCapabilitiesRequest{})
	require.NoError(k.t, err)
	return slices.ContainsFunc(res.GetCapabilities(), func(c *csi.PluginCapability) bool {
		return c.GetVolumeExpansion().GetType() == csi.PluginCapability_VolumeExpansion_ONLINE
	})
}

// waiting returns a controller that tries to join a cluster of which no member answers.
func (k *fixture) waiting() *process {
	p := k.standaloneController("--join", freeAddress(k))
	p.start()
	return p
}

// sameEverywhere requests the capabilities of all processes, before and after the leader died.
func sameEverywhere(k *fixture) {
	first := k.pluginCapabilities("c1")
	same := func() {
		for _, id := range everyone {
			require.True(k.t, proto.Equal(first, k.pluginCapabilities(id)), id)
		}
	}
	same()
	leader, err := k.env.Cluster.Leader(k.ctx)
	require.NoError(k.t, err)
	require.NoError(k.t, k.killAndAwait(leader))
	same()
}

// killAndAwait kills a child of the shared cluster and waits until all processes are ready again.
func (k *fixture) killAndAwait(id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), time.Minute)
	defer cancel()
	l, err := k.env.Cluster.Layout()
	if err != nil {
		return err
	}
	if err := k.env.Cluster.Kill(ctx, id); err != nil {
		return err
	}
	if err := k.env.Cluster.AwaitNewPID(ctx, id, l.PID(id)); err != nil {
		return err
	}
	return k.awaitHealthy(ctx)
}

// awaitHealthy waits until every process says that it is ready.
// csiProbe asks a process with CSI's Probe.
func (k *fixture) csiProbe(id string) func() (*wrapperspb.BoolValue, error) {
	return func() (*wrapperspb.BoolValue, error) {
		res, err := k.identity(id).Probe(k.ctx, &csi.ProbeRequest{})
		return res.GetReady(), err
	}
}

// awaitReady waits until Probe answers that a process is ready: on a busy machine a host may have lost its session for a
// moment, and says so.
func (k *fixture) awaitReady(id string, probe func() (*wrapperspb.BoolValue, error)) {
	k.t.Helper()
	require.NoError(k.t, harness.Poll(k.ctx, 30*time.Second, id+" to be ready", func() (bool, error) {
		ready, err := probe()
		return err == nil && ready.GetValue(), err
	}))
}

func (k *fixture) awaitHealthy(ctx context.Context) error {
	return harness.Poll(ctx, 30*time.Second, "all processes to be ready", func() (bool, error) {
		for _, id := range everyone {
			res, err := k.identity(id).Probe(ctx, &csi.ProbeRequest{})
			if err != nil || !res.GetReady().GetValue() {
				return false, err
			}
		}
		return true, nil
	})
}
