package machine

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// ip runs the ip program in the network of a machine.
func (c Config) ip(ctx context.Context, args ...string) error {
	pid, err := c.PID()
	if err != nil {
		return err
	}
	full := append([]string{"-t", strconv.Itoa(pid), "-n", "ip"}, args...)
	if out, err := exec.CommandContext(ctx, "nsenter", full...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s in the network of %s: %w: %s", strings.Join(args, " "), c.Name, err, out)
	}
	return nil
}

// bridge is the name of the switch in the machine that has one.
const bridge = "switch"

// MakeSwitch gives the machine a switch, on which the machine itself has an address (with the length of its prefix).
func (c Config) MakeSwitch(ctx context.Context, address string) error {
	return c.ips(ctx, "link add "+bridge+" type bridge", "link set "+bridge+" up", "addr add "+address+" dev "+bridge)
}

// Plug connects the machine to the switch of another, with an address and the default route through gateway.
func (c Config) Plug(ctx context.Context, into Config, address, gateway string) error {
	if err := c.cable(ctx, into); err != nil {
		return err
	}
	return c.ips(ctx, "addr add "+address+" dev eth0", "link set eth0 up", "route add default via "+gateway)
}

func (c Config) cable(ctx context.Context, into Config) error {
	pid, err := c.PID()
	if err != nil {
		return err
	}
	port := "to-" + c.Name
	return into.ips(ctx, fmt.Sprintf("link add %s type veth peer name eth0 netns %d", port, pid), fmt.Sprintf("link set %s master %s up", port, bridge))
}

// Route sends what is for a network through an address.
func (c Config) Route(ctx context.Context, network, via string) error {
	return c.ips(ctx, "route replace "+network+" via "+via)
}

// Unplug takes the machine's cable out, or puts it in again.
func (c Config) Unplug(ctx context.Context, out bool, gateway string) error {
	if out {
		return c.ips(ctx, "link set eth0 down")
	}
	return c.ips(ctx, "link set eth0 up", "route replace default via "+gateway)
}

func (c Config) ips(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		if err := c.ip(ctx, strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}
