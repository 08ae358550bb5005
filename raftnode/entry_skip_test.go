package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// faultyApply is an apply function that panics on the registration of a node that is named poison. A
// retry of a registration that was skipped gets its stored answer, as from the real apply function.
func faultyApply(s *fsm.State, index uint64, cmd *fsmpb.Command) fsm.Result {
	if cmd.GetRegisterNode().GetNodeId() == "poison" && len(s.Cluster().Skipped) == 0 {
		panic("a planted bug")
	}
	return s.Apply(index, cmd)
}

// newFaultedCluster returns a cluster whose members have all exited at one entry and are closed.
func newFaultedCluster(t *testing.T, configure func(*Config)) *testCluster {
	t.Helper()
	c := newThreeMembers(t, func(cfg *Config) {
		cfg.apply = faultyApply
		if configure != nil {
			configure(cfg)
		}
	})
	c.members[0].mustPropose(t, "before")
	cmd := registerNode("poison")
	cmd.RequestId = make([]byte, 16)
	c.exitAll(cmd)
	return c
}

// exitAll proposes the command until every member has exited because its state machine faults on the
// entry, and closes them. A follower that did not receive the commit index before its leader exited
// receives it from the next leader: so members that exited are started again until each has reached
// the entry.
func (c *testCluster) exitAll(cmd *fsmpb.Command) {
	c.t.Helper()
	exited := map[*testMember]bool{}
	for end := time.Now().Add(4 * testTimeout); len(exited) < len(c.members); {
		require.True(c.t, time.Now().Before(end), "%d members met the entry", len(exited))
		for _, n := range c.members {
			if n.exitCode.Load() < 0 && len(exited) == 0 {
				ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
				_, _ = n.Propose(ctx, proto.CloneOf(cmd))
				cancel()
			}
			if n.exitCode.Load() < 0 {
				continue
			}
			if exited[n] = true; len(exited) < len(c.members) {
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

// openOffline opens a stopped member's log, with the given apply function.
func (n *testMember) openOffline(t *testing.T, apply applyFunc) *Offline {
	t.Helper()
	o, err := OpenOffline(n.cfg.Dir)
	require.NoError(t, err)
	o.apply = apply
	return o
}

// skipFaultedEntry skips the entry at which the member exited, twice.
func (n *testMember) skipFaultedEntry(t *testing.T) store.EntryName {
	t.Helper()
	o := n.openOffline(t, faultyApply)
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

// S70: a committed command on which every member's state machine faults makes all members exit at each
// start, until all skip it; then they serve, with equal states.
func TestS70_AnEntryThatFaultsEveryMemberIsSkipped(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newFaultedCluster(t, func(cfg *Config) { cfg.LogStore = kind })
		var names []store.EntryName
		for _, n := range c.members {
			names = append(names, n.skipFaultedEntry(t))
		}
		require.Equal(t, names[0], names[1])
		require.Equal(t, names[0], names[2])
		for _, n := range c.members {
			require.NoError(t, c.start(n))
		}
		c.waitReady(3)
		c.members[1].mustPropose(t, "after")
		for _, n := range c.members {
			require.True(t, n.hasNode(t, "before"))
			require.True(t, n.hasNode(t, "after"))
			require.False(t, n.hasNode(t, "poison"))
			require.Equal(t, names[0].Index, n.Fork().Cluster().Skipped[0].Index)
		}
		c.waitSameHash(t)
		require.NoError(t, c.members[0].raft.Snapshot().Error())
		require.NoError(t, c.members[0].Close())
		require.NoError(t, c.start(c.members[0]))
		c.waitReady(3)
		c.waitSameHash(t)
	})
}

// S70: a member that joins by replaying the log also reaches the entry. It exits there, because applying
// the entry would give it another state, says what to do, and skips the entry after its operator has
// decided so too.
func TestS70_AJoiningMemberSkipsTheEntryToo(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	c := newFaultedCluster(t, nil)
	name := c.members[0].skipFaultedEntry(t)
	for _, n := range c.members[1:] {
		require.Equal(t, name, n.skipFaultedEntry(t))
	}
	for _, n := range c.members {
		require.NoError(t, c.start(n))
	}
	c.waitReady(3)
	joiner := c.add("c4", nil)
	eventually(t, func() error {
		if joiner.exitCode.Load() < 0 {
			return errors.New("it did not meet the entry")
		}
		return nil
	})
	require.NoError(t, joiner.Close())
	require.Equal(t, name, joiner.skipFaultedEntry(t))
	require.NoError(t, c.start(joiner))
	c.waitReady(4)
	c.members[1].mustPropose(t, "after")
	require.True(t, joiner.hasNode(t, "after"))
	require.False(t, joiner.hasNode(t, "poison"))
	c.waitSameHash(t)
}

// waitSameHash waits until the members' states are equal at one index.
func (c *testCluster) waitSameHash(t *testing.T) {
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

// S70, S23: a member that applied the entry is detected by the hash of those that skipped it, and quarantined.
func TestS70_AMemberThatDidNotSkipIsQuarantined(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	c := newFaultedCluster(t, nil)
	unskipped := c.members[2]
	unskipped.cfg.apply = nil // this build does not fault on the entry
	for _, n := range c.others(unskipped) {
		n.skipFaultedEntry(t)
	}
	for _, n := range c.members {
		require.NoError(t, c.start(n))
	}
	proposeUntil(t, c.others(unskipped), func() error { return checkExited(unskipped) })
	require.NoError(t, unskipped.Close())
	require.ErrorIs(t, c.start(unskipped), store.ErrQuarantined)
	for _, n := range c.others(unskipped) {
		require.Error(t, checkExited(n))
	}
}

// S70: only the committed entry on which the state machine faults can be skipped.
func TestS70_OnlyTheFaultedEntryIsSkipped(t *testing.T) {
	t.Parallel()
	c := newFaultedCluster(t, nil)
	n := c.members[0]
	o := n.openOffline(t, faultyApply)
	defer func() { require.NoError(t, o.Close()) }()
	f, err := o.Fault()
	require.NoError(t, err)
	first, last, _, err := o.Bounds()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		index uint64
		hash  string
		apply applyFunc
	}{
		"an entry before it":            {index: f.Index - 1},
		"the first entry":               {index: first},
		"an index beyond the log":       {index: last + 7, hash: f.Hash},
		"another hash":                  {index: f.Index, hash: entryNameOf(&raft.Log{}).Hash},
		"an entry that the state takes": {index: f.Index, hash: f.Hash, apply: applyCommand},
	} {
		t.Run(name, func(t *testing.T) {
			o.apply = faultyApply
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

// S70: an entry that is not known to be committed, or that a Raft snapshot covers, cannot be skipped.
func TestS70_WithoutAFaultNothingIsSkipped(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	n.mustPropose(t, "fine")
	require.NoError(t, n.Close())
	skipAll := func(want string) {
		o := n.openOffline(t, faultyApply)
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
	c.waitReady(1)
	require.NoError(t, n.raft.Snapshot().Error())
	require.NoError(t, n.Close())
	skipAll("is in the Raft snapshot")
	_, err := OpenOffline(t.TempDir())
	require.True(t, errors.Is(err, store.ErrRefused), "%v", err)
}

// S70: what is recorded to be skipped is compared with what the log holds of it, from the first entry to the last.
func TestS70_ASkipIsComparedWithTheLog(t *testing.T) {
	logs := raft.NewInmemStore()
	for i := uint64(3); i <= 5; i++ {
		require.NoError(t, logs.StoreLog(&raft.Log{Index: i, Term: 1, Data: []byte{byte(i)}}))
	}
	for index, held := range map[uint64]bool{2: false, 3: true, 4: true, 5: true, 6: false} {
		name := entryNameOf(&raft.Log{Index: index, Term: 1, Data: []byte("another")})
		s := &storage{logs: logs, skips: func() ([]store.Skip, error) { return []store.Skip{{EntryName: name}}, nil }}
		set, err := loadSkips(s)
		if held {
			require.ErrorContains(t, err, "is recorded to be skipped", "entry %d", index)
			continue
		}
		require.NoError(t, err, "entry %d", index)
		require.Contains(t, set, index)
	}
}

// The log says which entry faults and what an operator can do, also where that cannot be recorded.
func TestAFaultedEntryIsLoggedWithItsRemedy(t *testing.T) {
	for name, failed := range map[string]error{"recorded": nil, "not recorded": errors.New("no space left on device")} {
		var log lockedBuffer
		var recorded store.Fault
		m := &Member{core: &core{
			cfg: Config{Dir: "/the/folder", now: time.Now}, log: slog.New(slog.NewTextHandler(&log, nil)),
			storage: &storage{recordFault: func(f store.Fault) error { recorded = f; return failed }},
		}}
		l := &raft.Log{Index: 5, Term: 2, Data: []byte("poison")}
		m.recordEntryFault(l, "a planted bug")
		require.Equal(t, entryNameOf(l), recorded.EntryName, name)
		require.Equal(t, failed != nil, strings.Contains(log.String(), "cannot record"), name)
		for _, part := range []string{"a committed entry faults", "holdfast log skip", "index=5", "term=2", entryNameOf(l).Hash, "/the/folder"} {
			require.Contains(t, log.String(), part, name)
		}
	}
}
