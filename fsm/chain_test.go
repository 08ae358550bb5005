package fsm

import (
	"bytes"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// linked is an entry as a journal has it.
type linked struct {
	index   uint64
	cmd     *fsmpb.Command
	outcome *fsmpb.Outcome
	link    []byte
}

// playedJournal is what a player did, as it is journalled: through bytes. Entries below level 3 have no link.
func playedJournal(t *testing.T, seed int64, entries int) (journal []linked, s *State) {
	p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(seed)), left: entries})
	for p.more() {
		e := p.next()
		cmd, outcome := new(fsmpb.Command), new(fsmpb.Outcome)
		command, err := proto.Marshal(e.cmd)
		require.NoError(t, err)
		require.NoError(t, proto.Unmarshal(command, cmd))
		decided, err := proto.Marshal(p.w.s.Apply(e.index, e.cmd).Outcome)
		require.NoError(t, err)
		require.NoError(t, proto.Unmarshal(decided, outcome))
		journal = append(journal, linked{e.index, cmd, outcome, p.w.s.Cluster().Chain})
	}
	return journal, p.w.s
}

func checked(s *State, journal []linked) *ChainCheck {
	c := NewChainCheck(s)
	for _, e := range journal {
		c.Entry(e.index, e.cmd, e.outcome, e.link)
	}
	c.End(1)
	return c
}

func TestAJournalThatNobodyTouchedIsTheChain(t *testing.T) {
	withChain := 0
	for seed := range int64(12) {
		journal, s := playedJournal(t, seed, 300)
		for range 2 {
			c := checked(s, journal)
			require.Empty(t, c.Breaks, "seed %d", seed)
			require.Equal(t, s.Cluster().Chain, c.Head)
			require.Equal(t, s.level3(), c.Count > 0)
			require.EqualValues(t, len(journal), c.Count+c.Unchained)
			if c.Count > 0 {
				withChain++
				require.True(t, c.FromBeginning)
				require.True(t, c.MatchesState)
			}
		}
	}
	require.Greater(t, withChain, 4)
}

func TestTheChainBeginsWithTheEntryThatRaisesTheLevel(t *testing.T) {
	w := newWorldAt(t, Level2)
	w.ready(1, create(1))
	require.Empty(t, w.s.Cluster().Chain)
	raise := envelope("controller/c1", "raise", w.index, &fsmpb.SetFeatureLevel{Level: Level3})
	out := w.applyEnvelope(raise)
	require.NoError(t, Err(out))
	require.Equal(t, ChainLink(nil, w.index, raise, out), w.s.Cluster().Chain)
	head := w.s.Cluster().Chain
	w.ready(2, create(2))
	require.NotEqual(t, head, w.s.Cluster().Chain)
}

// The chain goes on from a dump, and a fork has its own.
func TestTheChainGoesOnFromADump(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	var dump bytes.Buffer
	require.NoError(t, w.s.WriteDump(&dump, 1))
	read, _, err := ReadDump(&dump)
	require.NoError(t, err)
	fork := w.s.Fork()
	require.Equal(t, w.s.Hash(), read.Hash())
	cmd := envelope("controller/c1", "next", w.index, create(2))
	for range 2 {
		head := w.s.Cluster().Chain
		out := read.Fork().Apply(w.index+1, cmd)
		require.NoError(t, Err(out.Outcome))
		require.Equal(t, head, w.s.Cluster().Chain)
	}
	fork.Apply(w.index+1, cmd)
	read.Apply(w.index+1, cmd)
	w.s.Apply(w.index+1, cmd)
	require.Equal(t, w.s.Cluster().Chain, read.Cluster().Chain)
	require.Equal(t, w.s.Cluster().Chain, fork.Cluster().Chain)
	require.Equal(t, w.s.Hash(), read.Hash())
}

// A skipped entry is in the chain by the hash of its content, as a build that cannot read it has nothing else.
func TestTheChainHasSkippedEntries(t *testing.T) {
	w := newWorld(t)
	head := w.s.Cluster().Chain
	hash := bytesOf("content", 32)
	out := w.s.Skip(w.index+1, hash, new(fsmpb.Command)).Outcome
	require.Equal(t, SkippedLink(head, w.index+1, hash, out), w.s.Cluster().Chain)
	c := NewChainCheck(w.s)
	c.Entry(w.index+1, new(fsmpb.Command), out, w.s.Cluster().Chain)
	c.End(w.index + 1)
	require.Empty(t, c.Breaks)
	require.True(t, c.MatchesState)
}

