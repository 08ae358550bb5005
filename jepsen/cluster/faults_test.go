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

// steps are what a node does in one life of a volume, about in that order. Each
// has a fault point before and after it.
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

// TestNodeKilledBetweenEveryTwoSteps: item 4 of what must hold. Several nodes
// each get a share of the points; on each, volumes live whole lives until every
// point has killed the node once (S161, S163, S15, S122, S124).
func TestNodeKilledBetweenEveryTwoSteps(t *testing.T) {
	const nodes = 3
	c := start(t, harness.Options{Supervise: true, Nodes: nodes, Flags: []string{"--enable-fault-points"}})
	l, err := c.Layout()
	require.NoError(t, err)
	var g errgroup.Group
	for i, n := range l.Nodes {
		share := every(faultPoints(), nodes, i)
		if *long { // every node meets every point
			share = faultPoints()
		}
		a := &armory{folder: n.DataDir, left: share}
		g.Go(func() error { return livesOf(t, c, n.ID, a, volumeLife) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, c.AwaitNothing(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
	require.NoError(t, c.AwaitAgreement(t.Context()))
}

// every is each n-th element, from the i-th on.
func every(all []string, n, i int) []string {
	var share []string
	for ; i < len(all); i += n {
		share = append(share, all[i])
	}
	return share
}

// armory arms one fault point of a node after the other.
type armory struct {
	folder string
	left   []string // the first is armed
	armed  bool
	tried  int // lives through which the first has not fired
	lives  int // so far
}

// next arms the next point when the last one fired.
func (a *armory) next() error {
	for len(a.left) > 0 {
		fired, err := os.ReadFile(filepath.Join(a.folder, "fault.fired"))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		switch {
		case slices.Contains(strings.Fields(string(fired)), a.left[0]):
			a.left, a.armed, a.tried = a.left[1:], false, 0
		case a.armed:
			return nil
		default:
			a.armed = true
			return a.arm(a.left[0])
		}
	}
	return nil
}

// arm puts the file there whole, for the node may read it at any moment.
func (a *armory) arm(point string) error {
	path := filepath.Join(a.folder, "fault")
	if err := os.WriteFile(path+".new", []byte(point), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// life is the whole life of a volume, in which points are armed.
type life func(t *testing.T, c *harness.Cluster, co *harness.CO, spec harness.Spec, a *armory) error

// livesOf has volumes live on a node until all points have fired.
func livesOf(t *testing.T, c *harness.Cluster, node string, a *armory, live life) error {
	co := c.NewCO()
	total := len(a.left)
	for round := 0; len(a.left) > 0; round++ {
		if a.tried++; a.tried > 4 {
			return fmt.Errorf("%s: fault point %s is never reached", node, a.left[0])
		}
		spec := harness.Spec{Name: fmt.Sprintf("life-%s-%d", node, round), Node: node, Size: 32 * harness.Mi}
		if err := live(t, c, co, spec, a); err != nil {
			return fmt.Errorf("%s, armed %v: %w", node, a.left[:min(1, len(a.left))], err)
		}
	}
	t.Logf("%s was killed at %d points; %d calls were repeated", node, total, co.Retries.Load())
	return nil
}

// volumeLife is one volume from create to delete, staged twice, with its data looked
// at; each third is raw. A point is armed before each of its calls.
func volumeLife(t *testing.T, c *harness.Cluster, co *harness.CO, spec harness.Spec, a *armory) error {
	spec.Block = a.lives%3 == 2
	a.lives++
	var v *harness.Volume
	var data []byte
	ctx := t.Context()
	for _, part := range []func() error{
		func() (err error) { v, err = co.Create(ctx, spec); return err },
		func() error { return co.Publish(ctx, v, spec.Node) },
		func() error { return co.Stage(ctx, v) },
		func() error { return co.Bind(ctx, v) },
		func() (err error) { data, err = writeTo(v); return err },
		func() error { return onceUp(c, v) },
		func() error { return co.Unbind(ctx, v) },
		func() error { return co.Unstage(ctx, v) },
		func() error { return onceDown(c, v) },
		func() error { return co.Stage(ctx, v) },
		func() error { return co.Bind(ctx, v) },
		func() error { return sameData(v, data) },
		func() error { return co.Unbind(ctx, v) },
		func() error { return co.Unstage(ctx, v) },
		func() error { return drained(t, co, v) },
		func() error { return co.Delete(ctx, v) },
	} {
		if err := a.next(); err != nil {
			return err
		}
		if err := part(); err != nil {
			return err
		}
	}
	return a.next()
}

// onceUp answers an error unless the volume has one loop device and one mount at its target.
func onceUp(c *harness.Cluster, v *harness.Volume) error {
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

// onceDown answers an error when an unstaged volume has a loop device.
func onceDown(c *harness.Cluster, v *harness.Volume) error {
	loops, err := c.LoopsOf(v.ID)
	if err != nil || len(loops) != 0 {
		return fmt.Errorf("%s is unstaged and has loop devices %v (%v)", v.ID, loops, err)
	}
	return nil
}
