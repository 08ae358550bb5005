package fence_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	spec "github.com/csi-addons/spec/lib/go/fence"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/addons/fence"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const only1 = "192.0.2.1/32"

// twice calls twice, with the same parameters, and requires the code of both.
func (c *fakeCluster) fenceTwice(want codes.Code, parameters map[string]string, texts ...string) {
	c.t.Helper()
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		_, err := c.FenceClusterNetwork(ctx, &spec.FenceClusterNetworkRequest{Parameters: parameters, Cidrs: cidrs(texts...)})
		cancel()
		require.Equal(c.t, want, status.Code(err), "%v", err)
	}
}

func (c *fakeCluster) unfenceTwice(want codes.Code, parameters map[string]string, texts ...string) {
	c.t.Helper()
	for range 2 {
		_, err := c.UnfenceClusterNetwork(context.Background(), &spec.UnfenceClusterNetworkRequest{Parameters: parameters, Cidrs: cidrs(texts...)})
		require.Equal(c.t, want, status.Code(err), "%v", err)
	}
}

// S57: ABORTED until the peer is severed, with the fence standing; the retry joins.
func TestS57_AFenceIsAnsweredWhenItHolds(t *testing.T) {
	c := newCluster(t)
	c.publishedOn1()
	c.fenceTwice(codes.Aborted, nil, only1)
	require.Equal(t, []string{"n1"}, c.fenced())
	c.seen("n2", fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE)
	c.fenceTwice(codes.OK, nil, only1)
}

// S59, S60: a fence, its end, and the way back.
func TestFenceAndUnfence(t *testing.T) {
	c := newCluster(t)
	c.fenceTwice(codes.OK, nil, only1, "198.51.100.7/24")
	require.Equal(t, []string{"n1"}, c.fenced())
	for range 2 {
		list, err := c.ListClusterFence(context.Background(), &spec.ListClusterFenceRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetCidrs(), 2)
		require.Equal(t, only1, list.GetCidrs()[0].GetCidr())
		require.Equal(t, "198.51.100.0/24", list.GetCidrs()[1].GetCidr())
	}
	c.unfenceTwice(codes.OK, nil, "203.0.113.0/24")
	c.site = "B"
	c.unfenceTwice(codes.OK, nil, only1)
	c.site = "A"
	require.Equal(t, []string{"n1"}, c.fenced(), "B fenced nothing")
	c.unfenceTwice(codes.OK, nil, only1)
	require.Equal(t, []string{"n1"}, c.fenced(), "its session is older")
	c.register("n1", "A")
	require.Empty(t, c.fenced())
}

// S60: the hosts that are expected, as GetFenceClients names them.
func TestS60_ExpectedHosts(t *testing.T) {
	for name, tc := range map[string]struct {
		expect string
		want   codes.Code
	}{
		"the host":          {"n1/host-n1", codes.OK},
		"with spaces":       {" n1/host-n1 ", codes.OK},
		"another":           {"n2/host-n2", codes.InvalidArgument},
		"one too many":      {"n1/host-n1,n2/host-n2", codes.InvalidArgument},
		"its predecessor":   {"n1/host-old", codes.InvalidArgument},
		"no host id":        {"n1", codes.InvalidArgument},
		"nothing":           {"", codes.InvalidArgument},
		"an empty one more": {"n1/host-n1,", codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.fenceTwice(tc.want, map[string]string{"expectHosts": tc.expect}, only1)
			require.Equal(t, tc.want == codes.OK, len(c.fenced()) == 1)
		})
	}
}

// S60, S34: what is refused proposes nothing, or changes nothing.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters map[string]string
		cidrs      []string
	}{
		"no CIDR":               {},
		"an empty one":          {cidrs: []string{""}},
		"an address":            {cidrs: []string{"192.0.2.1"}},
		"a mask of 33 bits":     {cidrs: []string{"192.0.2.1/33"}},
		"one bad of two":        {cidrs: []string{only1, "x"}},
		"every node of its own": {cidrs: []string{"192.0.2.0/30"}},
		"everything":            {cidrs: []string{"::/0"}},
		"another site":          {map[string]string{"site": "B"}, []string{only1}},
		"an unknown parameter":  {map[string]string{"clusterId": "x"}, []string{only1}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.fenceTwice(codes.InvalidArgument, tc.parameters, tc.cidrs...)
			require.Empty(t, c.fenced())
		})
	}
	c := newCluster(t)
	c.unfenceTwice(codes.InvalidArgument, nil)
	c.unfenceTwice(codes.InvalidArgument, nil, "x")
	c.unfenceTwice(codes.InvalidArgument, map[string]string{"site": "B"}, only1)
	c.fenceTwice(codes.OK, map[string]string{"site": "A", "csi.storage.k8s.io/x": "y", "clusterID": "of the csi-addons tool"}, "192.0.2.3/32")
	require.Equal(t, []string{"n3"}, c.fenced())
	_, err := c.FenceClusterNetwork(context.Background(), &spec.FenceClusterNetworkRequest{Cidrs: []*spec.CIDR{nil}})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestClientsOfAController(t *testing.T) {
	c := newCluster(t)
	for range 2 {
		resp, err := c.GetFenceClients(context.Background(), &spec.GetFenceClientsRequest{})
		require.NoError(t, err)
		require.Len(t, resp.GetClients(), 2, "its own site's")
		first := resp.GetClients()[0]
		require.Equal(t, "n1/host-n1", first.GetId())
		require.Equal(t, only1, first.GetAddresses()[0].GetCidr())
		require.Equal(t, "fd00::1/128", first.GetAddresses()[1].GetCidr())
	}
	_, err := c.GetFenceClients(context.Background(), &spec.GetFenceClientsRequest{Parameters: map[string]string{"site": "B"}})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestANodeIsItself(t *testing.T) {
	host := fence.Host{Node: "n1", Host: "h", Site: "A", Addresses: func() []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.1")}
	}}
	s := fence.NewNode(host)
	for range 2 {
		resp, err := s.GetFenceClients(context.Background(), &spec.GetFenceClientsRequest{})
		require.NoError(t, err)
		require.Len(t, resp.GetClients(), 1)
		require.Equal(t, "n1/h", resp.GetClients()[0].GetId())
		require.Len(t, resp.GetClients()[0].GetAddresses(), 1)
	}
	_, err := s.GetFenceClients(context.Background(), &spec.GetFenceClientsRequest{Parameters: map[string]string{"site": "B"}})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = s.FenceClusterNetwork(context.Background(), &spec.FenceClusterNetworkRequest{Cidrs: cidrs(only1)})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	_, err = fence.NewNode(host, fence.GetClients).GetFenceClients(context.Background(), &spec.GetFenceClientsRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

func TestDisabled(t *testing.T) {
	c := newCluster(t, fence.NetworkFence)
	c.fenceTwice(codes.Unimplemented, nil, only1)
	c.unfenceTwice(codes.Unimplemented, nil, only1)
	_, err := c.ListClusterFence(context.Background(), &spec.ListClusterFenceRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	_, err = c.GetFenceClients(context.Background(), &spec.GetFenceClientsRequest{})
	require.NoError(t, err)
	require.Zero(t, c.proposed)
}
