package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// stoppedController is the data folder of a controller that does not run, with what its journal has.
type stoppedController struct {
	t       *testing.T
	dir     string
	state   *fsm.State
	entries []journal.Entry
}

// skip has the controller skip an entry, and records that as `holdfast log skip` does.
func (c *stoppedController) skip(content []byte) {
	index, hash := c.state.Cluster().Index+1, sha256.Sum256(content)
	outcome, err := proto.Marshal(c.state.Skip(index, hash[:], new(fsmpb.Command)).Outcome)
	require.NoError(c.t, err)
	c.entries = append(c.entries, journal.Entry{Index: index, Term: 1, Command: content, Outcome: outcome, Chain: c.state.Cluster().Chain})
	s, err := store.Open(store.Options{Dir: c.dir})
	require.NoError(c.t, err)
	require.NoError(c.t, s.AddSkip(store.Skip{EntryName: store.EntryName{Index: index, Term: 1, Hash: hex.EncodeToString(hash[:])}, Reason: "it faults", At: time.Now()}))
	require.NoError(c.t, s.Close())
}

func newStoppedController(t *testing.T) *stoppedController {
	c := &stoppedController{t: t, dir: filepath.Join(t.TempDir(), "data")}
	s, err := store.Open(store.Options{Dir: c.dir})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	state := fsm.New()
	c.state = state
	apply := func(cmd *fsmpb.Command) {
		index := state.Cluster().Index + 1
		cmd.RequestId, cmd.SchemaVersion = fmt.Appendf(nil, "%016d", index), fsm.MaxFeatureLevel
		command, err := proto.Marshal(cmd)
		require.NoError(t, err)
		outcome, err := proto.Marshal(state.Apply(index, cmd).Outcome)
		require.NoError(t, err)
		c.entries = append(c.entries, journal.Entry{Index: index, Term: 1, Command: command, Outcome: outcome, Chain: state.Cluster().Chain})
	}
	apply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "one", IncarnationId: []byte("0123456789abcdef"), FeatureLevel: fsm.MaxFeatureLevel}}})
	for i := range 40 {
		name := fmt.Sprintf("n%d", i)
		apply(&fsmpb.Command{Actor: "node/" + name, Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: name, HostId: "host-" + name, BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel,
			Pools: []*fsmpb.Pool{{PoolId: "pool-" + name, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000}}}}})
	}
	return c
}

// write makes a journal of these entries, with all its checksums, as who touches one would.
func (c *stoppedController) write(entries []journal.Entry) {
	dir := filepath.Join(c.dir, "journal")
	require.NoError(c.t, os.RemoveAll(dir))
	j, err := journal.Open(journal.Options{Dir: dir})
	require.NoError(c.t, err)
	for _, e := range entries {
		require.NoError(c.t, j.Append(e))
		require.NoError(c.t, j.Sync(0)) // blocks of one entry
	}
	require.NoError(c.t, j.Close())
}

// verify verifies twice, and returns what was printed. The journal stays as it is.
func (c *stoppedController) verify(code int) string {
	c.t.Helper()
	before := c.files()
	first, firstErr := run(c.t, code, "history", "verify", "--data-dir", c.dir)
	second, secondErr := run(c.t, code, "history", "verify", "--data-dir", c.dir)
	require.Equal(c.t, first+firstErr, second+secondErr)
	require.Equal(c.t, before, c.files())
	return first + firstErr
}

func (c *stoppedController) files() (content []byte) {
	names, err := filepath.Glob(filepath.Join(c.dir, "journal", "*"))
	require.NoError(c.t, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(c.t, err)
		content = append(content, data...)
	}
	return content
}

func TestHistoryVerifyOfAStoppedController(t *testing.T) {
	c := newStoppedController(t)
	last := len(c.entries)
	c.write(c.entries)
	out := c.verify(exit.OK)
	require.Contains(t, out, "first index 1, where the chain began")
	require.Contains(t, out, fmt.Sprintf("last index %d\nentries %d\nhead %x", last, last, c.entries[last-1].Chain))

	changed := func(at int, change func(*journal.Entry)) []journal.Entry {
		all := slices.Clone(c.entries)
		change(&all[at])
		return all
	}
	for name, tc := range map[string]struct {
		entries []journal.Entry
		index   int
	}{
		"an altered command": {changed(9, func(e *journal.Entry) {
			cmd := new(fsmpb.Command)
			require.NoError(t, proto.Unmarshal(e.Command, cmd))
			cmd.Actor = "node/eve"
			e.Command, _ = proto.Marshal(cmd)
		}), 10},
		"an altered outcome": {changed(9, func(e *journal.Entry) {
			e.Outcome, _ = proto.Marshal(&fsmpb.Outcome{Index: 10, Rejection: &fsmpb.Rejection{Reason: 1}})
		}), 10},
		"an altered link":  {changed(9, func(e *journal.Entry) { e.Chain = slices.Clone(c.entries[3].Chain) }), 10},
		"a removed link":   {changed(9, func(e *journal.Entry) { e.Chain = nil }), 10},
		"a removed entry":  {slices.Delete(slices.Clone(c.entries), 9, 10), 11},
		"swapped commands": {changed(9, func(e *journal.Entry) { e.Command = c.entries[10].Command }), 10},
		"an inserted entry": {append(slices.Clone(c.entries), journal.Entry{Index: uint64(last + 1), Term: 1, Command: c.entries[4].Command,
			Outcome: c.entries[4].Outcome, Chain: c.entries[4].Chain}), last + 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.write(tc.entries)
			require.Contains(t, c.verify(exit.Refused), fmt.Sprintf("index %d: ", tc.index))
		})
	}
	t.Run("a flipped byte", func(t *testing.T) {
		c.write(c.entries)
		name := filepath.Join(c.dir, "journal", "00000000000000000001.hfj")
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		data[len(data)/2] ^= 1
		require.NoError(t, os.WriteFile(name, data, 0o600))
		require.Contains(t, c.verify(exit.Refused), "is missing or damaged")
	})
	t.Run("what is kept is verified when its beginning is not", func(t *testing.T) {
		c.write(c.entries[5:])
		require.Contains(t, c.verify(exit.OK), "first index 6, the oldest that is kept")
	})
	t.Run("an entry that is skipped since the last Raft snapshot, and that no build can read", func(t *testing.T) {
		skipping := newStoppedController(t)
		skipping.skip([]byte("no command"))
		skipping.write(skipping.entries)
		require.Contains(t, skipping.verify(exit.OK), "where the chain began")
		altered := slices.Clone(skipping.entries)
		altered[9].Command = []byte("no command either")
		skipping.write(altered)
		require.Contains(t, skipping.verify(exit.Refused), "index 10: ")
	})
	t.Run("one thing at a time", func(t *testing.T) {
		for range 2 {
			run(t, exit.Usage, "history", "verify", "--data-dir", c.dir, "--bundle", "x")
		}
	})
}
