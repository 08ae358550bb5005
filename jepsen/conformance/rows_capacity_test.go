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
	return with(func(k *kit) {
		k.rejects(want, k.asked(sized(required, limit)))
		v := k.made()
		r := &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}
		for range 2 {
			_, err := k.ctl.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.GetVolumeId(), CapacityRange: r})
			refused(k.t, err, want)
			_, err = k.w.Node(k.t).NodeExpandVolume(k.ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.GetVolumeId(), VolumePath: k.w.Path("none"), CapacityRange: r})
			refused(k.t, err, want)
		}
		requireSame(k, v, k.get(v.GetVolumeId()).GetVolume())
	})
}

const extent = 4096

var capacityRangeRows = map[string]rowTest{
	"CSI-CTRL-CapacityRange-01": badRange(codes.InvalidArgument, 0, 0),
	"CSI-CTRL-CapacityRange-02": badRange(codes.InvalidArgument, -1, 0),
	"CSI-CTRL-CapacityRange-03": badRange(codes.InvalidArgument, 0, -1),
	"CSI-CTRL-CapacityRange-04": with(func(k *kit) {
		const exact = 20 * harness.Mi
		require.EqualValues(k.t, exact, k.made(sized(exact, exact)).GetCapacityBytes())
		require.EqualValues(k.t, exact+extent, k.made(sized(exact+extent, exact+extent)).GetCapacityBytes())
		k.rejects(codes.OutOfRange, k.asked(sized(exact+1, exact+1)))
	}),
	"CSI-CTRL-CapacityRange-05": badRange(codes.InvalidArgument, 64*harness.Mi, 32*harness.Mi),
	"CSI-CTRL-CapacityRange-06": with(func(k *kit) {
		for _, more := range []int64{0, 1, extent - 1, extent, extent + 1} {
			v := k.made(sized(16*harness.Mi+more, 0))
			require.GreaterOrEqual(k.t, v.GetCapacityBytes(), 16*harness.Mi+more)
		}
	}),
	"CSI-CTRL-CapacityRange-07": with(func(k *kit) {
		k.rejects(codes.OutOfRange, k.asked(sized(16*harness.Mi+1, 16*harness.Mi+2)))
		require.EqualValues(k.t, 16*harness.Mi, k.made(sized(16*harness.Mi, 16*harness.Mi+1)).GetCapacityBytes())
		require.LessOrEqual(k.t, k.made(sized(0, 16*harness.Mi-1)).GetCapacityBytes(), int64(16*harness.Mi-1))
	}),
	"CSI-CTRL-CapacityRange-08": with(func(k *kit) {
		require.GreaterOrEqual(k.t, k.made(sized(2<<30, 0)).GetCapacityBytes(), int64(2<<30))
		require.Positive(k.t, k.made(sized(0, 32*harness.Mi)).GetCapacityBytes())
	}),
}

func (k *kit) capacity(req *csi.GetCapacityRequest) *csi.GetCapacityResponse {
	k.t.Helper()
	res, err := k.ctl.GetCapacity(k.ctx, req)
	require.NoError(k.t, err)
	require.GreaterOrEqual(k.t, res.GetAvailableCapacity(), int64(0))
	require.GreaterOrEqual(k.t, res.GetMaximumVolumeSize().GetValue(), int64(0))
	require.GreaterOrEqual(k.t, res.GetMinimumVolumeSize().GetValue(), int64(0))
	return res
}

func capacityOf(caps ...*csi.VolumeCapability) *csi.GetCapacityRequest {
	return &csi.GetCapacityRequest{VolumeCapabilities: caps}
}

