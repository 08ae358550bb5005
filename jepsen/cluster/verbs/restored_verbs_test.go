package verbs

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
)

// TestS1_S72_VerbsAfterARestoreGoOnWhereTheyWereKilled: a cluster is restored from a backup at an earlier feature level, which is raised; then
// its controller is lost, and it is restored from a backup to which volumes are newer, and adopted.
func TestS1_S72_VerbsAfterARestoreGoOnWhereTheyWereKilled(t *testing.T) {
	o := start(t, harness.Options{Controllers: 1, Nodes: 2, Flags: []string{"--node-arg=--pool-image=never"}})
	k := &stateVerbs{operator: o, gate: o.openGate()}
	l, err := o.Layout()
	require.NoError(t, err)
	address := raftAddressOf(t, o)
	require.NoError(t, o.Stop(t.Context()))
	for _, n := range l.Nodes { // they are of no cluster yet
		require.NoError(t, os.RemoveAll(filepath.Join(o.Dir, "nodes", n.ID)))
	}
	require.NoError(t, os.RemoveAll(l.DataDir("c1")))
	o.must("restore", "--data-dir", l.DataDir("c1"), "--backup", earlierLevel(t), "--cluster", "of-old", "--advertise", address, "--yes")
	require.NoError(t, o.Resume(t.Context()))
	level := func() uint32 {
		s, err := o.Status(t.Context())
		require.NoError(t, err)
		return s.FeatureLevel
	}
	require.EqualValues(t, fsm.MaxFeatureLevel-1, level())
	k.killed(func() bool { return level() == fsm.MaxFeatureLevel }, "upgrade", "finish", "--yes")
	k.adopts(l, address)
}

// earlierLevel is a backup of a cluster that runs at the level before this build's.
func earlierLevel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, backup.CreateFile(path, func(w io.Writer) error {
		_, err := backup.Take(t.Context(), backuptest.NewAt(t, "of-old", fsm.MaxFeatureLevel-1), backup.Request{Member: "c1", Now: time.Now()}, w)
		return err
	}))
	return path
}

func raftAddressOf(t *testing.T, o *operator) string {
	t.Helper()
	found := regexp.MustCompile(`"address": "([^"]+)"`).FindStringSubmatch(o.ask("members", "-o", "json"))
	require.NotNil(t, found)
	return found[1]
}

// adopts restores a backup that lacks volumes of both hosts.
func (k *stateVerbs) adopts(l harness.Layout, address string) {
	k.t.Helper()
	co := k.NewCO()
	create := func(name, node string) string {
		v, err := co.Create(k.t.Context(), harness.Spec{Name: name, Node: node})
		require.NoError(k.t, err)
		require.NoError(k.t, k.AwaitManifest(k.t.Context(), node, v.ID), "what its host did not hear before the log is lost it cannot say")
		return v.ID
	}
	known, path := create("known", "n1"), filepath.Join(k.t.TempDir(), "backup")
	k.ask("backup", path)
	newer := []string{create("newer", "n1"), create("newest", "n2")}
	require.NoError(k.t, k.Kill(k.t.Context(), "c1"))
	require.NoError(k.t, os.RemoveAll(l.DataDir("c1")))
	k.must("restore", "--data-dir", l.DataDir("c1"), "--backup", path, "--advertise", address, "--yes")
	require.NoError(k.t, k.StartChild(k.t.Context(), "c1"))
	adopt := []string{"adopt", "--incarnation", k.plansToAdopt(newer)}
	k.killed(func() bool {
		return regexp.MustCompile(`"done": true`).MatchString(k.ask(append(adopt, "-o", "json")...))
	},
		append(adopt, "--yes", "--wait")...)
	listed, err := co.List(k.t.Context())
	require.NoError(k.t, err)
	require.Len(k.t, listed, 3)
	for _, id := range append(newer, known) {
		require.Contains(k.t, listed, id)
	}
	require.NoError(k.t, k.AwaitCleanAudit(k.t.Context()))
}

// plansToAdopt waits until both hosts have answered, and answers the incarnation of the plan, which takes in these volumes and no other.
func (k *stateVerbs) plansToAdopt(volumes []string) string {
	k.t.Helper()
	type adoptPlan struct {
		Incarnation, Waiting json.Number
		Steps                []struct{ Action, Volume string }
	}
	var plan adoptPlan
	require.NoError(k.t, harness.Poll(k.t.Context(), harness.Patience, "both hosts to answer", func() (bool, error) {
		plan = adoptPlan{}
		res := k.Run(k.t.Context(), "adopt", "--dir", k.Dir, "-o", "json")
		return res.Code == 0 && json.Unmarshal([]byte(res.Stdout), &plan) == nil && plan.Waiting == "0", nil
	}))
	var taken []string
	for _, step := range plan.Steps {
		if step.Action == "adopt" {
			taken = append(taken, step.Volume)
		}
	}
	require.ElementsMatch(k.t, volumes, taken, "%+v", plan.Steps)
	return plan.Incarnation.String()
}
