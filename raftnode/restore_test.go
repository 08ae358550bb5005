package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

var errKilled = errors.New("killed")

// rebuildSteps are the steps at which a restore can be killed; a recovery has the later ones instead of rename.
var rebuildSteps = []string{"term", "snapshot", "entry", "extra", "record", "marker"}

// killAt stops a rebuild at one step.
func killAt(step string) func(string) error {
	return func(at string) error {
		if at == step {
			return errKilled
		}
		return nil
	}
}

// take writes a full backup of a member to a file.
func (n *testMember) take(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, backup.CreateFile(path, func(w io.Writer) error {
		_, err := backup.Take(testContext(t), n, backup.Request{Member: n.cfg.Name, Now: time.Now()}, w)
		return err
	}))
	return path
}

func (n *testMember) rebuild(content *backup.Content) Rebuild {
	return Rebuild{
		State: content.State, Index: content.Index(), Term: content.Term, Advertise: n.addr, LogStore: n.cfg.LogStore,
		Actor: "admin/ann", Now: time.Now(),
	}
}

// backupUnderLoad takes a backup from a follower while commands are proposed; before is in it.
func backupUnderLoad(t *testing.T, c *testCluster, before string) *backup.Content {
	t.Helper()
	c.members[0].mustPropose(t, before)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !stop.Load(); i++ {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			_, _ = c.members[0].Propose(ctx, registerNode(fmt.Sprintf("load-%d", i)))
			cancel()
		}
	}()
	path := c.followers()[0].take(t)
	stop.Store(true)
	<-done
	content, err := backup.Load(backup.Files{Full: path})
	require.NoError(t, err)
	return content
}

// crashAll ends all members, as a loss of the power does.
func (c *testCluster) crashAll() {
	c.t.Helper()
	for _, n := range c.members {
		n.crash(c.t)
		n.Member = nil
	}
}

func TestS24_RestoreAfterTheLossOfAll(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newThreeMembers(t, func(cfg *Config) { cfg.LogStore = kind })
		c1, c2, c3 := c.members[0], c.members[1], c.members[2]
		content := backupUnderLoad(t, c, "acknowledged")
		c1.mustPropose(t, "after-the-backup")
		c.crashAll()
		require.NoError(t, os.RemoveAll(c1.cfg.Dir))
		require.NoError(t, os.RemoveAll(c3.cfg.Dir))

		made, err := Restore(c1.cfg.Dir, c1.rebuild(content))
		require.NoError(t, err)
		require.EqualValues(t, 2, made.Incarnation)
		_, err = Restore(c1.cfg.Dir, c1.rebuild(content))
		require.ErrorIs(t, err, ErrRebuildRefused, "there is something in it")
		require.NoError(t, c.start(c1))
		c.members = []*testMember{c1}
		c.waitReady(1)
		require.Equal(t, made.Member, c1.id)
		require.True(t, c1.hasNode(t, "acknowledged"))
		require.False(t, c1.hasNode(t, "after-the-backup"))
		cluster := c1.machine.cluster()
		require.Equal(t, content.State.Cluster().ID, cluster.ID)
		require.EqualValues(t, 2, cluster.Incarnation)
		require.NotEqual(t, content.State.Cluster().IncarnationID, cluster.IncarnationID)
		var first *journal.Entry
		_, err = c1.JournalEntries(0, 0, func(e journal.Entry) bool { first = &e; return false })
		require.NoError(t, err)
		require.Equal(t, content.Index()+1, first.Index, "the history begins with the new incarnation")

		// One that was not wiped goes on as the member that it was, and reaches nobody (S68).
		former := c2.addr
		c2.addr = freeAddr() // it may even ask to join, at another address
		require.NoError(t, c.start(c2))
		eventually(t, func() error {
			if err := c2.joiner.checkAdmitted(); err == nil {
				return errors.New("it says nothing yet")
			}
			return nil
		})
		refused := c1.AddPeer(testContext(t), c2.id, c2.addr)
		require.ErrorIs(t, refused, ErrRefused)
		require.ErrorContains(t, refused, "of its former life")
		require.Len(t, c1.servers(), 1)
		for range 2 { // of a build that does not say what its log has
			_, refused = c1.membership.acceptJoin(testContext(t), &raftpb.JoinRequest{
				MemberId: c2.id, RaftAddr: c2.addr, ClusterId: cluster.ID, FeatureLevel: fsm.MaxFeatureLevel,
			})
			require.ErrorContains(t, refused, "of its former life")
		}
		c2.crash(t)

		c2.addr = former
		require.NoError(t, os.RemoveAll(c2.cfg.Dir))
		for _, n := range []*testMember{c2, c3} { // they join with empty folders
			n.cfg.Join = []string{c1.addr}
			require.NoError(t, c.start(n))
		}
		c.members = []*testMember{c1, c2, c3}
		c.waitReady(3)
		require.True(t, c3.hasNode(t, "acknowledged"))
		requireSameHash(t, c.members...)
	})
}