var getCapacityRows = map[string]rowTest{
	"CSI-CTRL-GetCapacity-02": with(func(k *kit) {
		require.Positive(k.t, k.capacity(capacityOf(mounted(writer, "ext4"))).GetAvailableCapacity())
		require.Zero(k.t, k.capacity(capacityOf(mounted(manyWriters, "ext4"))).GetAvailableCapacity())
		require.Zero(k.t, k.capacity(capacityOf(mounted(writer, "ext4"), raw(writer))).GetAvailableCapacity())
	}),
	"CSI-CTRL-GetCapacity-03": with(func(k *kit) {
		one := k.capacity(&csi.GetCapacityRequest{Parameters: map[string]string{"replicas": "1"}})
		require.Equal(k.t, one.GetAvailableCapacity(), k.capacity(&csi.GetCapacityRequest{}).GetAvailableCapacity())
		for _, unknown := range []map[string]string{{"replicas": "3"}, {"colour": "blue"}} {
			_, err := k.ctl.GetCapacity(k.ctx, &csi.GetCapacityRequest{Parameters: unknown})
			refused(k.t, err, codes.InvalidArgument)
		}
	}),
	"CSI-CTRL-GetCapacity-04": with(func(k *kit) {
		here := func(t *csi.Topology) int64 {
			return k.capacity(&csi.GetCapacityRequest{AccessibleTopology: t}).GetAvailableCapacity()
		}
		one, two := here(places("n1")[0]), here(places("n2")[0])
		require.Positive(k.t, one)
		require.Positive(k.t, two)
		require.Equal(k.t, one+two, here(nil))
		require.Zero(k.t, here(places("nowhere")[0]))
		k.made(sized(1<<30, 0))
		require.Equal(k.t, one-1<<30, here(places("n1")[0]))
		require.Equal(k.t, two, here(places("n2")[0]))
	}),
	"CSI-CTRL-GetCapacity-05": with(func(k *kit) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.w.Conn(k.t, "c1")))
		k.cannotBeOff("VOLUME_ACCESSIBILITY_CONSTRAINTS")
		_, err := k.ctl.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: segments("/", "x")})
		refused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-CTRL-GetCapacity-06": with(func(k *kit) {
		k.full()
		k.capacity(&csi.GetCapacityRequest{AccessibleTopology: places("n2")[0]})
	}),
	"CSI-CTRL-GetCapacity-07": with(func(k *kit) {
		as := capable(raw(writer))
		most := func() int64 { return k.capacity(capacityOf(raw(writer))).GetMaximumVolumeSize().GetValue() }
		// What is free is the disk's, and others write there: a contradiction counts when it stays.
		require.NoError(k.t, harness.Poll(k.ctx, time.Minute, "the maximum to be the most that is made", func() (bool, error) {
			said := most()
			for _, above := range []int64{said + 1, said + extent} {
				v, err := k.ctl.CreateVolume(k.ctx, k.asked(anywhere, as, sized(above, 0)))
				if err == nil {
					require.NoError(k.t, k.w.CO.Delete(k.ctx, &harness.Volume{ID: v.GetVolume().GetVolumeId()}))
					return false, fmt.Errorf("a volume of %d bytes was made, above the maximum of %d", above, said)
				}
				require.Contains(k.t, []codes.Code{codes.OutOfRange, codes.ResourceExhausted}, status.Code(err))
			}
			v, err := k.ctl.CreateVolume(k.ctx, k.asked(anywhere, as, sized(said, said)))
			if err != nil {
				return false, err
			}
			require.Equal(k.t, said, v.GetVolume().GetCapacityBytes())
			err = k.w.CO.Delete(k.ctx, &harness.Volume{ID: v.GetVolume().GetVolumeId()})
			return err == nil, err
		}))
	}),
	"CSI-CTRL-GetCapacity-08": with(func(k *kit) {
		for _, as := range []*csi.VolumeCapability{raw(writer), mounted(writer, "ext4"), mounted(writer, "xfs")} {
			least := k.capacity(capacityOf(as)).GetMinimumVolumeSize().GetValue()
			require.Equal(k.t, least, k.made(capable(as), sized(0, least)).GetCapacityBytes())
			k.rejects(codes.OutOfRange, k.asked(capable(as), sized(0, least-1)))
		}
	}),
	"CSI-CTRL-GetCapacity-09": with(func(k *kit) {
		least := func(as *csi.VolumeCapability) int64 {
			return k.capacity(capacityOf(as)).GetMinimumVolumeSize().GetValue()
		}
		require.Less(k.t, least(raw(writer)), least(mounted(writer, "ext4")))
		require.Less(k.t, least(mounted(writer, "ext4")), least(mounted(writer, "xfs")))
	}),
	"CSI-CTRL-GetCapacity-11": with(func(k *kit) {
		least := func(fsType string) int64 {
			req := capacityOf(mounted(writer, ""))
			req.Parameters = map[string]string{"fsType": fsType}
			return k.capacity(req).GetMinimumVolumeSize().GetValue()
		}
		require.Less(k.t, least("ext4"), least("xfs"))
	}),
	"CSI-CTRL-GetCapacity-12": with(func(k *kit) {
		res := k.capacity(&csi.GetCapacityRequest{AccessibleTopology: places("nowhere")[0]})
		require.Nil(k.t, res.GetMaximumVolumeSize())
		require.Nil(k.t, res.GetMinimumVolumeSize())
	}),
}

var lessCapacityRows = map[string]rowTest{
	"CSI-CTRL-GetCapacity-01": switched(csi.ControllerServiceCapability_RPC_GET_CAPACITY, func(k *kit, c csi.ControllerClient) error {
		_, err := c.GetCapacity(k.ctx, &csi.GetCapacityRequest{})
		return err
	}),
}
