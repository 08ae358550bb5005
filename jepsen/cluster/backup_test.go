package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	scheduled := t.TempDir()
	w := &wipedCluster{startCluster(t, harness.Options{Supervise: false, Flags: []string{"--controller-arg=--backup-to=" + scheduled}}), t}
	w.awaitScheduled(scheduled)
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

	w.recoverOne(l)
	w.requireVolumes(one, two)
	require.Contains(t, w.must("status", "--dir", w.Dir, "-o", "json"), `"incarnation": 3`)
}

// recoverOne loses c1 for good and recovers from c2 or c3, whichever has more.
func (w *wipedCluster) recoverOne(l harness.Layout) {
	w.t.Helper()
	lost := []string{"--without", w.memberID("c1")}
	address := map[string]string{"c2": w.raftAddress("c2"), "c3": w.raftAddress("c3")}
	at := func(id string, more ...string) []string {
		return append(append([]string{"recover", "--data-dir", l.DataDir(id), "--advertise", address[id]}, lost...), more...)
	}
	refused := func(why string, args ...string) {
		w.t.Helper()
		res := w.Run(w.t.Context(), args...)
		require.Equal(w.t, 1, res.Code, res.Stdout)
		require.Contains(w.t, res.Stderr, why)
	}
	refused("stop the controller first", at("c3")...)
	w.kill("c1")
	w.kill("c3")
	refused("was not compared", at("c3")...)
	running := append([]string{"--endpoints", w.api("c2")}, w.certificate()...)
	res := w.Run(w.t.Context(), at("c3", running...)...)
	require.True(w.t, res.Code == 0 || strings.Contains(res.Stderr, "recover there"), res.Stderr)
	require.Contains(w.t, res.Stdout, "c2 through")
	w.kill("c2")
	survivor, other := "c3", "c2"
	if w.Run(w.t.Context(), at("c3", "--compare", l.DataDir("c2"))...).Code != 0 {
		refused("recover there", at("c3", "--compare", l.DataDir("c2"))...)
		survivor, other = other, survivor
	}
	recovery := at(survivor, "--compare", l.DataDir(other), "--yes")
	w.must(recovery...)
	require.Contains(w.t, w.must(recovery...), "done already")
	w.beginAgain(survivor, "c1", other)
}

// api is the address of a controller's API.
func (w *wipedCluster) api(id string) string {
	w.t.Helper()
	l, err := w.Layout()
	require.NoError(w.t, err)
	at := slices.IndexFunc(l.Controllers, func(c harness.Controller) bool { return c.ID == id })
	return l.Controllers[at].API
}

// certificate are the flags with the operator's files.
func (w *wipedCluster) certificate() []string {
	dir := filepath.Join(w.Dir, "pki", "admin-dev")
	return []string{"--cert", filepath.Join(dir, "admin-dev.crt"), "--key", filepath.Join(dir, "admin-dev.key"), "--ca", filepath.Join(dir, "ca.crt")}
}

// awaitScheduled waits until the leader wrote a whole backup to a folder, and all of them are what they say.
func (w *wipedCluster) awaitScheduled(dir string) {
	w.t.Helper()
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, "a scheduled backup", func() (bool, error) {
		res := w.Run(w.t.Context(), "backup", "list", "--backup-to", dir)
		require.Equal(w.t, 0, res.Code, res.Stderr)
		return strings.Contains(res.Stdout, "full"), nil
	}))
}
