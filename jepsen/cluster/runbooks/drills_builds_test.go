package runbooks

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

var controllers = []string{"c1", "c2", "c3"}

// skippedEntry: a binary with a planted bug ends at a volume of a certain name.
func skippedEntry(t *testing.T, book Runbook) {
	testBinary(t)
	planted, err := harness.BuildTagged(t.Context(), "plantedbug", t.TempDir())
	require.NoError(t, err)
	t.Setenv(plantedbug.Environment, string(plantedbug.FaultInApply))
	c, err := harness.Start(t.Context(), harness.Options{Binary: planted, Supervise: true})
	require.NoError(t, err)
	clean(t, c)
	o := &operations{Cluster: c, t: t, binary: planted, co: c.NewCO()}
	client, err := c.Controller("c1")
	require.NoError(t, err)
	_, err = client.CreateVolume(t.Context(), harness.Spec{Name: "planted-fault"}.CreateRequest())
	require.Error(t, err)
	l, err := c.Layout()
	require.NoError(t, err)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "every controller to end at the entry", func() (bool, error) {
		for _, m := range l.Controllers {
			if _, err := os.Stat(filepath.Join(m.DataDir, "fault.json")); errors.Is(err, os.ErrNotExist) {
				return false, nil
			}
		}
		return true, nil
	}))
	require.NoError(t, c.Stop(t.Context())) // the supervisor would start them again
	s := newShell(t, c, planted, book)
	s.set("REASON", "a planted bug")
	for _, id := range controllers {
		s.on(id)
		s.next = 0
		out := s.run()
		s.set("INDEX", s.find(out, `ended at: index (\d+)`))
		s.set("HASH", s.find(out, `hash ([0-9a-f]{64})`))
		s.run()
	}
	require.NoError(t, c.Resume(t.Context()))
	s.on("c1")
	s.run() // the supervisor started it already: a unit that runs
	s.retry(func(out string) bool { return strings.Contains(out, "leader c") })
	o.create("after", "n1")
	require.NoError(t, c.AwaitAgreement(t.Context()))
	s.done()
}
