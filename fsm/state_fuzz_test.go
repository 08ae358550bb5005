package fsm

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// playCommands applies what a player proposes. After each entry every invariant holds, the
// same entry again leaves what it left once (S102), and a fork taken before is as it was.
func playCommands(t testing.TB, d dice) *world {
	p := newPlayer(t, d)
	if d.roll(2) == 0 { // a replicated volume seldom completes its initial sync by chance
		p.w = newReplicated(t, fsmpb.Protocol(1+d.roll(2)))
		p.at, p.created = p.w.index, 1
	}
	hosts := newHostViews(p.w.s)
	for p.more() {
		e := p.next()
		before := p.w.s.Fork()
		hash := before.Hash()
		first := p.w.s.Apply(e.index, e.cmd)
		require.NoError(t, p.w.s.Check(), "after index %d: %v", e.index, e.cmd)
		require.Equal(t, hash, before.Hash(), "a fork changed with its original")
		if first.Outcome.GetRejection() != nil {
			require.Empty(t, first.Changes, "a rejection touches nothing")
		}
		hosts.applyChanges(p.w.s, e, first.Changes)
		hosts.check(t, p.w.s, e)
		applyAgain(t, p, e, first)
		require.NoError(t, before.Check())
	}
	return p.w
}

// applyAgain applies the entry to a fork a second time.
func applyAgain(t testing.TB, p *player, e entry, first Result) {
	again := p.w.s.Fork()
	left := (&world{s: again}).contents()
	second := again.Apply(e.index+1, e.cmd)
	if Reason(second.Outcome.GetRejection().GetReason()) != Expired && Reason(first.Outcome.GetRejection().GetReason()) != Invalid &&
		Reason(first.Outcome.GetRejection().GetReason()) != Expired {
		require.True(t, proto.Equal(first.Outcome, second.Outcome), "first %v, then %v", first.Outcome, second.Outcome)
	}
	require.Equal(t, left, (&world{s: again}).contents(), "twice left another state than once: %v", e.cmd)
	require.Empty(t, second.Changes)
	require.NoError(t, again.Check())
}

// S101 to S119: whatever is proposed, State.Check finds nothing, and hosts are told.
func TestRandomCommandsKeepEveryInvariant(t *testing.T) {
	for seed := range seeds(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := playCommands(t, &seededDice{r: rand.New(rand.NewSource(int64(seed))), left: 400})
			require.Equal(t, w.contents(), (&world{s: restored(t, w.s)}).contents())
		})
	}
}

func FuzzCommands(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 7, 31, 5, 99}, 40))
	r := rand.New(rand.NewSource(1))
	for range 4 {
		b := make([]byte, 600)
		r.Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { playCommands(t, &fuzzDice{b: b[:min(len(b), 2000)]}) })
}
