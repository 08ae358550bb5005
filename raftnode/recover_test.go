package raftnode

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// loseQuorum leaves one stopped survivor, whose log ends with a command that was never committed.
func loseQuorum(t *testing.T, kind string) (c *testCluster, survivor *testMember) {
	t.Helper()
	c = newThreeMembers(t, func(cfg *Config) { cfg.LogStore = kind })
	survivor = c.leader()
	survivor.mustPropose(t, "acknowledged")
	require.NoError(t, survivor.raft.Snapshot().Error())
	survivor.mustPropose(t, "above-the-snapshot")
	for _, n := range c.others(survivor) {
		n.crash(t)
	}
	before := survivor.raft.LastIndex()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	leader := survivor.Member // which starts again before this has ended
	go func() { _, _ = leader.Propose(ctx, registerNode("never-committed")) }()
	eventually(t, func() error {
		if survivor.raft.LastIndex() == before && survivor.raft.State().String() == "Leader" {
			return context.DeadlineExceeded
		}
		return nil
	})
	survivor.crash(t)
	for _, n := range c.members {
		n.Member = nil
	}
	return c, survivor
}

// S24: the last configuration may never have been committed: a voter that it does not have any more is compared, too.
func TestS24_VotersOfTheConfigurationBeforeTheLastAreCompared(t *testing.T) {
	c := newThreeMembers(t, func(*Config) {})
	n := c.leader()
	others := c.others(n)
	n.mustPropose(t, "acknowledged")
	for _, m := range c.members {
		m.crash(t)
	}
	appendRemoval(t, n.cfg.Dir, others[0].id)
	for range 2 {
		s, err := OpenSurvivor(n.cfg.Dir)
		require.NoError(t, err)
		require.Len(t, s.Configuration.Servers, 2)
		require.ElementsMatch(t, []string{n.id, others[0].id, others[1].id}, s.Voters())
		require.Equal(t, others[0].id, string(s.FormerVoters()[0].ID))
		require.False(t, s.Alone())
		require.NoError(t, s.Close())
	}
	for _, m := range c.members {
		m.Member = nil
	}
}

// appendRemoval appends what a leader appends that removes a member, and that nobody acknowledged.
func appendRemoval(t *testing.T, dir, member string) {
	t.Helper()
	s, err := OpenSurvivor(dir)
	require.NoError(t, err)
	without := raft.Configuration{Servers: slices.DeleteFunc(slices.Clone(s.Configuration.Servers), func(m raft.Server) bool { return string(m.ID) == member })}
	require.NoError(t, s.Logs.StoreLog(&raft.Log{Index: s.LastIndex + 1, Term: s.LastTerm, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(without)}))
	require.NoError(t, s.Close())
}

func recoverAt(t *testing.T, n *testMember, step string) (Rebuilt, error) {
	t.Helper()
	s, err := OpenSurvivor(n.cfg.Dir)
	require.NoError(t, err)
	r := Rebuild{Advertise: n.addr, LogStore: n.cfg.LogStore, Actor: "admin/ann", Now: time.Now(), step: killAt(step)}
	return s.Recover(r)
}

// S24: killed at any step the former directory is in its place, or a whole new one; repeated, it is whole.
func TestS24_RecoverFromOneSurvivor(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c, n := loseQuorum(t, kind)
		former, err := OpenSurvivor(n.cfg.Dir)
		require.NoError(t, err)
		require.Len(t, former.Voters(), 3)
		require.False(t, former.Alone())
		require.NotZero(t, former.SnapshotIndex)
		require.Less(t, former.SnapshotIndex, former.LastIndex)
		_, pending := former.State.Node("never-committed")
		last, id := former.LastIndex, former.MemberID
		_, err = OpenSurvivor(n.cfg.Dir)
		require.Error(t, err, "it is locked")
		require.NoError(t, former.Close())
		require.NoError(t, former.Close())

		for _, step := range append(rebuildSteps, "name", "exchange") {
			for range 2 {
				_, err := recoverAt(t, n, step)
				require.ErrorIs(t, err, errKilled, step)
				s, err := OpenSurvivor(n.cfg.Dir)
				require.NoError(t, err, step)
				require.Equal(t, id, s.MemberID, step)
				require.NoError(t, s.Close())
			}
		}
		made, err := recoverAt(t, n, "")
		require.NoError(t, err)
		require.Equal(t, Rebuilt{
			Kind: "recover", Cluster: made.Cluster, Index: last, StateHash: made.StateHash, Incarnation: 2, Member: made.Member, Former: id, At: made.At,
		}, made)
		require.NoDirExists(t, n.cfg.Dir+".recovering")
		kept, err := OpenSurvivor(n.cfg.Dir + ".before-2")
		require.NoError(t, err)
		require.Equal(t, id, kept.MemberID)
		require.Equal(t, last, kept.LastIndex)
		require.NoError(t, kept.Close())
		read, err := ReadRebuilt(n.cfg.Dir)
		require.NoError(t, err)
		require.Equal(t, made, *read)
		_, err = recoverAt(t, n, "")
		require.ErrorContains(t, err, "needs nobody else", "it is done")

		all := c.members
		c.members = []*testMember{n}
		require.NoError(t, c.start(n))
		c.waitReady(1)
		require.Equal(t, made.Member, n.id)
		require.True(t, n.hasNode(t, "acknowledged"))
		require.True(t, n.hasNode(t, "above-the-snapshot"))
		require.Equal(t, pending, n.hasNode(t, "never-committed"), "the whole log counts")
		require.EqualValues(t, 2, n.machine.cluster().Incarnation)
		requireHistoryGoesOn(t, n, last)
		requireFormerMembersStayOut(t, c, n, all)
	})
}

// requireHistoryGoesOn: the journal has what was before, without a gap, and the new incarnation after it.
func requireHistoryGoesOn(t *testing.T, n *testMember, last uint64) {
	t.Helper()
	var first, replaced uint64
	_, err := n.History(0, 0, func(e Entry) bool {
		require.NotNil(t, e.Command, "no gap: %s", e.Reason)
		if first == 0 {
			first = e.Index
			require.NotNil(t, e.Command.GetBootstrap())
		}
		if _, ok := e.Command.GetBody().(*fsmpb.Command_ReplaceIncarnation); ok {
			replaced = e.Index
		}
		return true
	})
	require.NoError(t, err)
	require.Equal(t, last+1, replaced)
	from, err := n.JournalEntries(1, 1, func(journal.Entry) bool { return true })
	require.NoError(t, err)
	require.EqualValues(t, 1, from)
}

// requireFormerMembersStayOut starts the others with their old folders, then with empty ones.
func requireFormerMembersStayOut(t *testing.T, c *testCluster, n *testMember, all []*testMember) {
	t.Helper()
	var former []*testMember
	for _, o := range all {
		if o == n {
			continue
		}
		o.cfg.Join = []string{n.addr}
		require.NoError(t, c.start(o))
		former = append(former, o)
	}
	for _, o := range former {
		err := n.AddPeer(testContext(t), o.id, o.addr)
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, "of its former life")
	}
	require.Len(t, n.servers(), 1)
	leading, _, _ := n.Leadership()
	require.True(t, leading)
	for _, o := range former {
		o.crash(t)
		require.NoError(t, os.RemoveAll(o.cfg.Dir))
		require.NoError(t, c.start(o))
	}
	c.members = all
	c.waitReady(3)
	requireSameHash(t, all...)
}
