package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/check"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
	"github.com/holdfast-storage/holdfast/jepsen/model"
	"github.com/holdfast-storage/holdfast/jepsen/report"
	"github.com/holdfast-storage/holdfast/jepsen/traffic"
)

const (
	hotSize    = 2 * harness.Mi
	sourceSize = 4 * harness.Mi
)

// faultsCanary is in the secrets of each request; it may be nowhere afterwards.
func faultsCanary(seed uint64) string { return fmt.Sprintf("canary-%d-do-not-keep", seed) }

// faultsTraffic are eight clients on hot names at any member.
func faultsTraffic(t *testing.T, c *isolated.Cluster, seed uint64, work *durableWork) traffic.Profile {
	t.Helper()
	view := c.View()
	var turn atomic.Uint64
	member := func() string {
		all := c.Controllers()
		return all[turn.Add(1)%uint64(len(all))].ID
	}
	secrets := map[string]string{"key": faultsCanary(seed)}
	request := func(name string, size int64) *csi.CreateVolumeRequest {
		req := harness.Spec{Name: name, Size: size, Block: true, Node: "n1"}.CreateRequest()
		req.Secrets = secrets
		return req
	}
	return traffic.Profile{
		Clients: 6, Names: 6, Nodes: []string{"n1"}, CallsPerName: 24, Timeout: 4 * time.Second, Seed: seed, Size: hotSize, Expands: true,
		Controller: func() (csi.ControllerClient, error) { return view.Controller(member()) },
		Request:    request,
		Capability: (&harness.Volume{Block: true}).Capability(),
		Unknown:    []codes.Code{codes.ResourceExhausted},
		Copies: &traffic.Copies{
			Clients: 2, Sources: work.sources, Snapshot: work.snapshot, SourceSize: sourceSize, Request: request,
			Groups: func() (csi.GroupControllerClient, error) { return view.Groups(member()) },
		},
	}
}

// durableWork is what lives through a whole run: the sources of copies, and one volume that is staged and unstaged.
type durableWork struct {
	co       *harness.CO
	sources  []string
	snapshot string
	staged   *harness.Volume
}

func newDurableWork(t *testing.T, c *isolated.Cluster) *durableWork {
	t.Helper()
	w := &durableWork{co: c.View().NewCO()}
	spec := harness.Spec{Size: sourceSize, Block: true, Node: "n1"}
	for i := range 2 {
		spec.Name = fmt.Sprintf("source-%d", i)
		v, err := w.co.Create(t.Context(), spec)
		require.NoError(t, err)
		w.sources = append(w.sources, v.ID)
	}
	var err error
	w.snapshot, err = w.co.Snapshot(t.Context(), "source-snapshot", &harness.Volume{ID: w.sources[0]})
	require.NoError(t, err)
	w.staged, err = w.co.Create(t.Context(), harness.Spec{Name: "staged", Size: sourceSize, Block: true, Node: "n2"})
	require.NoError(t, err)
	return w
}

// stage uses a volume on its node again and again until ctx ends, and leaves it unused. Every call must succeed in the end.
func (w *durableWork) stage(ctx context.Context, run *report.Run) error {
	for ctx.Err() == nil {
		whole := context.WithoutCancel(ctx)
		if err := w.co.PublishStageBind(whole, w.staged, "n2"); err != nil {
			return err
		}
		if err := w.co.UnbindUnstageUnpublish(whole, w.staged); err != nil {
			return err
		}
		run.CountWork(catalog.Stage, 1)
	}
	return nil
}

// observe samples what the operators' API says until ctx ends.
func observe(ctx context.Context, c *isolated.Cluster, run *report.Run, start time.Time) (samples []check.Sample) {
	leader := ""
	for ctx.Err() == nil {
		s, err := c.View().Status(ctx)
		if err == nil {
			samples = append(samples, sampleOf(s))
			if s.Leader != "" && s.Leader != leader {
				leader = s.Leader
				run.Leader(leader, s.Term, time.Since(start))
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	return samples
}

func sampleOf(s harness.Status) (one check.Sample) {
	for _, m := range s.Members {
		one.Members = append(one.Members, check.MemberSample{ID: m.ID, Hash: m.StateHash, HashIndex: m.HashIndex})
	}
	return one
}

// workloads are what the calls on copies are, by what their names begin with.
var workloads = map[string]catalog.Workload{
	"copy-snapshot-": catalog.Snapshot, "copy-clone-": catalog.Clone, "copy-restore-": catalog.Clone, "copy-group-": catalog.GroupSnapshot,
}

func workloadOf(in model.Input) catalog.Workload {
	for prefix, w := range workloads {
		if strings.HasPrefix(in.Name, prefix) {
			return w
		}
	}
	switch in.Kind {
	case model.Create:
		return catalog.CreateVolume
	case model.Delete:
		return catalog.DeleteVolume
	case model.Publish, model.Unpublish:
		return catalog.Publish
	case model.Expand:
		return catalog.Expand
	case model.Modify:
		return catalog.Modify
	}
	return catalog.Read
}

// recordCalls puts the history into the report.
func recordCalls(run *report.Run, calls []check.Call) {
	outcomes := map[model.Outcome]report.Outcome{model.OK: report.OK, model.Unknown: report.Unknown}
	for _, c := range calls {
		outcome := outcomes[c.Output.Outcome]
		if outcome == 0 {
			outcome = report.Refused
		}
		run.Operation(report.Operation{
			Client: c.Client, Workload: workloadOf(c.Input), From: time.Duration(c.Begin), To: time.Duration(c.End), Outcome: outcome,
			What: fmt.Sprintf("%s %s %s: %s of index %d", c.Input.Kind, c.Input.Name, c.Input.ID, c.Output.Outcome, c.Output.Index),
		})
	}
}

// inBackground runs something until stop is called, which waits for its end and answers its error.
func inBackground(ctx context.Context, do func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	return sync.OnceValue(func() error { cancel(); return <-done })
}

// removeWork deletes everything there is, through the calls that a CO makes.
func removeWork(t *testing.T, c *isolated.Cluster, seed uint64, w *durableWork) {
	t.Helper()
	ctx, co := t.Context(), w.co
	sources := []*harness.Volume{{ID: w.sources[0]}, {ID: w.sources[1]}}
	for i := range 2 { // one whose name nobody was told is found by its name
		g, err := co.Group(ctx, fmt.Sprintf("copy-group-%d-%d", seed, i), sources...)
		require.NoError(t, err)
		require.NoError(t, co.DeleteGroup(ctx, g))
	}
	snapshots, err := co.Snapshots(ctx)
	require.NoError(t, err)
	for _, id := range snapshots {
		require.NoError(t, co.DeleteSnapshot(ctx, id))
	}
	removeAll(t, c.View())
}

// newSeed is for who names none.
func newSeed() uint64 { return rand.Uint64N(1 << 32) }
