package raftnode

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// newUnstartedMembers returns members with fixed addresses that are not started yet: the first is to
// bootstrap the cluster, and every member knows all addresses.
func newUnstartedMembers(t *testing.T, kind string) *testCluster {
	c := newTestCluster(t, func(cfg *Config) { cfg.LogStore = kind })
	var addrs []string
	for i := range 3 {
		n := c.prepare(fmt.Sprintf("c%d", i+1), func(cfg *Config) { cfg.Bootstrap = i == 0 })
		listener, err := net.Listen("tcp", freeAddr())
		require.NoError(t, err)
		n.listener, n.addr = listener, listener.Addr().String()
		addrs = append(addrs, n.addr)
	}
	for _, n := range c.members {
		n.cfg.Join = addrs
	}
	return c
}

func (n *testMember) waitNotReady(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() error {
		if err := n.Ready(); err == nil || !strings.Contains(err.Error(), text) {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
}

func TestS69_BootstrapAsksAllOthersFirst(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newUnstartedMembers(t, kind)
		c1, c2, c3 := c.members[0], c.members[1], c.members[2]
		require.NoError(t, c.start(c1))
		c1.waitNotReady(t, c3.addr)
		require.NoError(t, c.start(c2))
		c1.waitNotReady(t, "not yet asked: "+c3.addr)
		require.Zero(t, c1.raft.LastIndex(), "it founded a cluster without having asked all")
		require.NoError(t, c.start(c3))
		c.waitReady(3)
	})
}

func TestS69_BootstrapWithoutItsFolderMakesNoSecondCluster(t *testing.T) {
	skipIfShort(t)
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newUnstartedMembers(t, kind)
		c1 := c.members[0]
		for _, n := range c.members {
			require.NoError(t, c.start(n))
		}
		c.waitReady(3)
		c1.mustPropose(t, "acknowledged")
		cluster, old := c1.storage.clusterID(), c1.id
		for _, n := range c.members {
			n.crash(t)
		}
		require.NoError(t, os.RemoveAll(c1.cfg.Dir))
		for _, marker := range []string{"with its marker", "without it"} {
			if marker == "without it" {
				require.NoError(t, os.Remove(c1.cfg.Dir+".founded"))
				require.NoError(t, os.RemoveAll(c1.cfg.Dir))
			}
			require.NoError(t, c.start(c1))
			c1.waitNotReady(t, "not in the cluster yet")
			require.Zero(t, c1.raft.LastIndex())
			c1.crash(t)
		}
		for _, n := range c.members {
			require.NoError(t, c.start(n))
		}
		c1.waitNotReady(t, "holdfast members replace "+old)
		// It is refused until those that stay are ready.
		eventually(t, func() error { return c.members[1].RemovePeer(testContext(t), old) })
		c.waitReady(3)
		require.Equal(t, cluster, c1.storage.clusterID())
		require.True(t, c1.hasNode(t, "acknowledged"))
		requireSameHash(t, c.members...)
	})
}

func TestS69_TwoBootstrapsMakeNoCluster(t *testing.T) {
	t.Parallel()
	c := newUnstartedMembers(t, "wal")
	c.members[1].cfg.Bootstrap = true
	for _, n := range c.members {
		require.NoError(t, c.start(n))
	}
	c.members[0].waitNotReady(t, "c2 at "+c.members[1].addr+" is to make a new cluster too")
	c.members[1].waitNotReady(t, "c1 at "+c.members[0].addr+" is to make a new cluster too")
	c.members[1].crash(t)
	c.members[1].cfg.Bootstrap = false
	require.NoError(t, c.start(c.members[1]))
	c.waitReady(3)
}

