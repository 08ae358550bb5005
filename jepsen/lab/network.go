package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Network is one of the three networks of a lab, each a bridge of its own.
type Network int

// The networks: a guest's vec0, vec1 and vec2.
const (
	// Replication carries DRBD.
	Replication Network = iota + 1
	// Management is between the driver, that is the test on the host, and the agents.
	Management
	// API carries Raft and the API of the controllers.
	API
)

// Networks are all three.
var Networks = []Network{Replication, Management, API}

// letters name the devices on the host: hf<lab><letter><guest>.
var letters = map[Network]string{Replication: "r", Management: "m", API: "a"}

func (n Network) String() string {
	return map[Network]string{Replication: "replication", Management: "management", API: "API"}[n]
}

// Interface is the network's name in a guest.
func (n Network) Interface() string { return fmt.Sprintf("vec%d", int(n)-1) }

// subnet is the third number of the network's addresses: 10, 11 and 12 for lab 0, four apart.
func (l *Lab) subnet(n Network) int { return 10 + 4*l.Number + int(n) - 1 }

// IP is a guest's address on a network.
func (l *Lab) IP(n Network, guest int) string {
	return fmt.Sprintf("10.99.%d.%d", l.subnet(n), guest)
}

// IP is the guest's address on a network.
func (g *Guest) IP(n Network) string { return g.lab.IP(n, g.Index) }

// networkUp makes the bridges and the taps. The host is .254 on the management network
// and has no address on the others.
func (l *Lab) networkUp(ctx context.Context) error {
	var batch strings.Builder
	for _, n := range Networks {
		bridge := l.paths.Bridge(letters[n])
		fmt.Fprintf(&batch, "link add %s type bridge forward_delay 0\n", bridge)
		for _, g := range l.guests {
			tap := l.paths.Tap(letters[n], g.Index)
			fmt.Fprintf(&batch, "tuntap add dev %s mode tap\nlink set dev %s master %s up\n", tap, tap, bridge)
		}
	}
	fmt.Fprintf(&batch, "addr add %s/24 dev %s\n", l.IP(Management, 254), l.paths.Bridge(letters[Management]))
	if err := ip(ctx, batch.String()); err != nil {
		return err
	}
	for _, n := range Networks {
		bridge := l.paths.Bridge(letters[n])
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+bridge+"/disable_ipv6", []byte("1"), 0) // a kernel without IPv6 has no such file
		if err := ip(ctx, fmt.Sprintf("link set dev %s up\n", bridge)); err != nil {
			return err
		}
	}
	return l.addNeighbours(ctx)
}

// addNeighbours gives the host the guests' hardware addresses: resolving one before the guest is up takes a
// second.
func (l *Lab) addNeighbours(ctx context.Context) error {
	var batch strings.Builder
	for _, g := range l.guests {
		fmt.Fprintf(&batch, "neigh replace %s lladdr %s dev %s nud permanent\n", g.IP(Management), g.mac(Management), l.paths.Bridge(letters[Management]))
	}
	return ip(ctx, batch.String())
}

// mac returns a fixed address, so that no peer keeps an outdated one after a boot.
func (g *Guest) mac(n Network) string {
	return fmt.Sprintf("02:00:63:%02x:%02x:%02x", g.lab.Number, int(n), g.Index)
}

// ip runs lines of ip(8), and stops at the first that fails.
func ip(ctx context.Context, lines string) error {
	return tool(ctx, lines, "ip", "-batch", "-")
}

// nft runs lines of nft(8), all or none.
func nft(ctx context.Context, lines string) error {
	return tool(ctx, lines, "nft", "-f", "-")
}

func tool(ctx context.Context, input string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s; asked was: %s", argv[0], err, strings.TrimSpace(string(out)), input)
	}
	return nil
}

// networkFaults are the isolations and blocks in force.
type networkFaults struct {
	isolated map[port]bool
	blocked  map[direction]bool
}

type port struct {
	net   Network
	guest int
}

type direction struct {
	net      Network
	from, to int
}

func newNetworkFaults() networkFaults {
	return networkFaults{isolated: map[port]bool{}, blocked: map[direction]bool{}}
}

// Isolate isolates a guest on a network: neither other guests nor the host reach it there. The guest still
// sees its link up, as behind a failed switch. Its other networks are not affected. A tap is never set
// down: a guest's link would not come up again.
func (l *Lab) Isolate(ctx context.Context, n Network, guest int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.networkFaults.isolated[port{n, guest}] = true
	return ip(ctx, fmt.Sprintf("link set dev %s nomaster\n", l.paths.Tap(letters[n], guest)))
}

// IsIsolated reports whether a guest is isolated on a network.
func (l *Lab) IsIsolated(n Network, guest int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.networkFaults.isolated[port{n, guest}]
}

// Reconnect ends an isolation.
func (l *Lab) Reconnect(ctx context.Context, n Network, guest int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.networkFaults.isolated, port{n, guest})
	return ip(ctx, fmt.Sprintf("link set dev %s master %s\n", l.paths.Tap(letters[n], guest), l.paths.Bridge(letters[n])))
}

// Block drops what one guest sends to another on a network. The other direction is not affected.
func (l *Lab) Block(ctx context.Context, n Network, from, to int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.networkFaults.blocked[direction{n, from, to}] = true
	return l.applyFilter(ctx)
}

// Unblock ends a block.
func (l *Lab) Unblock(ctx context.Context, n Network, from, to int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.networkFaults.blocked, direction{n, from, to})
	return l.applyFilter(ctx)
}

// Partition blocks a network between two sides, both ways; guests on neither side reach all.
func (l *Lab) Partition(ctx context.Context, n Network, one, other []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range one {
		for _, b := range other {
			l.networkFaults.blocked[direction{n, a, b}], l.networkFaults.blocked[direction{n, b, a}] = true, true
		}
	}
	return l.applyFilter(ctx)
}

// ReconnectAll ends all isolations and blocks.
func (l *Lab) ReconnectAll(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed []error
	for cut := range l.networkFaults.isolated {
		failed = append(failed, ip(ctx, fmt.Sprintf("link set dev %s master %s\n",
			l.paths.Tap(letters[cut.net], cut.guest), l.paths.Bridge(letters[cut.net]))))
	}
	l.networkFaults = newNetworkFaults()
	return errors.Join(append(failed, l.applyFilter(ctx))...)
}

// applyFilter replaces the lab's nftables table by the isolations and blocks in force, atomically.
func (l *Lab) applyFilter(ctx context.Context) error {
	var rules strings.Builder
	table := l.paths.Table()
	fmt.Fprintf(&rules, "table bridge %s\ndelete table bridge %s\n", table, table)
	fmt.Fprintf(&rules, "table bridge %s {\n chain block {\n  type filter hook forward priority 0;\n", table)
	for d := range l.networkFaults.blocked {
		fmt.Fprintf(&rules, "  iifname %s oifname %s drop\n", l.paths.Tap(letters[d.net], d.from), l.paths.Tap(letters[d.net], d.to))
	}
	rules.WriteString(" }\n}\n")
	return nft(ctx, rules.String())
}
