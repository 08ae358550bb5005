package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// harm is one way to damage one file of a data folder.
type harm struct {
	file func(t *testing.T, folder string) string
	do   func(path string) error
}

// newest finds the youngest file that matches a pattern below the data folder.
func newest(pattern string) func(*testing.T, string) string {
	return func(t *testing.T, folder string) string {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, "no file matches %s in %s", pattern, folder)
		return slices.MaxFunc(found, func(a, b string) int { return age(t, a).Compare(age(t, b)) })
	}
}

func age(t *testing.T, path string) time.Time {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.ModTime()
}

// truncate cuts a file to half of what it holds.
func truncate(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, int64(written(raw)/2))
}

// written is where a file's trailing zeros begin.
func written(raw []byte) int { return len(strings.TrimRight(string(raw), "\x00")) }

// flip turns one bit, at a part of what the file holds.
func flip(part float64) func(string) error {
	return func(path string) error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		raw[int(part*float64(written(raw)-1))] ^= 0x10
		return os.WriteFile(path, raw, 0o600)
	}
}

var harms = map[string]harm{
	"the newest snapshot truncated":          {newest("snapshots/*[0-9]/state.bin"), truncate},
	"a bit of the newest snapshot turned":    {newest("snapshots/*[0-9]/state.bin"), flip(0.5)},
	"the snapshot's meta file truncated":     {newest("snapshots/*[0-9]/meta.json"), truncate},
	"the bolt file truncated":                {newest("raft.db"), truncate},
	"a bit of the bolt file's head turned":   {newest("raft.db"), flip(0.001)},
	"a bit of the bolt file's data turned":   {newest("raft.db"), flip(0.6)},
	"the vote file truncated":                {newest("vote.json"), truncate},
	"a bit of the vote file turned":          {newest("vote.json"), flip(0.5)},
	"the identity file truncated":            {newest("identity.json"), truncate},
	"the bolt file removed":                  {newest("raft.db"), os.Remove},
	"the newest log segment truncated":       {newest("wal/*.wal"), truncate},
	"a bit of the newest log segment turned": {newest("wal/*.wal"), flip(0.3)},
}

// eager makes snapshots after a few entries.
var eager = []string{"--controller-arg=--snapshot-threshold=50", "--controller-arg=--snapshot-interval=1s", "--controller-arg=--trailing-logs=100"}

// TestDamagedDataFolderIsRefusedOrRecovered: item 6 of what must hold. Never may
// a member serve a wrong state; the hash of its state tells.
func TestDamagedDataFolderIsRefusedOrRecovered(t *testing.T) {
	for _, logStore := range []string{"wal", "boltdb"} {
		t.Run(logStore, func(t *testing.T) {
			c := start(t, harness.Options{Supervise: false, Flags: append([]string{"--log-store=" + logStore}, eager...)})
			volumes := createMany(t, c.NewCO(), "kept", 60, 8)
			awaitSnapshot(t, c, "c2")
			for name, h := range harms {
				if logStore == "boltdb" && !strings.Contains(name, "bolt") || logStore == "wal" && strings.Contains(name, "data turned") {
					continue // what both stores have in common is tried once
				}
				t.Run(name, func(t *testing.T) { damage(t, c, "c2", h) })
			}
			t.Run("S21_swapped stores do not start", func(t *testing.T) { swapped(t, c) })
			eachOnce(t, c, volumes)
			deleteAll(t, c, c.NewCO(), volumes)
		})
	}
}

func awaitSnapshot(t *testing.T, c *harness.Cluster, id string) {
	l, err := c.Layout()
	require.NoError(t, err)
	require.NoError(t, harness.Poll(t.Context(), time.Minute, "a Raft snapshot of "+id, func() (bool, error) {
		found, err := filepath.Glob(filepath.Join(l.DataDir(id), "snapshots", "*[0-9]", "state.bin"))
		return len(found) > 0, err
	}))
}

