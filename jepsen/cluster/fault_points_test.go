package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// steps are what a node does in the lifecycle of a volume, roughly in that order. Each has a fault point before
// and after it.
var steps = []string{"create", "report", "propose-stage", "attach", "probe", "record", "save-record", "mkfs", "report-formatted",
	"mount", "report-staged", "propose-target", "bind", "unbind", "unmount", "detach", "drain", "remove"}

// faultPoints are all points at which a node with --enable-fault-points can be killed.
func faultPoints() []string {
	var points []string
	for _, s := range steps {
		points = append(points, s+".before")
		if s == "unbind" {
			points = append(points, "unbind.unmounted", "unbind.removed")
		}
		points = append(points, s+".after")
		if s == "detach" {
			points = append(points, "down.done")
		}
	}
	return points
}

// TestNodeKilledBetweenEveryTwoSteps: volumes survive a kill at every fault point. Several nodes each get a share
// of the points; on each, volumes run lifecycles until every point has killed the node once (S161, S163, S15, S122,
// S124).
func TestNodeKilledBetweenEveryTwoSteps(t *testing.T) {
	const nodes = 3
	c := startCluster(t, harness.Options{Supervise: true, Nodes: nodes, Flags: []string{"--enable-fault-points"}})
	l, err := c.Layout()
	require.NoError(t, err)
	var g errgroup.Group
	for i, n := range l.Nodes {
		share := everyNth(faultPoints(), nodes, i)
		if *long { // every node meets every point
			share = faultPoints()
		}
		a := &faultArmer{dir: n.DataDir, remaining: share}
		g.Go(func() error { return runLifecycles(t, c, n.ID, a, volumeLifecycle) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, c.AwaitNoLeftovers(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
	require.NoError(t, c.AwaitAgreement(t.Context()))
}

// everyNth is each n-th element, from the i-th on.
func everyNth(all []string, n, i int) []string {
	var share []string
	for ; i < len(all); i += n {
		share = append(share, all[i])
	}
	return share
}

// faultArmer arms the fault points of a node one after another.
type faultArmer struct {
	dir        string
	remaining  []string // the first is armed
	current    bool
	attempts   int // lifecycles in which the first was not hit
	lifecycles int // so far
}

// advance arms the next point when the last one was hit.
func (a *faultArmer) advance() error {
	for len(a.remaining) > 0 {
		fired, err := os.ReadFile(filepath.Join(a.dir, "fault.fired"))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		switch {
		case slices.Contains(strings.Fields(string(fired)), a.remaining[0]):
			a.remaining, a.current, a.attempts = a.remaining[1:], false, 0
		case a.current:
			return nil
		default:
			a.current = true
			return a.arm(a.remaining[0])
		}
	}
	return nil
}

// arm writes the file atomically, because the node may read it at any moment.
func (a *faultArmer) arm(point string) error {
	path := filepath.Join(a.dir, "fault")
	if err := os.WriteFile(path+".new", []byte(point), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// lifecycle runs a volume from its creation to its deletion, with points armed.
type lifecycle func(t *testing.T, c *harness.Cluster, co *harness.CO, spec harness.Spec, a *faultArmer) error

// runLifecycles runs lifecycles of volumes on a node until all points were hit.
func runLifecycles(t *testing.T, c *harness.Cluster, node string, a *faultArmer, live lifecycle) error {
	co := c.NewCO()
	total := len(a.remaining)
	for round := 0; len(a.remaining) > 0; round++ {
		if a.attempts++; a.attempts > 4 {
			return fmt.Errorf("%s: fault point %s is never reached", node, a.remaining[0])
		}
		spec := harness.Spec{Name: fmt.Sprintf("life-%s-%d", node, round), Node: node, Size: 32 * harness.Mi}
		if err := live(t, c, co, spec, a); err != nil {
			return fmt.Errorf("%s, armed %v: %w", node, a.remaining[:min(1, len(a.remaining))], err)
		}
	}
	t.Logf("%s was killed at %d points; %d calls were repeated", node, total, co.Retries.Load())
	return nil
}

// volumeLifecycle runs one volume from create to delete, staged twice, with its data verified; every third volume
// is raw. A point is armed before each of its calls.
func volumeLifecycle(t *testing.T, c *harness.Cluster, co *harness.CO, spec harness.Spec, a *faultArmer) error {
	spec.Block = a.lifecycles%3 == 2
	a.lifecycles++
	var v *harness.Volume
	var data []byte
	ctx := t.Context()
	for _, part := range []func() error{
		func() (err error) { v, err = co.Create(ctx, spec); return err },
		func() error { return co.Publish(ctx, v, spec.Node) },
		func() error { return co.Stage(ctx, v) },
		func() error { return co.PublishTarget(ctx, v) },
		func() (err error) { data, err = writeTo(v); return err },
		func() error { return checkAttached(c, v) },
		func() error { return co.UnpublishTarget(ctx, v) },
		func() error { return co.Unstage(ctx, v) },
		func() error { return checkDetached(c, v) },
		func() error { return co.Stage(ctx, v) },
		func() error { return co.PublishTarget(ctx, v) },
		func() error { return sameData(v, data) },
		func() error { return co.UnpublishTarget(ctx, v) },
		func() error { return co.Unstage(ctx, v) },
		func() error { return unpublishAfterTeardown(t, co, v) },
		func() error { return co.Delete(ctx, v) },
	} {
		if err := a.advance(); err != nil {
			return err
		}
		if err := part(); err != nil {
			return err
		}
	}
	return a.advance()
}

// checkAttached answers an error unless the volume has one loop device and one mount at its target.
func checkAttached(c *harness.Cluster, v *harness.Volume) error {
	loops, err := c.LoopsOf(v.ID)
	if err != nil || len(loops) != 1 {
		return fmt.Errorf("%s has loop devices %v (%v)", v.ID, loops, err)
	}
	at, err := harness.MountsAt(v.Target)
	if err != nil || at != 1 {
		return fmt.Errorf("%s has %d mounts at its target (%v)", v.ID, at, err)
	}
	return nil
}

// checkDetached answers an error when an unstaged volume has a loop device.
func checkDetached(c *harness.Cluster, v *harness.Volume) error {
	loops, err := c.LoopsOf(v.ID)
	if err != nil || len(loops) != 0 {
		return fmt.Errorf("%s is unstaged and has loop devices %v (%v)", v.ID, loops, err)
	}
	return nil
}
