package replay

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/jepsen/check"
	"github.com/holdfast-storage/holdfast/jepsen/model"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// lived is a log that a cluster may have had: it began, a node registered, and a checkpoint was agreed on.
func lived(t *testing.T) (entries []journal.Entry, last At) {
	t.Helper()
	state := fsm.New()
	add := func(cmd *fsmpb.Command) {
		index := uint64(len(entries) + 1)
		cmd.RequestId, cmd.Actor, cmd.ProposedAt, cmd.ProposedIndex = append(make([]byte, 15), byte(index)), "controller/c1", int64(index), index-1
		cmd.SchemaVersion = fsm.LeastLevel(cmd)
		outcome := state.Apply(index, cmd).Outcome
		rawCommand, err := proto.Marshal(cmd)
		require.NoError(t, err)
		rawOutcome, err := proto.Marshal(outcome)
		require.NoError(t, err)
		entries = append(entries, journal.Entry{Index: index, Term: 2, Command: rawCommand, Outcome: rawOutcome})
	}
	add(&fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{ClusterId: "c", IncarnationId: []byte("incarnation-0001"), FeatureLevel: 1}}})
	hash := state.Hash()
	add(&fsmpb.Command{Body: &fsmpb.Command_Checkpoint{Checkpoint: &fsmpb.Checkpoint{Index: 1, Hash: hash[:]}}})
	add(&fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: "vol-1"}}})
	hash = state.Hash()
	return entries, At{Index: 3, Hash: hex.EncodeToString(hash[:])}
}

// kept is the journal of a member that has these entries.
func kept(t *testing.T, entries []journal.Entry) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j, err := journal.Open(journal.Options{Dir: dir})
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, j.Append(e))
	}
	require.NoError(t, j.Close())
	return dir
}

func logOf(t *testing.T, dirs ...string) *Log {
	t.Helper()
	l := NewLog()
	for _, dir := range dirs {
		require.NoError(t, l.Add(dir))
	}
	return l
}

func TestALogIsDecidedAsItWas(t *testing.T) {
	entries, last := lived(t)
	l := logOf(t, kept(t, entries[:2]), kept(t, entries))
	decided, err := l.Check(last)
	require.NoError(t, err)
	require.Equal(t, 3, decided)
	require.Equal(t, 2, l.Compared())
	require.EqualValues(t, 3, l.Complete())
}

func TestCheckFinds(t *testing.T) {
	for problem, spoil := range map[string]func(t *testing.T, entries []journal.Entry, last *At) []journal.Entry{
		"the log's": func(_ *testing.T, entries []journal.Entry, last *At) []journal.Entry {
			last.Hash = "00"
			return entries
		},
		"the checkpoint of index 1": func(t *testing.T, entries []journal.Entry, _ *At) []journal.Entry {
			entries[1].Command = changed(t, entries[1].Command, func(c *fsmpb.Command) { c.GetCheckpoint().Hash[0]++ })
			return entries
		},
		"index 3 was decided as": func(t *testing.T, entries []journal.Entry, _ *At) []journal.Entry {
			raw, err := proto.Marshal(&fsmpb.Outcome{Index: 3, VolumeId: "vol-2"})
			require.NoError(t, err)
			entries[2].Outcome = raw
			return entries
		},
		"is of term 1, an earlier one of term 2": func(_ *testing.T, entries []journal.Entry, _ *At) []journal.Entry {
			entries[2].Term = 1
			return entries
		},
		"no member has what follows index 2": func(_ *testing.T, entries []journal.Entry, _ *At) []journal.Entry {
			return entries[:2]
		},
		"index 1 cannot be decided": func(t *testing.T, entries []journal.Entry, _ *At) []journal.Entry {
			entries[0].Command = changed(t, entries[0].Command, func(c *fsmpb.Command) { c.Body = nil })
			return entries
		},
	} {
		t.Run(problem, func(t *testing.T) {
			entries, last := lived(t)
			l := logOf(t, kept(t, spoil(t, entries, &last)))
			_, err := l.Check(last)
			require.ErrorContains(t, err, problem)
		})
	}
}

func changed(t *testing.T, raw []byte, change func(*fsmpb.Command)) []byte {
	t.Helper()
	var c fsmpb.Command
	require.NoError(t, proto.Unmarshal(raw, &c))
	change(&c)
	raw, err := proto.Marshal(&c)
	require.NoError(t, err)
	return raw
}

func TestMembersThatDifferAreFound(t *testing.T) {
	entries, _ := lived(t)
	l := logOf(t, kept(t, entries))
	entries[2].Command = changed(t, entries[2].Command, func(c *fsmpb.Command) { c.GetDeleteVolume().VolumeId = "vol-2" })
	require.ErrorContains(t, l.Add(kept(t, entries)), "members differ at index 3")
}

func TestAcknowledgedFinds(t *testing.T) {
	entries, _ := lived(t)
	l := logOf(t, kept(t, entries))
	deleted := check.Call{Input: model.Input{Kind: model.Delete, ID: "vol-1"}, Output: model.Output{Outcome: model.OK, Index: 3}}
	looked, err := l.Acknowledged([]check.Call{deleted})
	require.NoError(t, err)
	require.Equal(t, 1, looked)
	for problem, spoil := range map[string]func(*check.Call){
		"which no member has":  func(c *check.Call) { c.Output.Index = 4 },
		"index 3, which is":    func(c *check.Call) { c.Input.ID = "vol-2" },
		"index 1, which is":    func(c *check.Call) { c.Output.Index = 1 },
		"both acknowledged of": func(*check.Call) {},
	} {
		t.Run(problem, func(t *testing.T) {
			bad := deleted
			spoil(&bad)
			_, err := l.Acknowledged([]check.Call{bad, deleted})
			require.ErrorContains(t, err, problem)
		})
	}
}
