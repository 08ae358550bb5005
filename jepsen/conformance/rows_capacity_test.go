package conformance

import (
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// badRange makes a row: a range has this code in all calls that take one.
func badRange(want codes.Code, required, limit int64) rowTest {
	return rowOf(func(k *fixture) {
		k.requireCreateRejected(want, k.newCreateRequest(withSize(required, limit)))
		v := k.createVolume()
		r := &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}
		for range 2 {
			_, err := k.controller.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.GetVolumeId(), CapacityRange: r})
			requireRefused(k.t, err, want)
			_, err = k.env.Node(k.t).NodeExpandVolume(k.ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.GetVolumeId(), VolumePath: k.env.Path("none"), CapacityRange: r})
			requireRefused(k.t, err, want)
		}
		requireSame(k, v, k.get(v.GetVolumeId()).GetVolume())
	})
}

const extent = 4096

var capacityRangeRows = map[string]rowTest{
	"CSI-CTRL-CapacityRange-01": badRange(codes.InvalidArgument, 0, 0),
	"CSI-CTRL-CapacityRange-02": badRange(codes.InvalidArgument, -1, 0),
	"CSI-CTRL-CapacityRange-03": badRange(codes.InvalidArgument, 0, -1),
	"CSI-CTRL-CapacityRange-04": rowOf(func(k *fixture) {
		const exact = 20 * harness.Mi
		require.EqualValues(k.t, exact, k.createVolume(withSize(exact, exact)).GetCapacityBytes())
		require.EqualValues(k.t, exact+extent, k.createVolume(withSize(exact+extent, exact+extent)).GetCapacityBytes())
		k.requireCreateRejected(codes.OutOfRange, k.newCreateRequest(withSize(exact+1, exact+1)))
	}),
	"CSI-CTRL-CapacityRange-05": badRange(codes.InvalidArgument, 64*harness.Mi, 32*harness.Mi),
	"CSI-CTRL-CapacityRange-06": rowOf(func(k *fixture) {
		for _, more := range []int64{0, 1, extent - 1, extent, extent + 1} {
			v := k.createVolume(withSize(16*harness.Mi+more, 0))
			require.GreaterOrEqual(k.t, v.GetCapacityBytes(), 16*harness.Mi+more)
		}
	}),
	"CSI-CTRL-CapacityRange-07": rowOf(func(k *fixture) {
		k.requireCreateRejected(codes.OutOfRange, k.newCreateRequest(withSize(16*harness.Mi+1, 16*harness.Mi+2)))
		require.EqualValues(k.t, 16*harness.Mi, k.createVolume(withSize(16*harness.Mi, 16*harness.Mi+1)).GetCapacityBytes())
		require.LessOrEqual(k.t, k.createVolume(withSize(0, 16*harness.Mi-1)).GetCapacityBytes(), int64(16*harness.Mi-1))
	}),
	"CSI-CTRL-CapacityRange-08": rowOf(func(k *fixture) {
		require.GreaterOrEqual(k.t, k.createVolume(withSize(2<<30, 0)).GetCapacityBytes(), int64(2<<30))
		require.Positive(k.t, k.createVolume(withSize(0, 32*harness.Mi)).GetCapacityBytes())
	}),
}

func (k *fixture) capacity(req *csi.GetCapacityRequest) *csi.GetCapacityResponse {
	k.t.Helper()
	res, err := k.controller.GetCapacity(k.ctx, req)
	require.NoError(k.t, err)
	require.GreaterOrEqual(k.t, res.GetAvailableCapacity(), int64(0))
	require.GreaterOrEqual(k.t, res.GetMaximumVolumeSize().GetValue(), int64(0))
	require.GreaterOrEqual(k.t, res.GetMinimumVolumeSize().GetValue(), int64(0))
	return res
}

// untilFreeSpaceIsSteady asks until agrees does: what is free is the disk's, and others write there, so that a contradiction
// counts when it stays.
func (k *fixture) untilFreeSpaceIsSteady(what string, agrees func() (bool, error)) {
	k.t.Helper()
	require.NoError(k.t, harness.Poll(k.ctx, time.Minute, what, agrees))
}

func capacityOf(caps ...*csi.VolumeCapability) *csi.GetCapacityRequest {
	return &csi.GetCapacityRequest{VolumeCapabilities: caps}
}

