package raftnode

import (
	"errors"
	"fmt"
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
	for i := range 400 {
		create := &fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
			VolumeId: "hf-" + uuid.NewString(), Name: fmt.Sprint("pvc-", i), RequiredBytes: 1 << 20, Replicas: 1,
			Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, Block: true}},
		}}}
		retryUnavailable(t, func() error { _, err := c.leader().Propose(testContext(t), create); return err })
	}
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
