package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

var regexpFault = regexp.MustCompile(`ended at: index (\d+), term \d+, hash ([0-9a-f]{64})`)

// faultAt returns the entry at which a member exited, as `holdfast log inspect` reports it.
func faultAt(t *testing.T, c *harness.Cluster, dir string) (index, hash string) {
	t.Helper()
	res := c.Run(t.Context(), "log", "inspect", "--data-dir", dir)
	require.Zero(t, res.Code, res.Stderr)
	m := regexpFault.FindStringSubmatch(res.Stdout)
	require.NotNil(t, m, res.Stdout)
	require.Contains(t, res.Stdout, "planted-fault")
	return m[1], m[2]
}

// S70: a committed command at which every controller exits is skipped on all of them; the cluster serves again,
// with equal states. The binary has a planted bug.
func TestACommandThatFaultsEveryControllerIsSkipped(t *testing.T) {
	testBinary(t)
	planted, err := harness.BuildTagged(t.Context(), "plantedbug", t.TempDir())
	require.NoError(t, err)
	t.Setenv(plantedbug.Environment, string(plantedbug.FaultInApply))
	c, err := harness.Start(t.Context(), harness.Options{Binary: planted, Supervise: true})
	require.NoError(t, err)
	t.Cleanup(func() { collectAndClean(t, c) })
	co := c.NewCO()
	before, err := co.Create(t.Context(), harness.Spec{Name: "before"})
	require.NoError(t, err)
	first := c.NewCO()
	first.Controllers = []string{"c1"} // it has reached the leader when it lists
	_, err = first.List(t.Context())
	require.NoError(t, err)
	client, err := c.Controller("c1")
	require.NoError(t, err)
	_, err = client.CreateVolume(timeoutContext(t, harness.Patience), harness.Spec{Name: "planted-fault"}.CreateRequest())
	require.Error(t, err)

	layout, err := c.Layout()
	require.NoError(t, err)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "every controller to end at the entry", func() (bool, error) {
		for _, m := range layout.Controllers {
			if _, err := os.Stat(filepath.Join(m.DataDir, "fault.json")); errors.Is(err, os.ErrNotExist) {
				return false, nil
			}
		}
		return true, nil
	}))
	busy := c.Run(t.Context(), "log", "skip", "--data-dir", layout.Nodes[0].DataDir, "--index", "1", "--hash", "x", "--reason", "r")
	require.Equal(t, 1, busy.Code, "a node's folder has no log")
	require.NoError(t, c.Stop(t.Context()))

	for _, m := range layout.Controllers {
		index, hash := faultAt(t, c, m.DataDir)
		at, err := strconv.ParseUint(index, 10, 64)
		require.NoError(t, err)
		wrong := c.Run(t.Context(), "log", "skip", "--data-dir", m.DataDir, "--index", fmt.Sprint(at-1), "--hash", hash, "--reason", "r")
		require.Equal(t, 1, wrong.Code, wrong.Stderr)
		for range 2 {
			res := c.Run(t.Context(), "log", "skip", "--data-dir", m.DataDir, "--index", index, "--hash", hash, "--reason", "a planted bug")
			require.Zero(t, res.Code, res.Stderr)
		}
	}
	require.NoError(t, c.Resume(t.Context()))
	after, err := co.Create(t.Context(), harness.Spec{Name: "after"})
	require.NoError(t, err)
	require.NoError(t, c.AwaitAgreement(t.Context()))
	require.NoError(t, co.Delete(t.Context(), before))
	require.NoError(t, co.Delete(t.Context(), after))
}
