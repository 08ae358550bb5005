package stamps

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const ring = 8

// The first turn has a write in flight at its end, number 6; the second has it, too, and begins at 7.
var (
	one   = Turn{Stamp: Stamp{"s", "n1", "5.1", 1}, From: 1, Acked: 5}
	two   = Turn{Stamp: Stamp{"s", "n2", "9.1", 2}, From: 7, Acked: 18}
	turns = []Turn{one, two}
)

func block(number uint64, of Turn) Block {
	return Block{At: int64(number%ring) * 4096, Number: number, Stamp: of.Stamp.String()}
}

// content is what a healthy volume has after both turns.
func content() (all []Block) {
	for number := uint64(11); number <= 18; number++ {
		all = append(all, block(number, two))
	}
	return all
}

// replace puts a block where another is.
func replace(b Block) []Block {
	all := content()
	for i := range all {
		if all[i].Number%ring == b.Number%ring {
			all[i] = b
		}
	}
	return all
}

func TestJudgeAcceptsWhatMayBe(t *testing.T) {
	last := Turn{Stamp: Stamp{"s", "n1", "11.1", 3}, From: 20, Acked: 19}
	for name, tc := range map[string]struct {
		found []Block
		turns []Turn
	}{
		"the last turn of the ring":               {content(), turns},
		"a write in flight at the end":            {replace(block(19, two)), turns},
		"the former place of a file's block":      {append(content(), block(6, one), block(10, two)), turns},
		"nothing was written":                     {nil, nil},
		"a turn without an acknowledgement":       {content(), append(slices.Clone(turns), last)},
		"its first write":                         {replace(block(20, last)), append(slices.Clone(turns), last)},
		"a late acknowledgement of a whole block": {[]Block{block(5, one), block(6, one)}, []Turn{{one.Stamp, 5, 6, false}, {two.Stamp, 7, 6, false}}},
		"a loss that was forced":                  {[]Block{block(19, last)}, []Turn{one, two, {last.Stamp, 19, 19, true}}},
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, Judge(tc.found, tc.turns, ring)) })
	}
}

func TestJudgeFinds(t *testing.T) {
	for name, tc := range map[string]struct {
		found []Block
		turns []Turn
		wrong string
	}{
		"a lost write":           {content()[1:], turns, "acknowledged block 11 is lost"},
		"an older write":         {replace(block(7, two)), turns, "acknowledged block 15 is lost"},
		"an earlier writer":      {replace(block(4, one)), turns, "acknowledged block 12 is lost"},
		"a foreign stamp":        {replace(block(18, one)), turns, "which no writer of that stamp wrote"},
		"a write never made":     {replace(block(26, two)), turns, "which no writer of that stamp wrote"},
		"two writers at once":    {content(), []Turn{{one.Stamp, 1, 7, false}, two}, "was acknowledged block 7"},
		"a late acknowledgement": {[]Block{block(5, one)}, []Turn{{one.Stamp, 5, 6, false}, {two.Stamp, 7, 6, false}}, "acknowledged block 6 is lost"},
		"a loss after the force": {nil, []Turn{one, {two.Stamp, 7, 7, true}}, "acknowledged block 7 is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := Judge(tc.found, tc.turns, ring)
			require.NotEmpty(t, wrong)
			require.Contains(t, wrong[len(wrong)-1]+wrong[0], tc.wrong)
		})
	}
}

func TestNextLeavesTheNumberInFlight(t *testing.T) {
	require.EqualValues(t, 1, Next(nil))
	require.EqualValues(t, 7, Next([]Turn{one}))
	require.EqualValues(t, 20, Next(turns))
}
