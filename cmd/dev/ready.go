package dev

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// laggingTimeout is how long a cluster that has a leader and all its nodes waits for its other
// controllers: one with a damaged data directory must not prevent the cluster from being used.
const laggingTimeout = 15 * time.Second

// awaitReady returns when there is a leader, all nodes have registered and serve, and the controllers
// serve too, or laggingTimeout is over. The error says what is missing.
func awaitReady(ctx context.Context, o Options, l layout, s *settings) error {
	creds, err := pki.Load(l.files(pki.Viewer, "dev"))
	if err != nil {
		return err
	}
	var endpoints []string
	for _, id := range ids("c", s.Controllers) {
		endpoints = append(endpoints, s.address(id, "api"))
	}
	client := admin.NewClient(endpoints, creds.Client(pki.Controller))
	client.Timeout = 3 * time.Second
	deadline := time.Now().Add(o.ReadyTimeout)
	var minimumSince time.Time // since when there are a leader and all nodes
	for {
		problem, lagging := missingForReady(ctx, client, s)
		switch now := time.Now(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case problem == "" && minimumSince.IsZero():
			minimumSince = now
		case problem != "":
			minimumSince = time.Time{}
		}
		switch now := time.Now(); {
		case problem == "" && (len(lagging) == 0 || now.After(minimumSince.Add(laggingTimeout)) || now.After(deadline)):
			return nil
		case now.After(deadline):
			return exit.Unavailablef("start the cluster in %s: not ready after %s: %s; the logs are in %s", l.dir, o.ReadyTimeout, problem, l.path("log"))
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// missingForReady says what a cluster needs to be ready, and which controllers do not serve yet.
func missingForReady(ctx context.Context, client *admin.Client, s *settings) (problem string, lagging []string) {
	status, hasLeader, err := client.Status(ctx)
	switch {
	case status == nil:
		return fmt.Sprintf("no controller answers (%v)", exit.Line(err)), nil
	case !hasLeader:
		return "there is no leader", nil
	}
	if absentIDs := absentNodes(ctx, client, s); len(absentIDs) > 0 {
		return "not registered: " + strings.Join(absentIDs, ", "), nil
	}
	return "", laggingControllers(ctx, status, s)
}

// laggingControllers returns the controllers that do not serve or vote yet: until all vote, the cluster
// may not survive the loss of one.
func laggingControllers(ctx context.Context, status *adminpb.StatusResponse, s *settings) (lagging []string) {
	votes := map[string]bool{}
	for _, m := range status.GetMembers() {
		votes[m.GetId()] = m.GetReachable() && m.GetRole() != "nonvoter"
	}
	for _, id := range ids("c", s.Controllers) {
		if !votes[id] || readyz(ctx, s.address(id, "metrics")) != nil {
			lagging = append(lagging, id)
		}
	}
	return lagging
}

// absentNodes returns the nodes that have not registered, or whose process does not serve now.
func absentNodes(ctx context.Context, client *admin.Client, s *settings) (absent []string) {
	registered := map[string]bool{}
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		resp, err := api.Nodes(ctx, &adminpb.NodesRequest{})
		for _, n := range resp.GetNodes() {
			registered[n.GetId()] = n.GetState() == "reachable"
		}
		return err
	})
	for _, id := range ids("n", s.Nodes) {
		serving := readyz(ctx, s.address(id, "metrics"))
		switch {
		case err != nil:
			absent = append(absent, id)
		case !registered[id] && serving != nil:
			absent = append(absent, fmt.Sprintf("%s (%v)", id, serving))
		case !registered[id]:
			absent = append(absent, id)
		case serving != nil:
			absent = append(absent, fmt.Sprintf("%s (%v)", id, serving))
		}
	}
	return slices.Compact(absent)
}

var probe = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// readyz requests a process's readiness; the error is the process's own text.
func readyz(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := probe.Do(req)
	if err != nil {
		return fmt.Errorf("its process does not answer")
	}
	defer func() { _ = resp.Body.Close() }() // the body is read below as far as needed
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 500))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s", strings.TrimSpace(string(text)))
}
