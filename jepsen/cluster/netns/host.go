package netns

import (
	"context"
	"net"
	"os/exec"
)

// Host is one host of a network.
type Host struct {
	*namespace
	name, address string
}

// Name is the name that the host was given.
func (h *Host) Name() string { return h.name }

// Addr is the host's address, without a port.
func (h *Host) Addr() string { return h.address }

// Start starts a command on the host.
func (h *Host) Start(cmd *exec.Cmd) error { return h.start(cmd) }

// Dial connects from the host.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return h.dial(ctx, &net.Dialer{}, network, address)
}

// Listen listens on the host.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return h.listen(ctx, network, address)
}

// Dial connects from the bridge, from where all hosts are reached.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.bridge.dial(ctx, &net.Dialer{}, network, address)
}