var getCapacityRows = map[string]rowTest{
	"CSI-CTRL-GetCapacity-02": rowOf(func(k *fixture) {
		require.Positive(k.t, k.capacity(capacityOf(mountCapability(writer, "ext4"))).GetAvailableCapacity())
		require.Zero(k.t, k.capacity(capacityOf(mountCapability(multiNodeMultiWriter, "ext4"))).GetAvailableCapacity())
		require.Zero(k.t, k.capacity(capacityOf(mountCapability(writer, "ext4"), blockCapability(writer))).GetAvailableCapacity())
	}),
	"CSI-CTRL-GetCapacity-03": rowOf(func(k *fixture) {
		one := k.capacity(&csi.GetCapacityRequest{Parameters: map[string]string{"replicas": "1"}})
		require.Equal(k.t, one.GetAvailableCapacity(), k.capacity(&csi.GetCapacityRequest{}).GetAvailableCapacity())
		for _, unknown := range []map[string]string{{"replicas": "3"}, {"colour": "blue"}} {
			_, err := k.controller.GetCapacity(k.ctx, &csi.GetCapacityRequest{Parameters: unknown})
			requireRefused(k.t, err, codes.InvalidArgument)
		}
	}),
	"CSI-CTRL-GetCapacity-04": rowOf(func(k *fixture) {
		here := func(t *csi.Topology) int64 {
			return k.capacity(&csi.GetCapacityRequest{AccessibleTopology: t}).GetAvailableCapacity()
		}
		one, two := nodeTerms("n1")[0], nodeTerms("n2")[0]
		require.Positive(k.t, here(one))
		require.Positive(k.t, here(two))
		require.Zero(k.t, here(nodeTerms("nowhere")[0]))
		k.untilFreeSpaceIsSteady("nodes to add up to the cluster, and a volume to take its size of its node", func() (bool, error) {
			before := [3]int64{here(one), here(two), here(nil)}
			v := k.createVolume(withSize(1<<30, 0))
			after := [2]int64{here(one), here(two)}
			if before[0]+before[1] == before[2] && before[0]-1<<30 == after[0] && before[1] == after[1] {
				return true, nil
			}
			require.NoError(k.t, k.env.CO.Delete(k.ctx, &harness.Volume{ID: v.GetVolumeId()}))
			return false, fmt.Errorf("n1, n2 and all had %d free, and with a volume of 1 GiB n1 and n2 have %d", before, after)
		})
	}),
	"CSI-CTRL-GetCapacity-05": rowOf(func(k *fixture) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.env.Conn(k.t, "c1")))
		k.requireCannotDisable("VOLUME_ACCESSIBILITY_CONSTRAINTS")
		_, err := k.controller.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: topologyTerm("/", "x")})
		requireRefused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-CTRL-GetCapacity-06": rowOf(func(k *fixture) {
		k.fillNode()
		k.capacity(&csi.GetCapacityRequest{AccessibleTopology: nodeTerms("n2")[0]})
	}),
	"CSI-CTRL-GetCapacity-07": rowOf(func(k *fixture) {
		as := withVolumeCapabilities(blockCapability(writer))
		most := func() int64 { return k.capacity(capacityOf(blockCapability(writer))).GetMaximumVolumeSize().GetValue() }
		k.untilFreeSpaceIsSteady("the maximum to be the most that is made", func() (bool, error) {
			maximum := most()
			for _, above := range []int64{maximum + 1, maximum + extent} {
				v, err := k.controller.CreateVolume(k.ctx, k.newCreateRequest(withoutTopology, as, withSize(above, 0)))
				if err == nil {
					require.NoError(k.t, k.env.CO.Delete(k.ctx, &harness.Volume{ID: v.GetVolume().GetVolumeId()}))
					return false, fmt.Errorf("a volume of %d bytes was made, above the maximum of %d", above, maximum)
				}
				require.Contains(k.t, []codes.Code{codes.OutOfRange, codes.ResourceExhausted}, status.Code(err))
			}
			v, err := k.controller.CreateVolume(k.ctx, k.newCreateRequest(withoutTopology, as, withSize(maximum, maximum)))
			if err != nil {
				return false, err
			}
			require.Equal(k.t, maximum, v.GetVolume().GetCapacityBytes())
			err = k.env.CO.Delete(k.ctx, &harness.Volume{ID: v.GetVolume().GetVolumeId()})
			return err == nil, err
		})
	}),
	"CSI-CTRL-GetCapacity-08": rowOf(func(k *fixture) {
		for _, as := range []*csi.VolumeCapability{blockCapability(writer), mountCapability(writer, "ext4"), mountCapability(writer, "xfs")} {
			least := k.capacity(capacityOf(as)).GetMinimumVolumeSize().GetValue()
			require.Equal(k.t, least, k.createVolume(withVolumeCapabilities(as), withSize(0, least)).GetCapacityBytes())
			k.requireCreateRejected(codes.OutOfRange, k.newCreateRequest(withVolumeCapabilities(as), withSize(0, least-1)))
		}
	}),
	"CSI-CTRL-GetCapacity-09": rowOf(func(k *fixture) {
		least := func(as *csi.VolumeCapability) int64 {
			return k.capacity(capacityOf(as)).GetMinimumVolumeSize().GetValue()
		}
		require.Less(k.t, least(blockCapability(writer)), least(mountCapability(writer, "ext4")))
		require.Less(k.t, least(mountCapability(writer, "ext4")), least(mountCapability(writer, "xfs")))
	}),
	"CSI-CTRL-GetCapacity-11": rowOf(func(k *fixture) {
		least := func(fsType string) int64 {
			req := capacityOf(mountCapability(writer, ""))
			req.Parameters = map[string]string{"fsType": fsType}
			return k.capacity(req).GetMinimumVolumeSize().GetValue()
		}
		require.Less(k.t, least("ext4"), least("xfs"))
	}),
	"CSI-CTRL-GetCapacity-12": rowOf(func(k *fixture) {
		res := k.capacity(&csi.GetCapacityRequest{AccessibleTopology: nodeTerms("nowhere")[0]})
		require.Nil(k.t, res.GetMaximumVolumeSize())
		require.Nil(k.t, res.GetMinimumVolumeSize())
	}),
}

var disabledCapacityRows = map[string]rowTest{
	"CSI-CTRL-GetCapacity-01": rowSwitchable(csi.ControllerServiceCapability_RPC_GET_CAPACITY, func(k *fixture, c csi.ControllerClient) error {
		_, err := c.GetCapacity(k.ctx, &csi.GetCapacityRequest{})
		return err
	}),
}
