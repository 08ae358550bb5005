package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S9: while the kernel runs its helper for a disk that is being detached, the disk is Failed and
// still attached. Resuming I/O then would begin a generation of its own on the victim, and the
// next handshake would find a split brain.
func TestS9_AVictimResumesOnlyWithoutItsDisk(t *testing.T) {
	t.Parallel()
	for name, cutOff := range map[string]bool{"from the controllers only": false, "from its peer and the controllers": true} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.create(protocolC)
			a.stage(id, a.publish(id))
			a.write(id, "acknowledged")
			a.disconnect()
			p.link.SetDisconnected(cutOff)
			a.unpublish(id)
			b.stage(id, b.publish(id))
			b.write(id, "after the takeover")
			release := a.replicator.HoldHelper()
			a.connect()
			p.link.SetDisconnected(false)
			p.eventually("it is looked at while the disk is Failed", func() bool { return a.replicator.Steps("observe-failed") > 2 })
			_, frozen := a.replicator.Primary(id)
			require.True(t, frozen, "the helper has not ended")
			release()
			p.waitUpToDate(id)
			require.Zero(t, a.replicator.Steps("resume-failed"))
			require.Zero(t, p.link.SplitBrains())
			require.True(t, has(a.replicator.DiskContent(id), "after the takeover"))
			b.unstage(id)
			b.unpublish(id)
			p.remove(id)
		})
	}
}

// S9, S67: the process that detached a victim's disk dies before the victim is torn down. The next one does not take the disk for one
// that failed: what it lacks is copied by the bitmaps.
func TestS9_AVictimsDiskDidNotFailForTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"detach-disk.after", "end-freeze.shut-down", "end-loser.down"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newStoppedPair(t)
			a, b := p.hosts[0], p.hosts[1]
			a.start(stopAt(point, 0))
			b.start(nil)
			id := p.create(protocolC)
			a.stage(id, a.publish(id))
			a.write(id, "acknowledged")
			a.disconnect()
			p.link.SetDisconnected(true)
			a.unpublish(id)
			b.stage(id, b.publish(id))
			b.write(id, "after the takeover")
			a.connect()
			p.link.SetDisconnected(false)
			p.waitUpToDate(id)
			require.Nil(t, a.faults, "it was killed")
			require.Zero(t, a.replicator.Steps("remake-metadata"))
			require.True(t, has(a.replicator.DiskContent(id), "after the takeover"))
			require.Zero(t, p.link.SplitBrains())
			b.unstage(id)
			b.unpublish(id)
			p.remove(id)
		})
	}
}