// damage damages a dead member's folder and starts it: it refuses and names the
// file and a remedy, or it recovers the same state as the others.
func damage(t *testing.T, c *harness.Cluster, id string, h harm) {
	l, err := c.Layout()
	require.NoError(t, err)
	folder := l.DataDir(id)
	require.NoError(t, c.Kill(t.Context(), id))
	save(t, c, id, folder)
	path := h.file(t, folder)
	require.NoError(t, h.do(path))
	if startsAgain(t, c, id, path) {
		require.NoError(t, c.AwaitAgreement(t.Context()))
	}
}

// save keeps a copy of a dead child's folder, and goes on with it when the test ends.
func save(t *testing.T, c *harness.Cluster, id, folder string) {
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, exec.CommandContext(t.Context(), "cp", "-a", folder, copied).Run())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if alive(t, c, id) {
			require.NoError(t, c.Kill(ctx, id))
		}
		require.NoError(t, os.RemoveAll(folder))
		require.NoError(t, exec.CommandContext(ctx, "cp", "-a", copied, folder).Run())
		require.NoError(t, c.StartChild(ctx, id))
		require.NoError(t, c.AwaitAgreement(ctx))
	})
}

// startsAgain starts a child, and tells whether it came to agree with the others.
// When it refused, its log must name the file, or its folder, and what to do.
func startsAgain(t *testing.T, c *harness.Cluster, id, path string) bool {
	t.Helper()
	before := len(c.ChildLog(id))
	res := c.Run(t.Context(), "dev", "start", "--dir", c.Dir, id)
	require.Zero(t, res.Code, res.Stderr)
	require.NoError(t, harness.Poll(t.Context(), time.Minute, id+" to refuse or to agree with the others", func() (bool, error) {
		if !alive(t, c, id) {
			return true, nil
		}
		s, err := c.Status(t.Context())
		if err == nil {
			err = s.Agree()
		}
		return err == nil, err
	}))
	if alive(t, c, id) {
		t.Logf("%s recovered", id)
		return true
	}
	said := c.ChildLog(id)[before:]
	named := strings.Contains(said, path)
	for _, end := range []string{" ", ":"} { // a snapshot, and a log in segments, is one thing of several files
		named = named || strings.Contains(said, filepath.Dir(path)+end)
	}
	require.True(t, named, "the refusal does not name %s: %s", path, said)
	require.Contains(t, said, "remedy", "the refusal does not name a remedy")
	lines := strings.Split(strings.TrimSpace(said), "\n")
	t.Logf("%s refused: %s", id, lines[len(lines)-1])
	return false
}

func alive(t *testing.T, c *harness.Cluster, id string) bool {
	l, err := c.Layout()
	require.NoError(t, err)
	return l.PID(id) != 0
}

// swapped gives two members each other's stores. Neither may start (S21).
func swapped(t *testing.T, c *harness.Cluster) {
	l, err := c.Layout()
	require.NoError(t, err)
	members := []string{"c2", "c3"}
	for _, name := range []string{"wal", "raft.db", "snapshots"} {
		paths := []string{filepath.Join(l.DataDir(members[0]), name), filepath.Join(l.DataDir(members[1]), name)}
		if _, err := os.Lstat(paths[0]); err != nil {
			continue // this log store has none
		}
		for _, id := range members {
			require.NoError(t, c.Kill(t.Context(), id))
		}
		swap(t, paths)
		for i, id := range members {
			require.False(t, startsAgain(t, c, id, paths[i]), "%s started with the %s of another member", id, name)
		}
		swap(t, paths)
		for _, id := range members {
			require.NoError(t, c.StartChild(t.Context(), id))
		}
		require.NoError(t, c.AwaitAgreement(t.Context()))
	}
}

func swap(t *testing.T, paths []string) {
	for _, move := range [][2]string{{paths[0], paths[0] + ".away"}, {paths[1], paths[0]}, {paths[0] + ".away", paths[1]}} {
		require.NoError(t, os.Rename(move[0], move[1]), fmt.Sprint(move))
	}
}
