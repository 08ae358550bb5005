package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// must runs a command that succeeds.
func (w *wipedCluster) must(args ...string) string {
	w.t.Helper()
	res := w.Run(w.t.Context(), args...)
	require.Equal(w.t, 0, res.Code, "%v: %s\n%s", args, res.Stderr, res.Stdout)
	return res.Stdout
}

// raftAddress is where a controller's Raft listener is.
func (w *wipedCluster) raftAddress(id string) string {
	w.t.Helper()
	var list struct {
		Members []struct {
			ID      string `json:"id"`
			Address string `json:"address"`
		} `json:"members"`
	}
	require.NoError(w.t, json.Unmarshal([]byte(w.must("members", "--dir", w.Dir, "-o", "json")), &list))
	for _, m := range list.Members {
		if m.ID == id {
			return m.Address
		}
	}
	require.Fail(w.t, "no member "+id)
	return ""
}

// beginAgain starts a controller whose folder was made anew, and the others with empty ones.
func (w *wipedCluster) beginAgain(first string, others ...string) {
	w.t.Helper()
	l, err := w.Layout()
	require.NoError(w.t, err)
	for _, id := range others {
		require.NoError(w.t, os.RemoveAll(l.DataDir(id)))
	}
	w.startChild(first)
	for _, id := range others {
		w.startChild(id)
	}
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, "three voters", func() (bool, error) {
		s, err := w.Status(w.t.Context())
		if err != nil || len(s.Members) != 3 {
			return false, err
		}
		for _, m := range s.Members {
			if m.Role != "leader" && m.Role != "follower" {
				return false, nil
			}
		}
		return true, nil
	}))
	require.NoError(w.t, w.AwaitAgreement(w.t.Context()))
}

func (w *wipedCluster) requireVolumes(volumes ...*harness.Volume) {
	w.t.Helper()
	listed, err := w.NewCO().List(w.t.Context())
	require.NoError(w.t, err)
	require.Len(w.t, listed, len(volumes))
	for _, v := range volumes {
		require.Contains(w.t, listed, v.ID)
	}
}

// TestS24_RestoreThenRecover loses all controllers, restores one of them from a backup, and then loses two for good.
func TestS24_RestoreThenRecover(t *testing.T) {
	w := &wipedCluster{startCluster(t, harness.Options{Supervise: false}), t}
	co := w.NewCO()
	one, err := co.Create(t.Context(), harness.Spec{Name: "in-the-backup"})
	require.NoError(t, err)
	full, increment := filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "increment")
	w.must("backup", full, "--dir", w.Dir)
	two, err := co.Create(t.Context(), harness.Spec{Name: "in-the-increment"})
	require.NoError(t, err)
	w.must("backup", increment, "--since-backup", full, "--dir", w.Dir)
	require.Contains(t, w.must("backup", "verify", full, increment), "volumes        2\n")
	address := w.raftAddress("c1")
	l, err := w.Layout()
	require.NoError(t, err)
	for _, id := range []string{"c1", "c2", "c3"} {
		w.kill(id)
		require.NoError(t, os.RemoveAll(l.DataDir(id)))
	}
	w.must("restore", "--data-dir", l.DataDir("c1"), "--backup", full, "--increment", increment, "--advertise", address, "--yes")
	w.beginAgain("c1", "c2", "c3")
	w.requireVolumes(one, two)

	gone := []string{"--without", w.memberID("c1"), "--without", w.memberID("c2")}
	address = w.raftAddress("c3")
	for _, id := range []string{"c1", "c2", "c3"} {
		w.kill(id)
	}
	recovery := []string{"recover", "--data-dir", l.DataDir("c3"), "--advertise", address, "--yes"}
	res := w.Run(t.Context(), append(recovery, gone[:2]...)...)
	require.Equal(t, 1, res.Code, res.Stdout)
	require.Contains(t, res.Stderr, "was not compared")
	w.must(append(recovery, gone...)...)
	require.Contains(t, w.must(append(recovery, gone...)...), "done already")
	w.beginAgain("c3", "c1", "c2")
	w.requireVolumes(one, two)
	require.Contains(t, w.must("status", "--dir", w.Dir, "-o", "json"), `"incarnation": 3`)
}
