package node

import (
	"net"
	"net/netip"
	"time"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// addressTimeout bounds the look-up of a controller's name.
const addressTimeout = 2 * time.Second

// givenAddresses are the addresses of --fence-address, and that of the replication.
func (o *options) givenAddresses() ([]netip.Addr, error) {
	var all []netip.Addr
	for _, text := range o.fenceAddresses {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return nil, exit.Usagef("--fence-address %q is no IP address", text)
		}
		all = append(all, a.Unmap())
	}
	if a, err := netip.ParseAddr(o.replicationAddress); err == nil {
		all = append(all, a.WithZone("").Unmap())
	}
	return all, nil
}

// hostAddresses are the addresses by which a fence finds this host: those that are given, and those from
// which it reaches the controllers now.
func (o *options) hostAddresses() []netip.Addr {
	all, _ := o.givenAddresses() // checked at the start
	for _, endpoint := range o.endpoints {
		if a, ok := localAddress(endpoint); ok {
			all = append(all, a)
		}
	}
	return all
}

// addressTexts are hostAddresses as a host registers them.
func (o *options) addressTexts() []string {
	var texts []string
	for _, a := range o.hostAddresses() {
		texts = append(texts, a.String())
	}
	return texts
}

// localAddress is the address from which this host reaches the endpoint. Nothing is sent. One that other
// hosts have too, as a loopback, is none.
func localAddress(endpoint string) (netip.Addr, bool) {
	conn, err := net.DialTimeout("udp", endpoint, addressTimeout)
	if err != nil {
		return netip.Addr{}, false
	}
	defer func() { _ = conn.Close() }()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	a := local.AddrPort().Addr().WithZone("").Unmap()
	return a, a.IsGlobalUnicast()
}
