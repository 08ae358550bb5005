package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roleCall is one call of a move of the role.
type roleCall struct {
	name string
	call func(ctx context.Context, r *relation, from, to *site) error
}

// moveCalls are those of a move, in order.
var moveCalls = []roleCall{
	{"demote", func(ctx context.Context, r *relation, from, _ *site) error { return r.demote(ctx, from) }},
	{"resync", func(ctx context.Context, r *relation, from, _ *site) error {
		_, err := r.resync(ctx, from, true)
		return err
	}},
	{"promote", func(ctx context.Context, r *relation, _, to *site) error { return r.promote(ctx, to, false) }},
}

// victim is a process that is killed in the middle of a call, and started again.
type victim struct {
	name string
	kill func(t *testing.T, r *relation, from, to *site) (again func())
}

var victims = []victim{
	{"the leader", func(t *testing.T, r *relation, _, _ *site) func() {
		leader, err := r.w.cluster.Leader(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.w.cluster.KillController(t.Context(), leader))
		return func() { require.NoError(t, r.w.cluster.StartController(t.Context(), leader)) }
	}},
	{"the host that has the role", func(t *testing.T, r *relation, from, _ *site) func() { return r.killNode(t, from) }},
	{"the host that gets it", func(t *testing.T, r *relation, _, to *site) func() { return r.killNode(t, to) }},
}

func (r *relation) killNode(t *testing.T, s *site) func() {
	t.Helper()
	i := r.w.guest(s.host(t, r.volumes[s][0])).Index
	require.NoError(t, r.w.cluster.KillNode(t.Context(), i))
	return func() { require.NoError(t, r.w.cluster.StartNode(t.Context(), i)) }
}

// A process dies before, in or after each step of the calls that move the role of a group. The calls are repeated, and the
// role moves for all members; nothing that was acknowledged is lost (S38, S39).
func TestS38_S39_TheRoleMovesAcrossDeaths(t *testing.T) {
	_, a, b := newSites(t)
	r := newGroupRelation(t, a, b, "deaths", 2)
	r.use(t, a)
	from, to, moves := a, b, 0
	for _, c := range moveCalls {
		for i, v := range victims {
			for _, delay := range deathDelays(moves + i) {
				t.Logf("%s of %s: %s dies %s after its begin", c.name, from.name, v.name, delay)
				r.moveAcrossDeath(t, from, to, c, v, delay)
				from, to, moves = to, from, moves+1
			}
			if !*long {
				break
			}
		}
	}
	r.end(t, from)
	r.judge(t)
	r.disown(t, to)
	r.remove(t, from)
}

// deathDelays are when a process dies: every step of a call lies between two of them.
func deathDelays(i int) (all []time.Duration) {
	for d := time.Duration(0); d < 1500*time.Millisecond; d += 100 * time.Millisecond {
		all = append(all, d)
	}
	if !*long {
		return all[5*i%len(all):][:1]
	}
	return all
}

func (r *relation) moveAcrossDeath(t *testing.T, from, to *site, hit roleCall, v victim, delay time.Duration) {
	t.Helper()
	r.end(t, from)
	for _, c := range moveCalls {
		done := make(chan error, 1)
		go func() { done <- c.call(t.Context(), r, from, to) }()
		if c.name == hit.name {
			time.Sleep(delay) // it is what is varied
			again := v.kill(t, r, from, to)
			again()
		}
		require.NoError(t, <-done, fmt.Sprintf("%s across the death of %s", c.name, v.name))
	}
	r.use(t, to)
}
