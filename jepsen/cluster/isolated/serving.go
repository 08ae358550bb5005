package isolated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// AwaitServing waits until every member has a process that says it is ready.
func (c *Cluster) AwaitServing(ctx context.Context) error {
	return harness.Poll(ctx, harness.Patience, "all members to serve", func() (bool, error) {
		var errs []error
		for _, m := range c.Members() {
			errs = append(errs, m.Ready(ctx))
		}
		err := errors.Join(errs...)
		return err == nil, err
	})
}

// AwaitVoting waits until every controller votes: until then the cluster may not survive the loss of one.
func (c *Cluster) AwaitVoting(ctx context.Context) error {
	return harness.Poll(ctx, harness.Patience, "all controllers to vote", func() (bool, error) {
		s, err := c.view.Status(ctx)
		if err != nil {
			return false, err
		}
		votes := map[string]bool{}
		for _, m := range s.Members {
			votes[m.ID] = m.Reachable && (m.Role == "leader" || m.Role == "follower")
		}
		for _, m := range c.Controllers() {
			if !votes[m.ID] {
				return false, fmt.Errorf("%s does not vote: %+v", m.ID, s.Members)
			}
		}
		return true, nil
	})
}

// Ready answers why the member does not serve, in its own words, nil when it does.
func (m *Member) Ready(ctx context.Context) error {
	if !m.Running() {
		return fmt.Errorf("%s has no process: its last one ended with: %s", m.ID, m.Exited())
	}
	text, code, err := m.get(ctx, "/readyz")
	if err == nil && code != http.StatusOK {
		err = errors.New(text)
	}
	if err != nil {
		return fmt.Errorf("%s is not ready: %w", m.ID, err)
	}
	return nil
}

// Metrics is what the member's process measures, in Prometheus's text.
func (m *Member) Metrics(ctx context.Context) (string, error) {
	text, _, err := m.get(ctx, "/metrics")
	return text, err
}

// get requests a page of the member's process from the bridge.
func (m *Member) get(ctx context.Context, page string) (text string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return m.cluster.net.Dial(ctx, network, address)
		}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.metrics()+page, nil)
	if err != nil {
		return "", 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = resp.Body.Close() }() // it is read whole
	body, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(body)), resp.StatusCode, err
}
