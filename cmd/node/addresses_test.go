package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostAddresses(t *testing.T) {
	o := &options{fenceAddresses: []string{"192.0.2.7", "::ffff:192.0.2.8"}, replicationAddress: "fd00::1", endpoints: []string{"127.0.0.1:9", "not an address"}}
	for range 2 {
		require.Equal(t, []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8"), netip.MustParseAddr("fd00::1")}, o.hostAddresses(),
			"a loopback is every host's")
		require.Equal(t, []string{"192.0.2.7", "192.0.2.8", "fd00::1"}, o.addressTexts())
	}
	for _, bad := range []string{"", "host", "192.0.2.0/24", "fe80::1%eth0"} {
		_, err := (&options{fenceAddresses: []string{bad}}).givenAddresses()
		require.Error(t, err, bad)
	}
}
