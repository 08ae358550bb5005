package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/model"
)

// patience is how long the checker may take, on any machine.
const patience = 5 * time.Minute

func call(begin, end int64, in model.Input, out model.Output) Call {
	in.Name = "a"
	return Call{Begin: begin, End: end, Input: in, Output: out}
}

func create(size int64) model.Input { return model.Input{Kind: model.Create, Size: size} }

func made(id string) model.Output { return model.Output{Outcome: model.OK, ID: id} }

func on(kind model.Kind, id, node string) model.Input {
	return model.Input{Kind: kind, ID: id, Node: node}
}

func answer(o model.Outcome) model.Output { return model.Output{Outcome: o} }

func seenOn(node string) model.Output { return model.Output{Outcome: model.OK, Node: node} }

// TestLinearizable plants what S103, S139, S161, S162, S164, S165 and S166 forbid.
func TestLinearizable(t *testing.T) {
	for name, tc := range map[string]struct {
		calls []Call
		right bool
	}{
		"a repeated create answers the same volume": {right: true, calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, create(1), made("x"))}},
		"a name never has two volumes (S161)": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, create(1), made("y"))}},
		"a deleted id never comes back (S164)": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Delete, "x", ""), answer(model.OK)),
			call(5, 6, create(1), made("x"))}},
		"a name may be used again with a new id": {right: true, calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Delete, "x", ""), answer(model.OK)),
			call(5, 6, create(2), made("y"))}},
		"the volume that is there meets a smaller need": {right: true, calls: []Call{
			call(1, 2, create(2), made("x")), call(3, 4, create(1), made("x"))}},
		"a larger need is refused (S162)": {right: true, calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, create(2), answer(model.Exists))}},
		"a larger need is not answered with the old volume": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, create(2), made("x"))}},
		"a create of unknown outcome may have happened": {right: true, calls: []Call{
			call(1, 2, create(1), answer(model.Unknown)), call(3, 4, create(2), answer(model.Exists))}},
		"a create of unknown outcome may happen late": {right: true, calls: []Call{
			call(1, 2, create(1), answer(model.Unknown)), call(3, 4, create(2), made("x")),
			call(5, 6, on(model.Delete, "x", ""), answer(model.OK)), call(7, 8, create(2), answer(model.Exists))}},
		"an acknowledged delete is not forgotten": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Delete, "x", ""), answer(model.OK)),
			call(5, 6, on(model.Get, "x", ""), seenOn(""))}},
		"a stale read is found (S139)": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Publish, "x", "n1"), answer(model.OK)),
			call(5, 6, on(model.Get, "x", ""), seenOn(""))}},
		"a read beside a publish may see either": {right: true, calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 9, on(model.Publish, "x", "n1"), answer(model.OK)),
			call(4, 5, on(model.Get, "x", ""), seenOn("")), call(6, 7, on(model.Get, "x", ""), seenOn("n1"))}},
		"reads beside a publish do not go back": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 9, on(model.Publish, "x", "n1"), answer(model.OK)),
			call(4, 5, on(model.Get, "x", ""), seenOn("n1")), call(6, 7, on(model.Get, "x", ""), seenOn(""))}},
		"a delete of unknown outcome that was seen stays": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Delete, "x", ""), answer(model.Unknown)),
			call(5, 6, on(model.Get, "x", ""), answer(model.NotFound)), call(7, 8, on(model.Get, "x", ""), seenOn(""))}},
		"an acknowledged unpublish is not forgotten": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Publish, "x", "n1"), answer(model.OK)),
			call(5, 6, on(model.Unpublish, "x", "n1"), answer(model.OK)), call(7, 8, on(model.Get, "x", ""), seenOn("n1"))}},
		"an answer to a call is not of one that began later": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Get, "x", ""), seenOn("n1")),
			call(5, 6, on(model.Publish, "x", "n1"), answer(model.OK))}},
		"two nodes never hold one volume (S103)": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Publish, "x", "n1"), answer(model.OK)),
			call(5, 6, on(model.Publish, "x", "n2"), answer(model.OK))}},
		"the second node is refused": {right: true, calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Publish, "x", "n1"), answer(model.OK)),
			call(5, 6, on(model.Publish, "x", "n2"), answer(model.Precondition))}},
		"a published volume is not deleted (S165)": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Publish, "x", "n1"), answer(model.OK)),
			call(5, 6, on(model.Delete, "x", ""), answer(model.OK))}},
		"an acknowledged create is not lost (S166)": {calls: []Call{
			call(1, 2, create(1), made("x")), call(3, 4, on(model.Get, "x", ""), answer(model.NotFound))}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				err := Linearizable(tc.calls, patience, t.TempDir())
				require.Equal(t, tc.right, err == nil, "%v", err)
			}
		})
	}
}

// TestAFailureIsKept: the calls on the name, and no others, and a picture of them.
func TestAFailureIsKept(t *testing.T) {
	folder := t.TempDir()
	other := call(1, 2, create(1), made("z"))
	other.Input.Name = "b"
	planted := []Call{other, call(3, 4, create(1), made("y")), call(1, 2, create(1), made("x"))}
	require.ErrorContains(t, Linearizable(planted, patience, folder), "the 2 calls on a are not linearizable")
	raw, err := os.ReadFile(filepath.Join(folder, "history.json"))
	require.NoError(t, err)
	var kept []Call
	require.NoError(t, json.Unmarshal(raw, &kept))
	require.Equal(t, []Call{planted[2], planted[1]}, kept)
	require.FileExists(t, filepath.Join(folder, "history.html"))
}

func TestHistoryKeepsCallsOnOneClock(t *testing.T) {
	h := NewHistory()
	for client := range 2 {
		h.Do(client, create(1), func() model.Output { return made("x") })
	}
	calls := h.Calls()
	require.Len(t, calls, 2)
	require.LessOrEqual(t, calls[0].Begin, calls[0].End)
	require.LessOrEqual(t, calls[0].End, calls[1].Begin)
	require.Equal(t, map[model.Outcome]int{model.OK: 2}, h.Count())
}
