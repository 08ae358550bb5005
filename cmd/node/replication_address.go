package node

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// resolveReplicationAddress puts this host's address in the place of a network, which is the same for all hosts.
func (o *options) resolveReplicationAddress() error {
	if !strings.Contains(o.replicationAddress, "/") {
		return nil
	}
	network, err := netip.ParsePrefix(o.replicationAddress)
	if err != nil {
		return exit.Usagef("--replication-address %q is no network: write it as 10.1.0.0/16", o.replicationAddress)
	}
	own, err := ownAddresses()
	if err != nil {
		return exit.Unavailablef("--replication-address %s: list this host's addresses: %w", network, err)
	}
	a, err := addressIn(network.Masked(), own)
	if err != nil {
		return exit.Unavailablef("--replication-address %s: %w", network, err)
	}
	o.replicationAddress = a.String()
	return nil
}

// addressIn is the only one of a host's addresses that is in a network.
func addressIn(network netip.Prefix, own []netip.Addr) (found netip.Addr, err error) {
	for _, a := range own {
		switch {
		case !network.Contains(a) || a == found:
		case found.IsValid():
			return netip.Addr{}, fmt.Errorf("this host has %s and %s in it: name a smaller one, or an address", found, a)
		default:
			found = a
		}
	}
	if !found.IsValid() {
		return netip.Addr{}, fmt.Errorf("this host has no address in it, but %v", own)
	}
	return found, nil
}

// ownAddresses are those of all interfaces.
func ownAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	own := make([]netip.Addr, 0, len(all))
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own, err
}
