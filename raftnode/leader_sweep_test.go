package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S118, S23: a leader writes the loss of a host into all records batch by batch, and when it dies the
// next leader continues at the same place.
func TestS118_ASweepOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	c.leader().mustPropose(t, "n1")
	c.leader().createVolumes(t, 400)
	first := c.leader()
	lost := &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1"}}}
	retryUnavailable(t, func() error { _, err := first.Propose(testContext(t), lost); return err })
	first.crash(t)
	left := c.others(first)
	eventually(t, func() error {
		for _, n := range left {
			if under := n.machine.cluster().Sweeps; len(under) > 0 {
				return fmt.Errorf("%s: %v", n.cfg.Name, under)
			}
			if count := n.machine.fork().VolumeCount(); count > 0 {
				return fmt.Errorf("%s still has %d records", n.cfg.Name, count)
			}
		}
		return nil
	})
	retryUnavailable(t, func() error {
		_, err := left[0].Read(testContext(t), func(s *fsm.State) error { return s.Check() })
		return err
	})
	require.NoError(t, errors.Join(c.start(first)))
	eventually(t, func() error {
		if n := first.machine.cluster().Sweeps; len(n) > 0 || first.machine.fork().VolumeCount() > 0 {
			return errors.New("the one that died is behind")
		}
		return nil
	})
	c.leader().mustPropose(t, "n2")
	for _, n := range c.members {
		require.True(t, n.hasNode(t, "n2"))
	}
	requireSameHash(t, c.members...)
}

// createVolumes creates volumes on the one node.
func (n *testMember) createVolumes(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		create := &fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
			VolumeId: "hf-" + uuid.NewString(), Name: fmt.Sprint("pvc-", i), RequiredBytes: 1 << 20, Replicas: 1,
			Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, Block: true}},
		}}}
		retryUnavailable(t, func() error { _, err := n.Propose(testContext(t), create); return err })
	}
}

// lockedBuffer is what several goroutines log.
type lockedBuffer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

// S118: a sweep goes from batch to batch without complaint and without a pause for a failure that there was not.
func TestS118_ASweepIsQuiet(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	var log lockedBuffer
	c.log = slog.New(slog.NewTextHandler(&log, nil))
	n := c.add("c1", nil)
	c.waitReady(1)
	n.mustPropose(t, "n1")
	n.createVolumes(t, 200)
	lost := &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1"}}}
	retryUnavailable(t, func() error { _, err := n.Propose(testContext(t), lost); return err })
	eventually(t, func() error {
		if count := n.machine.fork().VolumeCount(); count > 0 {
			return fmt.Errorf("%d records are left", count)
		}
		return nil
	})
	require.NotContains(t, log.String(), "cannot propose the next batch")
}
