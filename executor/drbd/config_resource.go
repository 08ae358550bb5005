package drbd

import (
	"fmt"
	"net/netip"
	"regexp"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// resource is the data of the configuration file's template.
type resource struct {
	executor.ResourceConfig
	host, peer       string // names of the two sections; the tools choose the local one by `uname -n`
	local, remote    string // "ipv4 10.0.0.1:7800"
	handler          string
	protocol         string
	options          Options
	nodeID, peerNode int // DRBD 9 only
}

// render returns the text of a resource's file for the kernel's version of DRBD.
func (f *resourceFiles) render(res executor.ResourceConfig, version string) ([]byte, error) {
	filled, err := f.newResource(res)
	if err != nil {
		return nil, err
	}
	if major(version) >= 9 {
		return filled.render9(), nil
	}
	return filled.render84(), nil
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._+@:=-]+$`)
	hexSecret = regexp.MustCompile(`^[0-9a-f]{16,63}$`)
)

// newResource validates everything that goes into the file: a value that the parser reads in
// another way could change another option, or another volume's resource.
func (f *resourceFiles) newResource(res executor.ResourceConfig) (resource, error) {
	host, err := f.config.Hostname()
	if err != nil {
		return resource{}, fmt.Errorf("configure %s: %w", res.Volume, err)
	}
	filled := resource{ResourceConfig: res, host: host, peer: peerName(host, res.PeerNode), handler: f.handler(), options: f.config.Options}
	if res.Node > res.PeerNode {
		filled.nodeID = 1
	}
	filled.peerNode = 1 - filled.nodeID
	switch {
	case !res.Volume.Valid():
		return filled, fsm.Reject(fsm.Invalid, "configure %q: it is no volume", res.Volume)
	case !plainName.MatchString(host):
		return filled, fsm.Reject(fsm.Precondition, "configure %s: this host's name %q cannot be written into DRBD's file", res.Volume, host)
	case !plainPath.MatchString(res.BackingPath):
		return filled, fsm.Reject(fsm.Invalid, "configure %s: the device %q below cannot be written into DRBD's file", res.Volume, res.BackingPath)
	case !hexSecret.MatchString(res.Secret):
		return filled, fsm.Reject(fsm.Invalid, "configure %s: it has no secret", res.Volume)
	case res.Minor == 0 || res.Minor >= 1<<20 || res.Port == 0 || res.Port > 65535:
		return filled, fsm.Reject(fsm.Invalid, "configure %s: minor %d, port %d", res.Volume, res.Minor, res.Port)
	}
	if filled.protocol, err = protocolName(res); err != nil {
		return filled, err
	}
	if filled.local, err = endpoint(res, res.Address); err != nil {
		return filled, err
	}
	filled.remote, err = endpoint(res, res.PeerAddress)
	return filled, err
}

// peerName returns a section name for the peer that differs from this host's own.
func peerName(host string, peer fsm.NodeID) string {
	if name := string(peer); plainName.MatchString(name) && name != host {
		return name
	}
	if host == "peer" {
		return "other"
	}
	return "peer"
}

func protocolName(res executor.ResourceConfig) (string, error) {
	switch res.Protocol {
	case fsmpb.Protocol_PROTOCOL_A:
		return "A", nil
	case fsmpb.Protocol_PROTOCOL_C:
		return "C", nil
	default:
		return "", fsm.Reject(fsm.Invalid, "configure %s: protocol %s", res.Volume, res.Protocol)
	}
}

func endpoint(res executor.ResourceConfig, address string) (string, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Zone() != "" {
		return "", fsm.Reject(fsm.Invalid, "configure %s: %q is no address", res.Volume, address)
	}
	ip = ip.Unmap()
	family := "ipv4"
	if ip.Is6() {
		family = "ipv6"
	}
	return family + " " + netip.AddrPortFrom(ip, uint16(res.Port)).String(), nil
}

// handler is the command that the kernel's helper runs as the fence-peer handler (S13).
func (f *resourceFiles) handler() string {
	command := f.config.Handler + " fence-peer"
	if f.config.Socket != "" {
		command += " --socket " + f.config.Socket
	}
	return command
}