func TestS69_WithoutAddressesTheMarkerRefusesASecondCluster(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newTestCluster(t, func(cfg *Config) { cfg.LogStore = kind })
		n := c.add("c1", nil)
		c.waitReady(1)
		old := n.id
		n.crash(t)
		require.NoError(t, c.start(n), "with its folder it starts again")
		n.crash(t)
		require.NoError(t, os.RemoveAll(n.cfg.Dir))
		for range 2 {
			err := c.start(n)
			require.ErrorContains(t, err, "holdfast members replace "+old)
			require.ErrorContains(t, err, "remove "+n.cfg.Dir+".founded")
		}
		n.Member = nil
		require.NoError(t, os.WriteFile(n.cfg.Dir+".founded", []byte("?"), 0o600))
		require.ErrorContains(t, c.start(n), "read the marker")
		n.Member = nil
		require.NoError(t, os.Remove(n.cfg.Dir+".founded"))
		require.NoError(t, c.start(n))
		c.waitReady(1)
	})
}

func TestS69_AnInterruptedBootstrapContinues(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.prepare("c1", func(cfg *Config) { cfg.Bootstrap, cfg.Join = false, []string{"127.0.0.1:1"} })
	require.NoError(t, c.start(n))
	text, err := json.Marshal(bootstrapMarker{Member: n.id})
	require.NoError(t, err)
	n.crash(t)
	require.NoError(t, os.WriteFile(n.cfg.Dir+".founded", text, 0o600)) // as after a kill just after the marker was written
	n.cfg.Bootstrap, n.cfg.Join = true, nil
	require.NoError(t, c.start(n))
	c.waitReady(1)
}

// Raft writes its term before the first entry. A kill between the two leaves a folder that Raft takes for a member's.
func TestS69_ABootstrapThatEndedBehindItsTermContinues(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.prepare("c1", func(cfg *Config) { cfg.Bootstrap, cfg.Join = false, []string{"127.0.0.1:1"} })
	require.NoError(t, c.start(n))
	n.crash(t)
	s, err := store.Open(store.Options{Dir: n.cfg.Dir, Kind: n.cfg.LogStore})
	require.NoError(t, err)
	require.NoError(t, s.Stable.SetUint64(keyCurrentTerm, 1))
	has, err := s.HasExistingState()
	require.NoError(t, err)
	require.True(t, has)
	require.NoError(t, s.Close())
	n.cfg.Bootstrap, n.cfg.Join = true, nil
	require.NoError(t, c.start(n))
	c.waitReady(1)
}

// Who decided that a member founds the cluster may remember that itself: then there is no marker.
func TestABootstrapWithoutAMarker(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", func(cfg *Config) { cfg.NoBootstrapMarker = true })
	c.waitReady(1)
	n.crash(t)
	require.NoError(t, c.start(n))
	c.waitReady(1)
	require.NoFileExists(t, n.cfg.Dir+".founded")
}

// S69, S142: a member that is told to bootstrap although its data directory holds a cluster continues with that cluster.
func TestS69_ABootstrapOfAnOlderBuildGetsItsMarker(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	n.crash(t)
	require.NoError(t, os.Remove(n.cfg.Dir+".founded"))
	require.NoError(t, c.start(n))
	require.FileExists(t, n.cfg.Dir+".founded")
}

func TestS69_ANamedBootstrapMarkerMustBeWritten(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.prepare("c1", func(cfg *Config) { cfg.Bootstrap, cfg.BootstrapMarker = true, "/proc/nowhere/founded" })
	require.ErrorContains(t, c.start(n), "write the marker")
	n.Member = nil
}

// A member of a new cluster serves once the first command is applied: until then it knows no feature level, and refuses
// as impossible what it will do a moment later.
func TestAMemberIsReadyOnceTheClusterIsSetUp(t *testing.T) {
	t.Parallel()
	for range 3 {
		n := newTestCluster(t, nil).add("c1", nil)
		for n.Ready() != nil { // the first moment at which it is ready
			runtime.Gosched()
		}
		require.NotEmpty(t, n.machine.cluster().ID)
	}
}
