package runbooks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// previous is the commit that the rolling upgrade under load is tested with, too: the last one of the level below.
const previous = "0b17459"

const newBuild = "A new build is to be rolled out"

// ownDrills have a cluster of their own, of other builds.
var ownDrills = []drill{{title: newBuild, play: (*operations).newBuild}}

// startOwn starts a cluster of a build for one drill.
func startOwn(t *testing.T, options harness.Options) *operations {
	t.Helper()
	c, err := harness.Start(t.Context(), options)
	require.NoError(t, err)
	clean(t, c)
	return &operations{Cluster: c, t: t, binary: options.Binary, co: c.NewCO()}
}

// TestRunbookOfANewBuild follows the page from the previous build to this one, back, and forward again until the level is raised.
func TestRunbookOfANewBuild(t *testing.T) {
	current, dir := testBinary(t), t.TempDir()
	earlier, err := harness.BuildCommit(t.Context(), previous, dir)
	if errors.Is(err, harness.ErrNoHistory) {
		t.Skipf("skipped: %v; fetch the whole history, or name a binary of that commit with %s", err, harness.PreviousVariable)
	}
	require.NoError(t, err)
	program := filepath.Join(dir, "holdfast")
	require.NoError(t, harness.Install(earlier, program))
	o := startOwn(t, harness.Options{Binary: program})
	t.Cleanup(func() { require.NoError(t, harness.Install(current, program)) }) // it knows what either build left
	o.newer, o.earlier = current, earlier
	o.follow(t, ownDrills[0], readPage(t)[newBuild])
}

// unitOf is the unit of a process.
func unitOf(id string) string {
	if strings.HasPrefix(id, "n") {
		return "holdfast-node"
	}
	return "holdfast-controller"
}

// roll runs the block at a place on each host, and the one at check after it, until the page says to go on. What is mounted stays so.
func (o *operations) roll(s *shell, v *harness.Volume, place, check int, hosts ...string) {
	for _, id := range hosts {
		s.on(id)
		s.set("UNIT", unitOf(id))
		_, err := s.try(place)
		require.NoError(o.t, err)
		s.next = check
		s.retry(func(out string) bool { return row("n1", "reachable ")(out) })
		require.NoError(o.t, o.AwaitAgreement(o.t.Context()))
		require.NoError(o.t, os.WriteFile(filepath.Join(v.Target, id), []byte(id), 0o600), "the volume is in use throughout")
		require.NoError(o.t, o.co.Delete(o.t.Context(), o.create("while-"+id+fmt.Sprint(place), "n1")))
	}
}

func (o *operations) newBuild(s *shell) {
	s.set("PROGRAM", o.binary)
	s.set("BUILD", o.newer)
	s.set("EARLIER", o.earlier)
	v := o.create("in-use", "n1")
	require.NoError(o.t, o.co.PublishStageBind(o.t.Context(), v, "n1"))
	s.run()
	const forward, check, back = 1, 2, 3
	o.roll(s, v, forward, check, "c1", "n1", "c2")
	o.roll(s, v, back, check, "c2", "c1", "n1")
	o.roll(s, v, forward, check, "n1", "c3", "c1", "c2")
	s.next = back + 1
	require.Contains(o.t, s.run(), "nothing was changed")
	s.run()
	s.retry(func(out string) bool { return !strings.Contains(out, "builds are mixed") })
	res := o.Run(o.t.Context(), "upgrade", "status", "--dir", o.Dir)
	require.Contains(o.t, res.Stdout, "3")
	require.NoError(o.t, o.co.UnbindUnstageUnpublish(o.t.Context(), v))
	require.NoError(o.t, o.co.Delete(o.t.Context(), v))
}
