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
		"index 3: the members' hash is": func(_ *testing.T, entries []journal.Entry, _ *At) []journal.Entry { // one is lost
			return append(entries[:1:1], entries[2])
		},
		"index 2 was decided as": func(_ *testing.T, entries []journal.Entry, _ *At) []journal.Entry { // another order
			entries[1].Command, entries[2].Command = entries[2].Command, entries[1].Command
			entries[1].Outcome, entries[2].Outcome = entries[2].Outcome, entries[1].Outcome
			return entries
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

// TestHashesOfIndexesWithoutACommandAreCompared: Raft's own entries are in no journal, and members answer hashes of their indexes too.
func TestHashesOfIndexesWithoutACommandAreCompared(t *testing.T) {
	entries, last := lived(t)
	entries[2].Index = 5 // as if Raft had two of its own before it
	first := hashAfter(t, entries[:1])
	for name, tc := range map[string]struct {
		at    At
		right bool
	}{
		"of the command before":      {At{4, hashAfter(t, entries[:2])}, true},
		"of an earlier one":          {At{4, first}, false},
		"of a later one":             {At{4, last.Hash}, false},
		"of the first command":       {At{1, first}, true},
		"of what nobody knows":       {At{4, "00"}, false},
		"before there was a command": {At{0, first}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLog()
			for _, e := range entries {
				require.NoError(t, l.add(e))
			}
			l.cover(1, 5)
			_, err := l.decide(map[uint64]string{tc.at.Index: tc.at.Hash}, tc.at.Index)
			require.Equal(t, tc.right, err == nil, "%v", err)
		})
	}
}

// hashAfter is the hash of the state after these entries.
func hashAfter(t *testing.T, entries []journal.Entry) string {
	t.Helper()
	state := fsm.New()
	for _, e := range entries {
		var c fsmpb.Command
		require.NoError(t, proto.Unmarshal(e.Command, &c))
		state.Apply(e.Index, &c)
	}
	hash := state.Hash()
	return hex.EncodeToString(hash[:])
}

func TestMembersWithTwoHashesOfOneIndexAreFound(t *testing.T) {
	entries, last := lived(t)
	_, err := logOf(t, kept(t, entries)).Check(last, At{Index: last.Index, Hash: "00"})
	require.ErrorContains(t, err, "members had the hashes")
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

func entryOf(t *testing.T, index uint64, create *fsmpb.Command_CreateVolume, outcome *fsmpb.Outcome) journal.Entry {
	t.Helper()
	rawCommand, err := proto.Marshal(&fsmpb.Command{Body: create})
	require.NoError(t, err)
	rawOutcome, err := proto.Marshal(outcome)
	require.NoError(t, err)
	return journal.Entry{Index: index, Term: 2, Command: rawCommand, Outcome: rawOutcome}
}

func TestAcknowledgedFinds(t *testing.T) {
	entries, _ := lived(t)
	entries = append(entries, entryOf(t, 4, &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{Name: "a"}}, &fsmpb.Outcome{Index: 4, VolumeId: "vol-4"}),
		entryOf(t, 5, &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{Name: "a"}}, &fsmpb.Outcome{Index: 5, Rejection: &fsmpb.Rejection{}}))
	l := logOf(t, kept(t, entries))
	deleted := check.Call{Input: model.Input{Kind: model.Delete, ID: "vol-1"}, Output: model.Output{Outcome: model.OK, Index: 3}}
	looked, err := l.Acknowledged([]check.Call{deleted})
	require.NoError(t, err)
	require.Equal(t, 1, looked)
	for problem, spoil := range map[string]func(*check.Call){
		"which no member has":  func(c *check.Call) { c.Output.Index = 6 },
		"of no index":          func(c *check.Call) { c.Output.Index = 0 },
		"index 3, which is":    func(c *check.Call) { c.Input.ID = "vol-2" },
		"index 1, which is":    func(c *check.Call) { c.Output.Index = 1 },
		"both acknowledged of": func(*check.Call) {},
		"index 4, which is": func(c *check.Call) { // another volume than the log has under the name
			c.Input, c.Output = model.Input{Kind: model.Create, Name: "a"}, model.Output{Outcome: model.OK, Index: 4, ID: "vol-3"}
		},
		"index 5, which is": func(c *check.Call) { // the log refused it
			c.Input, c.Output = model.Input{Kind: model.Create, Name: "a"}, model.Output{Outcome: model.OK, Index: 5}
		},
	} {
		t.Run(problem, func(t *testing.T) {
			bad := deleted
			spoil(&bad)
			_, err := l.Acknowledged([]check.Call{bad, deleted})
			require.ErrorContains(t, err, problem)
		})
	}
}
