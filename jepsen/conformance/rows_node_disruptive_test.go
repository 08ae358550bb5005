package conformance

import (
	"context"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
)

// nodeDisruptiveRows kill n2, which is started again by itself, or stop all controllers.
var nodeDisruptiveRows = map[string]rowTest{
	"CSI-NODE-NodeGetInfo-03": with(func(k *kit) {
		require.NotEqual(k.t, k.info("n1").GetNodeId(), k.info("n2").GetNodeId())
		before := k.info("n2")
		k.killNode("n2")
		k.done(func() error {
			client, err := k.w.Cluster.Node("n2")
			require.NoError(k.t, err)
			after, err := client.NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
			if err == nil {
				requireSame(k, before, after)
			}
			return err
		})
	}),
	"CSI-NODE-NodeStageVolume-15": with(stageAcrossKills),
	"CSI-NODE-NodeUnpublishVolume-12": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		target := u.bound()
		k.withoutControllers(func() {
			u.unbound(target)
			require.NoDirExists(k.t, target)
			require.Zero(k.t, k.mounts(target))
		})
	}),
	"CSI-NODE-NodeUnstageVolume-11": with(func(k *kit) {
		u := k.uses(mountAs(modeWriter, "ext4")).staged()
		k.withoutControllers(func() {
			u.unstaged()
			u.gone()
		})
	}),
}

// killNode kills a node and waits until it runs again.
func (k *kit) killNode(id string) {
	k.t.Helper()
	pid, err := k.w.Cluster.Signal(id, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.w.Cluster.AwaitOther(k.ctx, id, pid))
}

// withoutControllers does something while all controllers stand still, and waits
// until they have a leader again.
func (k *kit) withoutControllers(what func()) {
	k.t.Helper()
	all := []string{"c1", "c2", "c3"}
	signal := func(sig syscall.Signal) error {
		for _, id := range all {
			if _, err := k.w.Cluster.Signal(id, sig); err != nil {
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
	_, err := k.w.Cluster.Leader(k.ctx)
	require.NoError(k.t, err)
}

// stageAcrossKills kills the node some time after the call began, so that it is
// somewhere between the log, the device and mkfs, and stages again. What was
// written is still there after the next kill: nothing is formatted twice.
func stageAcrossKills(k *kit) {
	for _, pause := range []time.Duration{2, 6, 12, 24} {
		u := k.usesOn("n2", mountAs(modeWriter, "ext4"))
		k.stageAndKill(u, pause*time.Millisecond)
		u.staged()
		require.Equal(k.t, 1, k.mounts(u.staging))
		k.write(u.staging, "written once")
		u.unstaged()
		u.gone()
		k.stageAndKill(u, pause*time.Millisecond)
		u.staged()
		require.Equal(k.t, "written once", k.read(u.staging))
		require.Equal(k.t, 1, k.mounts(u.staging))
		u.unstaged()
		u.gone()
		require.NoError(k.t, u.end(k.ctx))
		require.NoDirExists(k.t, u.staging)
	}
}

func (k *kit) stageAndKill(u *use, after time.Duration) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = u.node.NodeStageVolume(ctx, u.stageRequest()) // whatever it answers
	}()
	time.Sleep(after) // where it strikes is left to chance
	k.killNode(u.on)
	<-ended
}
