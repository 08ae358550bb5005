package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestTheAddressOfAHostInANetwork(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("fd00::7"), netip.MustParseAddr("10.1.2.3")}
	for network, want := range map[string]string{
		"10.1.0.0/16": "10.1.2.3", "fd00::/64": "fd00::7", "10.2.0.1/32": "10.2.0.1",
		"10.0.0.0/8": "this host has 10.1.2.3 and 10.2.0.1 in it", "192.0.2.0/24": "this host has no address in it, but [127.0.0.1 10.1.2.3",
	} {
		a, err := addressIn(netip.MustParsePrefix(network), own)
		if err != nil {
			require.ErrorContains(t, err, want)
			continue
		}
		require.Equal(t, want, a.String(), network)
	}
}

func TestANetworkIsReplacedByTheHostsAddress(t *testing.T) {
	for given, want := range map[string]string{"127.0.0.1/8": "127.0.0.1", "10.1.2.3": "10.1.2.3", "": ""} {
		o := &options{replicationAddress: given}
		require.NoError(t, o.resolveReplicationAddress())
		require.Equal(t, want, o.replicationAddress)
		require.NoError(t, o.resolveReplicationAddress(), "twice")
	}
	for given, code := range map[string]int{"10.0.0.0/33": exit.Usage, "host/8": exit.Usage, "/": exit.Usage, "203.0.113.255/32": exit.Unavailable} {
		err := (&options{replicationAddress: given}).resolveReplicationAddress()
		require.Equal(t, code, exit.Code(err), given)
	}
}