func TestEachWayToTouchAJournalIsFoundWhereItWasTouched(t *testing.T) {
	w := newWorld(t)
	for n := range 5 {
		w.ready(n+1, create(n+1))
	}
	var journal []linked
	again := New()
	for _, e := range w.log {
		out := again.Apply(e.index, e.cmd).Outcome
		journal = append(journal, linked{e.index, e.cmd, out, again.Cluster().Chain})
	}
	require.Equal(t, w.s.Hash(), again.Hash())
	const at = 5 // its index is 6
	altered := func(change func(e *linked)) []linked {
		all := slices.Clone(journal)
		all[at].cmd, all[at].outcome = proto.CloneOf(all[at].cmd), proto.CloneOf(all[at].outcome)
		change(&all[at])
		return all
	}
	last := len(journal)
	for name, tc := range map[string]struct {
		journal []linked
		index   uint64
	}{
		"another actor":               {altered(func(e *linked) { e.cmd.Actor = "admin/eve" }), 6},
		"another time":                {altered(func(e *linked) { e.cmd.ProposedAt++ }), 6},
		"another command":             {altered(func(e *linked) { e.cmd.Body = journal[2].cmd.Body }), 6},
		"a refusal instead of a yes":  {altered(func(e *linked) { e.outcome.Rejection = &fsmpb.Rejection{Reason: 1} }), 6},
		"another link":                {altered(func(e *linked) { e.link = bytesOf("link", 32) }), 6},
		"no link":                     {altered(func(e *linked) { e.link = nil }), 6},
		"another index":               {altered(func(e *linked) { e.index = 5 }), 5},
		"an entry is removed":         {slices.Delete(slices.Clone(journal), at, at+1), 7},
		"two are swapped":             {slices.Concat(journal[:at], []linked{journal[at+1], journal[at]}, journal[at+2:]), 7},
		"one is inserted":             {slices.Insert(slices.Clone(journal[:last-1]), last-1, linked{uint64(last), journal[1].cmd, journal[1].outcome, bytesOf("link", 32)}), uint64(last)},
		"one is there twice":          {slices.Insert(slices.Clone(journal), at, journal[at]), 6},
		"the newest is removed":       {journal[:last-1], uint64(last)},
		"all links are removed":       {unlinked(journal, last), uint64(last)},
		"the first links are removed": {unlinked(journal, 3), 4},
		"the first entries are, whose links others have": {unlinked(journal[2:], 1), 4},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				c := checked(w.s, tc.journal)
				require.NotEmpty(t, c.Breaks)
				require.Equal(t, tc.index, c.Breaks[0].Index, c.Breaks)
			}
		})
	}
	t.Run("a later forgery of all is found by the state", func(t *testing.T) {
		all := altered(func(e *linked) { e.cmd.Actor = "admin/eve" })
		for i := at; i < len(all); i++ {
			all[i].link = ChainLink(all[i-1].link, all[i].index, all[i].cmd, all[i].outcome)
		}
		c := checked(w.s, all)
		require.Equal(t, uint64(last), c.Breaks[0].Index)
		require.Contains(t, c.Breaks[0].What, "not the one that the state has")
	})
	t.Run("a prefix that is not kept is no break", func(t *testing.T) {
		c := checked(w.s, journal[3:])
		require.Empty(t, c.Breaks)
		require.False(t, c.FromBeginning)
		require.True(t, c.MatchesState)
	})
	t.Run("a gap is one, and what is behind it is checked again", func(t *testing.T) {
		all := altered(func(e *linked) { e.cmd.Actor = "admin/eve" })
		c := NewChainCheck(w.s)
		for i, e := range all {
			if i == 2 {
				c.Gap(e.index, e.index, "the disk was full")
				continue
			}
			c.Entry(e.index, e.cmd, e.outcome, e.link)
		}
		c.End(1)
		require.Equal(t, []uint64{3, 6}, []uint64{c.Breaks[0].Index, c.Breaks[1].Index})
	})
}

// unlinked are the entries without the links of the first ones.
func unlinked(journal []linked, first int) []linked {
	all := slices.Clone(journal)
	for i := range first {
		all[i].link = nil
	}
	return all
}

func TestOperatorsMayProposeWhatCanBeUndone(t *testing.T) {
	may := map[string]bool{"CancelOperation": true, "RetryOperation": true, "ScheduleNode": true, "ClaimMaintenance": true, "SetOutOfService": true, "PublishVolume": true, "UnpublishVolume": true}
	for _, level := range []uint32{Level1, Level2, Level3} {
		w := newWorldAt(t, level)
		for name, r := range commands {
			cmd := r.command
			body := oneof.Fields()
			for i := range body.Len() {
				if body.Get(i).Message().FullName() != cmd {
					continue
				}
				msg := new(fsmpb.Command).ProtoReflect().NewField(body.Get(i)).Message().Interface()
				require.Equal(t, level == Level3 && may[string(name.Name())], w.s.mayPropose(r, "operator/ann", msg), "%s at level %d", name, level)
				require.False(t, w.s.mayPropose(r, "viewer/bob", msg), name)
				require.False(t, w.s.mayPropose(r, "operator/", msg), name)
			}
		}
	}
	w := newWorld(t)
	for range 2 {
		w.rejected(Forbidden, "operator/ann", &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	}
}

// A chain begins where every member knows that it does: with the level or with a life of the cluster. A member that begins it at
// whatever entry it applies first would differ from the others for ever.
func TestAChainBeginsOnlyWhereAllBeginIt(t *testing.T) {
	w := newWorld(t)
	w.s.cluster.Chain = nil // of a cluster that was at this level before there were chains
	w.twice(controller, create(1))
	require.Empty(t, w.s.cluster.Chain)
	w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytes.Repeat([]byte{2}, incarnationIDLen)})
	require.Len(t, w.s.cluster.Chain, hashLen)
}
