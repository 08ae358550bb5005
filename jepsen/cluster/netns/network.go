package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
)

// The addresses of every network: they are alike in all, because networks never meet.
const (
	subnet   = "10.203.0"
	operator = subnet + ".254" // of the bridge, from where all hosts are reached
	width    = "/24"
	firstEnd = 11 // of the first host's address
	lastEnd  = 250
)

// Network is a bridge with hosts. Its methods may be called concurrently.
type Network struct {
	bridge *namespace

	mu    sync.Mutex
	hosts []*Host
	cuts  Shape
	next  int
}

// WhyUnavailable says why there can be no network here, empty when there can.
func WhyUnavailable() string {
	if os.Geteuid() != 0 {
		return "needs root for network namespaces"
	}
	for _, tool := range []string{"ip", "nft", "ss"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "needs " + tool + ": apt-get install iproute2 nftables"
		}
	}
	return ""
}

// New makes a network without hosts.
func New(ctx context.Context) (*Network, error) {
	bridge, err := newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	n := &Network{bridge: bridge, next: firstEnd}
	err = bridge.run(ctx, "link add br0 type bridge\naddr add "+operator+width+" dev br0\nlink set br0 up\n", "ip", "-batch", "-")
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("make a bridge: %w", err)
	}
	return n, nil
}

// Add makes a host on the bridge. The name is for messages only; no two hosts have one address.
func (n *Network) Add(ctx context.Context, name string) (*Host, error) {
	n.mu.Lock()
	end := n.next
	n.next++
	n.mu.Unlock()
	if end > lastEnd {
		return nil, errors.New("the network has no address left")
	}
	space, err := newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	h := &Host{namespace: space, name: name, address: fmt.Sprintf("%s.%d", subnet, end)}
	if err := errors.Join(n.connect(ctx, h, end), h.makeRules(ctx)); err != nil {
		space.close()
		return nil, fmt.Errorf("add %s to the network: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts = append(n.hosts, h)
	return h, nil
}

// connect gives a host its interface on the bridge.
func (n *Network) connect(ctx context.Context, h *Host, end int) error {
	port := fmt.Sprintf("p%d", end)
	err := n.bridge.run(ctx, fmt.Sprintf("link add %s type veth peer name eth0 netns %s\nlink set %s master br0 up\n", port, h.path(), port), "ip", "-batch", "-")
	if err != nil {
		return err
	}
	return h.run(ctx, "addr add "+h.address+width+" dev eth0\nlink set eth0 up\n", "ip", "-batch", "-")
}

// Remove lets a host go whose processes have ended.
func (n *Network) Remove(h *Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts = slices.DeleteFunc(n.hosts, func(other *Host) bool { return other == h })
	h.close()
}

// Hosts are the hosts in the order in which they were added.
func (n *Network) Hosts() []*Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.hosts)
}

// Start starts a command that reaches all hosts, whatever is cut between them.
func (n *Network) Start(cmd *exec.Cmd) error { return n.bridge.start(cmd) }

// Close lets all go. Processes that were started with a parent-death signal end.
func (n *Network) Close() {
	for _, h := range n.Hosts() {
		n.Remove(h)
	}
	n.bridge.close()
}
