package raftnode

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// faulty is a state that panics on the registration of a node that is named poison. A
// retry of one that was passed over gets its answer, as from the real one.
func faulty(s *fsm.State, index uint64, cmd *fsmpb.Command) fsm.Result {
	if cmd.GetRegisterNode().GetNodeId() == "poison" && len(s.Cluster().Skipped) == 0 {
		panic("a planted bug")
	}
	return s.Apply(index, cmd)
}

// poison has every member of a cluster end at one entry, and closes them all.
func poison(t *testing.T, adjust func(*Config)) *cluster {
	t.Helper()
	c := three(t, func(cfg *Config) {
		cfg.apply = faulty
		if adjust != nil {
			adjust(cfg)
		}
	})
	c.members[0].proposes(t, "before")
	ask := register("poison")
	ask.RequestId = make([]byte, 16)
	c.allEnd(ask)
	return c
}

// allEnd proposes the command until the state of every member ended it, and closes them.
// A follower that was not told of the commit before its leader ended hears of it from
// the next leader: so who ended is started again until each met the entry.
func (c *cluster) allEnd(ask *fsmpb.Command) {
	c.t.Helper()
	met := map[*node]bool{}
	for end := time.Now().Add(4 * patient); len(met) < len(c.members); {
		require.True(c.t, time.Now().Before(end), "%d members met the entry", len(met))
		for _, n := range c.members {
			if n.exited.Load() < 0 && len(met) == 0 {
				ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
				_, _ = n.Propose(ctx, proto.CloneOf(ask))
				cancel()
			}
			if n.exited.Load() < 0 {
				continue
			}
			if met[n] = true; len(met) < len(c.members) {
				require.NoError(c.t, n.Close())
				require.NoError(c.t, c.start(n))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, n := range c.members {
		require.NoError(c.t, n.Close())
	}
}

// offline opens a stopped member's log with the state that its process has.
func (n *node) offline(t *testing.T, apply folding) *Offline {
	t.Helper()
	o, err := OpenOffline(n.cfg.Dir)
	require.NoError(t, err)
	o.apply = apply
	return o
}

// passesOver skips the entry at which the member ended, twice.
func (n *node) passesOver(t *testing.T) store.EntryName {
	t.Helper()
	o := n.offline(t, faulty)
	defer func() { require.NoError(t, o.Close()) }()
	f, err := o.Fault()
	require.NoError(t, err)
	require.NotNil(t, f)
	require.Contains(t, f.What, "a planted bug")
	for range 2 {
		k, err := o.Skip(f.Index, f.Hash, "a planted bug", time.Now())
		require.NoError(t, err)
		require.Equal(t, f.EntryName, k.EntryName)
	}
	return f.EntryName
}

// S70: a committed command that every member's state faults on ends all of them at each
// start, until all pass it over; then they serve, with one state.
func TestS70_AnEntryThatEndsEveryMemberIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{store.WAL, store.BoltDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := poison(t, func(cfg *Config) { cfg.LogStore = kind })
			var names []store.EntryName
			for _, n := range c.members {
				names = append(names, n.passesOver(t))
			}
			require.Equal(t, names[0], names[1])
			require.Equal(t, names[0], names[2])
			for _, n := range c.members {
				require.NoError(t, c.start(n))
			}
			c.settle(3)
			c.members[1].proposes(t, "after")
			for _, n := range c.members {
				require.True(t, n.knows(t, "before"))
				require.True(t, n.knows(t, "after"))
				require.False(t, n.knows(t, "poison"))
				require.Equal(t, names[0].Index, n.Fork().Cluster().Skipped[0].Index)
			}
			c.sameHash(t)
			require.NoError(t, c.members[0].raft.Snapshot().Error())
			require.NoError(t, c.members[0].Close())
			require.NoError(t, c.start(c.members[0]))
			c.settle(3)
			c.sameHash(t)
		})
	}
}

