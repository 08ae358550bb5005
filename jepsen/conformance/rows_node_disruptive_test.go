package conformance

import (
	"context"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
)

// nodeDisruptiveRows kill n2, which is restarted automatically, or stop all controllers.
var nodeDisruptiveRows = map[string]rowTest{
	"CSI-NODE-NodeGetInfo-03": rowOf(func(k *fixture) {
		require.NotEqual(k.t, k.info("n1").GetNodeId(), k.info("n2").GetNodeId())
		before := k.info("n2")
		k.killNode("n2")
		k.untilOK(func() error {
			client, err := k.env.Cluster.Node("n2")
			require.NoError(k.t, err)
			after, err := client.NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
			if err == nil {
				requireSame(k, before, after)
			}
			return err
		})
	}),
	"CSI-NODE-NodeStageVolume-15": rowOf(stageAcrossKills),
	"CSI-NODE-NodeUnpublishVolume-12": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		target := u.bindTarget()
		k.withoutControllers(func() {
			u.requireUnbound(target)
			require.NoDirExists(k.t, target)
			require.Zero(k.t, k.mounts(target))
		})
	}),
	"CSI-NODE-NodeUnstageVolume-11": rowOf(func(k *fixture) {
		u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
		k.withoutControllers(func() {
			u.unstage()
			u.requireDetached()
		})
	}),
}

// killNode kills a node and waits until it runs again.
func (k *fixture) killNode(id string) {
	k.t.Helper()
	pid, err := k.env.Cluster.Signal(id, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.env.Cluster.AwaitNewPID(k.ctx, id, pid))
}

// withoutControllers runs a function while all controllers are stopped, and waits until they have a leader
// again.
func (k *fixture) withoutControllers(what func()) {
	k.t.Helper()
	all := []string{"c1", "c2", "c3"}
	signal := func(sig syscall.Signal) error {
		for _, id := range all {
			if _, err := k.env.Cluster.Signal(id, sig); err != nil {
				return err
			}
		}
		return nil
	}
	resumed := false
	defer func() {
		if !resumed {
			_ = signal(syscall.SIGCONT)
		}
	}()
	require.NoError(k.t, signal(syscall.SIGSTOP))
	what()
	require.NoError(k.t, signal(syscall.SIGCONT))
	resumed = true
	_, err := k.env.Cluster.Leader(k.ctx)
	require.NoError(k.t, err)
}

// stageAcrossKills kills the node some time after the call began, so that it is
// somewhere between the log, the device and mkfs, and stages again. What was
// written is still there after the next kill: nothing is formatted twice.
func stageAcrossKills(k *fixture) {
	for _, pause := range []time.Duration{2, 6, 12, 24} {
		u := k.newUseOn("n2", nodeMountCapability(modeWriter, "ext4"))
		k.stageAndKill(u, pause*time.Millisecond)
		u.stage()
		require.Equal(k.t, 1, k.mounts(u.staging))
		k.write(u.staging, "written once")
		u.unstage()
		u.requireDetached()
		k.stageAndKill(u, pause*time.Millisecond)
		u.stage()
		require.Equal(k.t, "written once", k.read(u.staging))
		require.Equal(k.t, 1, k.mounts(u.staging))
		u.unstage()
		u.requireDetached()
		require.NoError(k.t, u.cleanUp(k.ctx))
		require.NoDirExists(k.t, u.staging)
	}
}

func (k *fixture) stageAndKill(u *stagingUse, after time.Duration) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = u.node.NodeStageVolume(ctx, u.stageRequest()) // whatever it answers
	}()
	time.Sleep(after) // the kill hits at a random step
	k.killNode(u.on)
	<-ended
}
