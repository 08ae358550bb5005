package runbooks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// previous is the commit that the rolling upgrade under load is tested with, too: the last one of the level below.
const previous = "0b17459"

const newBuild, poison = "A new build is to be rolled out", "A controller ends at the same entry at every start"

// ownDrills have a cluster of their own, of other builds.
var ownDrills = []drill{{title: newBuild, play: (*operations).newBuild}, {title: poison, play: (*operations).poisonEntry}}

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
	earlier, err := harness.BuildCommit(t.Context(), previous)
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

// TestRunbookOfAnEntryThatEndsControllers (S70): the build has a planted bug at which each controller ends.
func TestRunbookOfAnEntryThatEndsControllers(t *testing.T) {
	testBinary(t)
	planted, err := harness.BuildTagged(t.Context(), "plantedbug", t.TempDir())
	require.NoError(t, err)
	t.Setenv(plantedbug.Environment, string(plantedbug.FaultInApply))
	o := startOwn(t, harness.Options{Binary: planted})
	o.follow(t, ownDrills[1], readPage(t)[poison])
}

// controllersEnd has a command be committed at which every controller ends, and starts those again that have not met it.
func (o *operations) controllersEnd() {
	client, err := o.Controller("c1")
	require.NoError(o.t, err)
	_, err = client.CreateVolume(o.t.Context(), &csi.CreateVolumeRequest{Name: "planted-fault", VolumeCapabilities: harness.Spec{}.CreateRequest().GetVolumeCapabilities()})
	require.Error(o.t, err)
	require.NoError(o.t, harness.Poll(o.t.Context(), harness.Patience, "every controller to end at the entry", func() (bool, error) {
		l, err := o.Layout()
		require.NoError(o.t, err)
		met := 0
		for _, m := range l.Controllers {
			if _, err := os.Stat(filepath.Join(m.DataDir, "fault.json")); err == nil {
				met++
			}
		}
		if met == len(l.Controllers) {
			return true, nil
		}
		for _, m := range l.Controllers {
			if l.PID(m.ID) == 0 {
				_ = o.Run(o.t.Context(), "dev", "start", "--dir", o.Dir, m.ID) // it may end at once
			}
		}
		return false, nil
	}))
}

func (o *operations) poisonEntry(s *shell) {
	before := o.create("before", "n1")
	require.NoError(o.t, o.AwaitAgreement(o.t.Context()))
	o.controllersEnd()
	s.set(plantedbug.Environment, string(plantedbug.FaultInApply)) // `log skip` tries the entry with the bug that the build has
	controllers := []string{"c1", "c2", "c3"}
	entries := map[string]bool{}
	each := func(do func(out string)) {
		for _, id := range controllers {
			s.on(id)
			do(s.run())
			s.next--
		}
		s.next++
	}
	each(func(out string) {
		s.set("INDEX", s.find(out, `ended at: index (\d+)`))
		s.set("HASH", s.find(out, `ended at: .* hash ([0-9a-f]{64})`))
		entries[s.env["INDEX"]+s.env["HASH"]] = true
	})
	require.Len(o.t, entries, 1)
	each(func(out string) { require.Contains(o.t, out, "is passed over") })
	each(func(string) {})
	s.retry(allVote)
	require.NoError(o.t, o.co.Delete(o.t.Context(), before))
}