func TestS1_ASecondRestoreIsAnotherIncarnation(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	n.mustPropose(t, "acknowledged")
	content, err := backup.Load(backup.Files{Full: n.take(t)})
	require.NoError(t, err)
	n.crash(t)
	seen := map[string]bool{string(content.State.Cluster().IncarnationID): true}
	for range 2 {
		require.NoError(t, os.RemoveAll(n.cfg.Dir))
		_, err := Restore(n.cfg.Dir, n.rebuild(content))
		require.NoError(t, err)
		require.NoError(t, c.start(n))
		c.waitReady(1)
		id := string(n.machine.cluster().IncarnationID)
		require.False(t, seen[id])
		seen[id] = true
		n.crash(t)
	}
}

// S24: killed at any step there is nothing in the directory's place, or a whole member; repeated, it is whole.
func TestS24_ARestoreThatIsKilled(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newTestCluster(t, func(cfg *Config) { cfg.LogStore = kind })
		n := c.add("c1", nil)
		c.waitReady(1)
		n.mustPropose(t, "acknowledged")
		content, err := backup.Load(backup.Files{Full: n.take(t)})
		require.NoError(t, err)
		n.crash(t)
		require.NoError(t, os.RemoveAll(n.cfg.Dir))
		for _, step := range append(rebuildSteps, "rename") {
			for range 2 {
				r := n.rebuild(content)
				r.step = killAt(step)
				_, err := Restore(n.cfg.Dir, r)
				require.ErrorIs(t, err, errKilled, step)
				require.NoDirExists(t, n.cfg.Dir, step)
			}
		}
		require.NoError(t, os.Mkdir(n.cfg.Dir, 0o755)) // empty
		made, err := Restore(n.cfg.Dir, n.rebuild(content))
		require.NoError(t, err)
		require.NoDirExists(t, n.cfg.Dir+".restoring")
		require.NoError(t, c.start(n))
		c.waitReady(1)
		require.True(t, n.hasNode(t, "acknowledged"))
		require.Equal(t, made.Member, n.id)
		n.crash(t)
		require.NoError(t, os.RemoveAll(n.cfg.Dir)) // a founder whose restored folder is lost founds nothing (S69)
		n.cfg.Bootstrap = true
		require.ErrorContains(t, c.start(n), "holdfast members replace "+made.Member)
		n.Member = nil
	})
}

// S1: hosts may have met an incarnation that the backup does not know.
func TestS1_TheIncarnationIsAboveTheOneThatIsNamed(t *testing.T) {
	m := backuptest.New(t, "one")
	dir := filepath.Join(t.TempDir(), "c1")
	made, err := Restore(dir, Rebuild{State: m.State, Index: m.Index, Term: backuptest.Term, Advertise: "127.0.0.1:1", LogStore: "wal", Actor: "admin/ann", Above: 7, Now: time.Now()})
	require.NoError(t, err)
	require.EqualValues(t, 8, made.Incarnation)
	s, err := OpenSurvivor(dir)
	require.NoError(t, err)
	require.EqualValues(t, 8, s.State.Cluster().Incarnation)
	require.True(t, s.Alone())
	require.NoError(t, s.Close())
}

func TestRestoreNeedsAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, CheckRestoreTarget(dir))
	require.NoError(t, CheckRestoreTarget(filepath.Join(dir, "new")))
	require.ErrorIs(t, CheckRestoreTarget(filepath.Join(dir, "no", "new")), ErrRebuildRefused)
	require.ErrorContains(t, CheckRestoreTarget("/proc"), "holds")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.ErrorContains(t, CheckRestoreTarget(dir), "holds file")
}
