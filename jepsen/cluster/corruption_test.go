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

// corruption is one way to corrupt one file of a data directory.
type corruption struct {
	file  func(t *testing.T, folder string) string
	apply func(path string) error
}

// newestFile finds the youngest file that matches a pattern below the data directory.
func newestFile(pattern string) func(*testing.T, string) string {
	return func(t *testing.T, folder string) string {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, "no file matches %s in %s", pattern, folder)
		return slices.MaxFunc(found, func(a, b string) int { return modTime(t, a).Compare(modTime(t, b)) })
	}
}

func modTime(t *testing.T, path string) time.Time {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.ModTime()
}

// truncate shortens a file to half of what it holds.
func truncate(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, int64(dataEnd(raw)/2))
}

// dataEnd returns the offset at which a file's trailing zeros begin.
func dataEnd(raw []byte) int { return len(strings.TrimRight(string(raw), "\x00")) }

// flipBit flips one bit, at a fraction of the file's data.
func flipBit(part float64) func(string) error {
	return func(path string) error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		raw[int(part*float64(dataEnd(raw)-1))] ^= 0x10
		return os.WriteFile(path, raw, 0o600)
	}
}

var corruptions = map[string]corruption{
	"the newest snapshot truncated":          {newestFile("snapshots/*[0-9]/state.bin"), truncate},
	"a bit of the newest snapshot turned":    {newestFile("snapshots/*[0-9]/state.bin"), flipBit(0.5)},
	"the snapshot's meta file truncated":     {newestFile("snapshots/*[0-9]/meta.json"), truncate},
	"the bolt file truncated":                {newestFile("raft.db"), truncate},
	"a bit of the bolt file's head turned":   {newestFile("raft.db"), flipBit(0.001)},
	"a bit of the bolt file's data turned":   {newestFile("raft.db"), flipBit(0.6)},
	"the vote file truncated":                {newestFile("vote.json"), truncate},
	"a bit of the vote file turned":          {newestFile("vote.json"), flipBit(0.5)},
	"the identity file truncated":            {newestFile("identity.json"), truncate},
	"the bolt file removed":                  {newestFile("raft.db"), os.Remove},
	"the newest log segment truncated":       {newestFile("wal/*.wal"), truncate},
	"a bit of the newest log segment turned": {newestFile("wal/*.wal"), flipBit(0.3)},
}

// eagerSnapshots makes snapshots after a few entries.
var eagerSnapshots = []string{"--controller-arg=--snapshot-threshold=50", "--controller-arg=--snapshot-interval=1s", "--controller-arg=--trailing-logs=100"}

// TestDamagedDataFolderIsRefusedOrRecovered: a member with a corrupt data directory never serves a wrong state,
// as the hash of its state shows.
func TestDamagedDataFolderIsRefusedOrRecovered(t *testing.T) {
	for _, logStore := range []string{"wal", "boltdb"} {
		t.Run(logStore, func(t *testing.T) {
			c := startCluster(t, harness.Options{Supervise: false, Flags: append([]string{"--log-store=" + logStore}, eagerSnapshots...)})
			volumes := createMany(t, c.NewCO(), "kept", 60, 8)
			awaitSnapshot(t, c, "c2")
			for name, h := range corruptions {
				if logStore == "boltdb" && !strings.Contains(name, "bolt") || logStore == "wal" && strings.Contains(name, "data turned") {
					continue // files that both stores have are tried once
				}
				t.Run(name, func(t *testing.T) { corruptAndStart(t, c, "c2", h) })
			}
			t.Run("S21_swapped stores do not start", func(t *testing.T) { swappedStores(t, c) })
			requireExactVolumes(t, c, volumes)
			deleteAll(t, c, c.NewCO(), volumes)
		})
	}
}

// awaitSnapshot waits until a member has a whole Raft snapshot: its checksum, in the file seal, is
// written last. One without it counts as damaged at the next start.
func awaitSnapshot(t *testing.T, c *harness.Cluster, id string) {
	l, err := c.Layout()
	require.NoError(t, err)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "a Raft snapshot of "+id, func() (bool, error) {
		found, err := filepath.Glob(filepath.Join(l.DataDir(id), "snapshots", "*[0-9]", "seal"))
		return len(found) > 0, err
	}))
}

// corruptAndStart corrupts a dead member's directory and starts it: it refuses and names the
// file and a remedy, or it recovers the same state as the others.
func corruptAndStart(t *testing.T, c *harness.Cluster, id string, h corruption) {
	l, err := c.Layout()
	require.NoError(t, err)
	folder := l.DataDir(id)
	require.NoError(t, c.Kill(t.Context(), id))
	saveFolder(t, c, id, folder)
	path := h.file(t, folder)
	require.NoError(t, h.apply(path))
	if startsAndAgrees(t, c, id, path) {
		require.NoError(t, c.AwaitAgreement(t.Context()))
	}
}

// saveFolder copies a dead child's directory, and restores it when the test ends.
func saveFolder(t *testing.T, c *harness.Cluster, id, folder string) {
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, exec.CommandContext(t.Context(), "cp", "-a", folder, copied).Run())
	t.Cleanup(func() {
		ctx := context.Background()
		if alive(t, c, id) {
			require.NoError(t, c.Kill(ctx, id))
		}
		require.NoError(t, os.RemoveAll(folder))
		require.NoError(t, exec.CommandContext(ctx, "cp", "-a", copied, folder).Run())
		require.NoError(t, c.StartChild(ctx, id))
		require.NoError(t, c.AwaitAgreement(ctx))
	})
}

// startsAndAgrees starts a child, and reports whether it agreed with the others.
// When it refused, its log must name the file, or its directory, and what to do.
func startsAndAgrees(t *testing.T, c *harness.Cluster, id, path string) bool {
	t.Helper()
	before := len(c.ChildLog(id))
	res := c.Run(t.Context(), "dev", "start", "--dir", c.Dir, id)
	require.Zero(t, res.Code, res.Stderr)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, id+" to refuse or to agree with the others", func() (bool, error) {
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
	childLog := c.ChildLog(id)[before:]
	named := strings.Contains(childLog, path)
	for _, end := range []string{" ", ":"} { // a Raft snapshot, and a log in segments, has several files
		named = named || strings.Contains(childLog, filepath.Dir(path)+end)
	}
	require.True(t, named, "the refusal does not name %s: %s", path, childLog)
	require.Contains(t, childLog, "remedy", "the refusal does not name a remedy")
	lines := strings.Split(strings.TrimSpace(childLog), "\n")
	t.Logf("%s refused: %s", id, lines[len(lines)-1])
	return false
}

func alive(t *testing.T, c *harness.Cluster, id string) bool {
	l, err := c.Layout()
	require.NoError(t, err)
	return l.PID(id) != 0
}

// swappedStores gives two members each other's stores. Neither may start (S21).
func swappedStores(t *testing.T, c *harness.Cluster) {
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
		swapFolders(t, paths)
		for i, id := range members {
			require.False(t, startsAndAgrees(t, c, id, paths[i]), "%s started with the %s of another member", id, name)
		}
		swapFolders(t, paths)
		for _, id := range members {
			require.NoError(t, c.StartChild(t.Context(), id))
		}
		require.NoError(t, c.AwaitAgreement(t.Context()))
	}
}

func swapFolders(t *testing.T, paths []string) {
	for _, move := range [][2]string{{paths[0], paths[0] + ".away"}, {paths[1], paths[0]}, {paths[0] + ".away", paths[1]}} {
		require.NoError(t, os.Rename(move[0], move[1]), fmt.Sprint(move))
	}
}
