package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/model"
)

func at(index uint64, out model.Output) model.Output {
	out.Index = index
	return out
}

// TestNoStaleReadFinds plants what S139 forbids, by the log's indexes alone.
func TestNoStaleReadFinds(t *testing.T) {
	fromState := model.Output{Outcome: model.OK, Index: 5, FromState: true}
	for name, tc := range map[string]struct {
		calls  []Call
		looked int
		right  bool
	}{
		"a read of the index of an answer before it": {right: true, looked: 1, calls: []Call{
			call(1, 2, create(1), at(5, made("x"))), call(3, 4, on(model.Get, "x", ""), at(5, seenOn("")))}},
		"a read of an earlier index": {looked: 1, calls: []Call{
			call(1, 2, create(1), at(5, made("x"))), call(3, 4, on(model.Get, "x", ""), at(4, seenOn("")))}},
		"a read of an earlier index than another read": {looked: 1, calls: []Call{
			call(1, 2, on(model.Get, "x", ""), at(5, seenOn(""))), call(3, 4, on(model.Get, "x", ""), at(4, seenOn("")))}},
		"a read beside the call may be of an earlier one": {right: true, calls: []Call{
			call(1, 9, create(1), at(5, made("x"))), call(3, 4, on(model.Get, "x", ""), at(4, seenOn("")))}},
		"a change that was decided before": {looked: 1, calls: []Call{
			call(1, 2, create(1), at(5, made("x"))), call(3, 4, on(model.Delete, "x", ""), at(4, answer(model.OK)))}},
		"a change of the same entry": {looked: 1, calls: []Call{
			call(1, 2, create(1), at(5, made("x"))), call(3, 4, create(1), at(5, made("x")))}},
		"a change that the state answered": {right: true, looked: 1, calls: []Call{
			call(1, 2, create(1), at(5, made("x"))), call(3, 4, create(1), fromState)}},
		"an answer of unknown outcome binds nobody": {right: true, calls: []Call{
			call(1, 2, create(1), at(9, answer(model.Unknown))), call(3, 4, on(model.Get, "x", ""), at(5, seenOn("")))}},
	} {
		t.Run(name, func(t *testing.T) {
			looked, err := NoStaleRead(tc.calls)
			require.Equal(t, tc.right, err == nil, "%v", err)
			require.Equal(t, tc.looked, looked)
		})
	}
}

func TestHashesEqualFinds(t *testing.T) {
	sample := func(member, hash string, index uint64) Sample {
		return Sample{Members: []MemberSample{{ID: member, Hash: hash, HashIndex: index}}}
	}
	looked, err := HashesEqual([]Sample{sample("c1", "aa", 7), sample("c2", "aa", 7), sample("c2", "bb", 8), sample("c3", "", 7)})
	require.NoError(t, err)
	require.Equal(t, 3, looked)
	_, err = HashesEqual([]Sample{sample("c1", "aa", 7), sample("c2", "bb", 8), sample("c3", "cc", 7)})
	require.ErrorContains(t, err, "at index 7 c3 has the hash cc")
}

func TestAnUndecidedCheckIsAnErrorOfItsOwn(t *testing.T) {
	var calls []Call
	for i := range 40 { // all at once, and each may have happened or not
		calls = append(calls, call(int64(i), 1000, on(model.Unpublish, "x", string(rune('a'+i%20))), answer(model.Unknown)),
			call(int64(i), 1000, on(model.Publish, "x", string(rune('a'+i%20))), answer(model.Unknown)))
	}
	calls = append(calls, call(2000, 2001, on(model.Get, "x", ""), seenOn("nowhere")))
	err := Linearizable(append(calls, call(0, 1, create(1), made("x"))), 0, "")
	require.ErrorIs(t, err, ErrUndecided)
}

// TestExpandFinds plants what S162 forbids of sizes.
func TestExpandFinds(t *testing.T) {
	grow := func(size, has int64) (model.Input, model.Output) {
		in := on(model.Expand, "x", "")
		in.Size = size
		return in, model.Output{Outcome: model.OK, Size: has}
	}
	for name, tc := range map[string]struct {
		asked, has int64
		right      bool
	}{
		"grown":               {3, 3, true},
		"large enough":        {1, 2, true},
		"not grown":           {3, 2, false},
		"shrunk":              {1, 1, false},
		"more than was asked": {3, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			in, out := grow(tc.asked, tc.has)
			err := Linearizable([]Call{call(1, 2, create(2), made("x")), call(3, 4, in, out)}, patience, "")
			require.Equal(t, tc.right, err == nil, "%v", err)
		})
	}
}

// TestAnExpansionThatWasDeletedMeanwhile may have been seen, and leaves nothing smaller behind.
func TestAnExpansionThatWasDeletedMeanwhile(t *testing.T) {
	grow := on(model.Expand, "x", "")
	grow.Size = 4
	begin := []Call{call(1, 2, create(2), made("x")), call(3, 9, grow, answer(model.NotFound))}
	require.NoError(t, Linearizable(append(begin, call(4, 5, create(4), made("x")), call(6, 7, on(model.Delete, "x", ""), answer(model.OK))), patience, ""))
	require.Error(t, Linearizable(append(begin, call(4, 5, create(8), made("x"))), patience, ""))
}
