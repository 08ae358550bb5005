package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Unavailable is the exit code of a command of holdfast that did not reach a controller, a leader or a host that it needs.
const Unavailable = 3

// adminFrom runs an operator's command of holdfast on this host, such as "volumes", "-o", "json", with its
// connections from a guest. It returns the standard output, and with an exit code other than 0 also the
// standard error.
func (c *Cluster) adminFrom(ctx context.Context, g *Guest, args ...string) (out string, code int, err error) {
	argv, err := c.adminArgs(g, args)
	if err != nil {
		return "", -1, err
	}
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	var said, failed strings.Builder
	cmd := exec.CommandContext(ctx, c.Lab.Holdfast(), argv...)
	cmd.Stdout, cmd.Stderr = &said, &failed
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return said.String(), 0, nil
	case ctx.Err() == nil && errors.As(err, &exit):
		return said.String() + failed.String(), exit.ExitCode(), nil
	}
	return said.String(), -1, fmt.Errorf("holdfast %s: %w", strings.Join(args, " "), errors.Join(ctx.Err(), err))
}

// adminArgs adds to an operator's command the controllers, as the guest reaches them, and the certificate.
func (c *Cluster) adminArgs(g *Guest, args []string) ([]string, error) {
	var endpoints []string
	for _, endpoint := range c.Endpoints() {
		address, err := c.forwards.address(g, endpoint)
		if err != nil {
			return nil, fmt.Errorf("forward to %s from %s: %w", endpoint, g.Name(), err)
		}
		endpoints = append(endpoints, address)
	}
	argv := append(slices.Clone(args), "--endpoints", strings.Join(endpoints, ","))
	return append(argv, certificateIn(c.path("pki", g.Name()), adminRole)...), nil
}

// Admin runs an operator's command of holdfast, such as "volumes", "-o", "json", from a guest that reaches the
// cluster. It returns the standard output, and with an exit code other than 0 also the standard error. It
// tries the last guest first, because tests isolate and crash the first ones most.
func (c *Cluster) Admin(ctx context.Context, args ...string) (out string, code int, err error) {
	err = ErrDown
	for _, g := range slices.Backward(c.Lab.guests) {
		if !g.Running() {
			continue
		}
		out, code, err = c.adminFrom(ctx, g, args...)
		if err == nil && code != Unavailable || ctx.Err() != nil {
			break
		}
	}
	return out, code, err
}

// Ask runs an operator's command that answers JSON, and reads that into a value.
func (c *Cluster) Ask(ctx context.Context, into any, args ...string) error {
	out, code, err := c.Admin(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("holdfast %s: exit code %d: %s", strings.Join(args, " "), code, strings.TrimSpace(out))
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("holdfast %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Leader returns the guest whose controller leads. While there is no leader it retries, for a minute at
// most: a leader in a stalled guest is replaced.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var status status
		err := c.Ask(ctx, &status, "status")
		for i := 1; err == nil && i <= c.config.Controllers; i++ {
			if controllerName(i) == status.Leader {
				return i, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, errors.Join(errors.New("no controller leads"), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// AwaitReady waits until all controllers vote and all nodes are reachable, for five
// minutes at most. It gives up at once when a process that was started has ended.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	last := errors.New("nothing was asked")
	for {
		missing := c.notReadyReason(ctx)
		if missing == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = missing
		}
		ended := c.endedProcesses(ctx)
		if ended != nil || ctx.Err() != nil {
			return fmt.Errorf("the cluster of lab %d is not ready: %w", c.Lab.Number, errors.Join(last, ended))
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// endedProcesses names the started processes that have exited, in guests that run.
func (c *Cluster) endedProcesses(ctx context.Context) error {
	c.mu.Lock()
	jobs := slices.Collect(maps.Values(c.jobs))
	c.mu.Unlock()
	for _, j := range jobs {
		if code, err := j.poll(ctx, 0); err == nil {
			return fmt.Errorf("%s of %s ended with %d", j.Name, j.guest.Name(), code)
		}
	}
	return nil
}

// status is the answer of `holdfast status`, as far as it is used here.
type status struct {
	Leader  string `json:"leader"`
	Members []struct {
		ID        string `json:"id"`
		Role      string `json:"role"`
		Reachable bool   `json:"reachable"`
	} `json:"members"`
}

type nodes struct {
	Nodes []struct {
		ID    string `json:"id"`
		Host  string `json:"host_id"`
		State string `json:"state"`
	} `json:"nodes"`
}

// Host returns the id of the host that is registered under the node's id.
func (c *Cluster) Host(ctx context.Context, node string) (string, error) {
	var nodes nodes
	if err := c.Ask(ctx, &nodes, "nodes"); err != nil {
		return "", err
	}
	for _, n := range nodes.Nodes {
		if n.ID == node {
			return n.Host, nil
		}
	}
	return "", fmt.Errorf("node %s is not known", node)
}

// notReadyReason says why the cluster is not ready.
func (c *Cluster) notReadyReason(ctx context.Context) error {
	var status status
	if err := c.Ask(ctx, &status, "status"); err != nil {
		return err
	}
	voting := 0
	for _, m := range status.Members {
		if m.Reachable && m.Role != "nonvoter" {
			voting++
		}
	}
	if voting != c.config.Controllers {
		return fmt.Errorf("%d of %d controllers vote", voting, c.config.Controllers)
	}
	var nodes nodes
	if err := c.Ask(ctx, &nodes, "nodes"); err != nil {
		return err
	}
	reachable := 0
	for _, n := range nodes.Nodes {
		if n.State == "reachable" {
			reachable++
		}
	}
	if reachable != c.config.Nodes {
		return fmt.Errorf("%d of %d nodes are reachable", reachable, c.config.Nodes)
	}
	return nil
}