// S70: a member that joins by replaying the log meets the entry as well. It ends there, as
// one that applied another state would, says what is to be done, and passes it over when
// its operators decided that too.
func TestS70_AMemberThatJoinsPassesTheEntryOverToo(t *testing.T) {
	t.Parallel()
	c := poison(t, nil)
	name := c.members[0].passesOver(t)
	for _, n := range c.members[1:] {
		require.Equal(t, name, n.passesOver(t))
	}
	for _, n := range c.members {
		require.NoError(t, c.start(n))
	}
	c.settle(3)
	joins := c.add("c4", nil)
	eventually(t, func() error {
		if joins.exited.Load() < 0 {
			return errors.New("it did not meet the entry")
		}
		return nil
	})
	require.NoError(t, joins.Close())
	require.Equal(t, name, joins.passesOver(t))
	require.NoError(t, c.start(joins))
	c.settle(4)
	c.members[1].proposes(t, "after")
	require.True(t, joins.knows(t, "after"))
	require.False(t, joins.knows(t, "poison"))
	c.sameHash(t)
}

// sameHash compares the members' states at one index.
func (c *cluster) sameHash(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		at := c.members[0].machine.index.Load()
		want, known := c.members[0].machine.hashAt(at)
		for _, n := range c.members {
			if got, has := n.machine.hashAt(at); n.machine.index.Load() < at || !known || !has || got != want {
				return fmt.Errorf("%s has hash %x at index %d, not %x", n.cfg.Name, got, at, want)
			}
		}
		return nil
	})
}

// S70, S23: a member whose state took the entry is told from those that passed it over.
func TestS70_AMemberThatDidNotPassTheEntryOverIsFound(t *testing.T) {
	t.Parallel()
	c := poison(t, nil)
	odd := c.members[2]
	odd.cfg.apply = nil // a build that does not fault on it
	for _, n := range c.but(odd) {
		n.passesOver(t)
	}
	for _, n := range c.members {
		require.NoError(t, c.start(n))
	}
	proposeUntil(t, c.but(odd), func() error { return left(odd) })
	require.NoError(t, odd.Close())
	require.ErrorIs(t, c.start(odd), store.ErrQuarantined)
	for _, n := range c.but(odd) {
		require.Error(t, left(n))
	}
}

// S70: only the committed entry that the state faults on is passed over.
func TestS70_NothingElseIsPassedOver(t *testing.T) {
	t.Parallel()
	c := poison(t, nil)
	n := c.members[0]
	o := n.offline(t, faulty)
	defer func() { require.NoError(t, o.Close()) }()
	f, err := o.Fault()
	require.NoError(t, err)
	first, last, _, err := o.Bounds()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		index uint64
		hash  string
		apply folding
	}{
		"an entry before it":            {index: f.Index - 1},
		"the first entry":               {index: first},
		"an index beyond the log":       {index: last + 7, hash: f.Hash},
		"another hash":                  {index: f.Index, hash: nameOf(&raft.Log{}).Hash},
		"an entry that the state takes": {index: f.Index, hash: f.Hash, apply: applyCommand},
	} {
		t.Run(name, func(t *testing.T) {
			o.apply = faulty
			if tc.apply != nil {
				o.apply = tc.apply
			}
			if tc.hash == "" {
				name, _, err := o.Entry(tc.index)
				require.NoError(t, err)
				tc.hash = name.Hash
			}
			_, err := o.Skip(tc.index, tc.hash, "no", time.Now())
			require.ErrorIs(t, err, ErrSkipRefused)
		})
	}
	known, err := o.Skips()
	require.NoError(t, err)
	require.Empty(t, known)
}

// S70: what is not known to be committed, and what a Raft snapshot holds, is not passed over.
func TestS70_WithoutAFaultNothingIsPassedOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	n := c.add("c1", nil)
	c.settle(1)
	n.proposes(t, "fine")
	require.NoError(t, n.Close())
	skipAll := func(want string) {
		o := n.offline(t, faulty)
		defer func() { require.NoError(t, o.Close()) }()
		first, last, snapshot, err := o.Bounds()
		require.NoError(t, err)
		for i := min(first, max(snapshot, 1)); i <= last; i++ {
			hash := ""
			if name, _, err := o.Entry(i); err == nil {
				hash = name.Hash
			}
			_, err := o.Skip(i, hash, "no", time.Now())
			require.ErrorIs(t, err, ErrSkipRefused)
			if i <= snapshot {
				require.ErrorContains(t, err, want)
			}
		}
	}
	skipAll("")
	require.NoError(t, c.start(n))
	c.settle(1)
	require.NoError(t, n.raft.Snapshot().Error())
	require.NoError(t, n.Close())
	skipAll("is in the Raft snapshot")
	_, err := OpenOffline(t.TempDir())
	require.True(t, errors.Is(err, store.ErrRefused), "%v", err)
}
