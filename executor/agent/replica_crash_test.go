package agent_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
)

// replicatedVolumeLife takes a volume through all that can happen to it while processes may die;
// a process that died is started again.
func (p *pair) replicatedVolumeLife() {
	a, b := p.hosts[0], p.hosts[1]
	id := p.startCreate(protocolC)
	p.eventually("the volume is ready", func() bool { return p.isReady(id) })
	a.stage(id, a.publish(id))
	a.write(id, "first")

	p.link.SetDisconnected(true)
	a.write(id, "alone")
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)

	attachment := p.volume(id).ActiveReplica(b.host()).Attachment
	b.replicator.FailDisk(id)
	a.write(id, "without the other disk")
	p.eventually("it is attached again", func() bool { return p.volume(id).ActiveReplica(b.host()).Attachment > attachment })
	p.waitUpToDate(id)

	a.disconnect() // the primary loses the controllers and its peer
	p.link.SetDisconnected(true)
	a.unpublish(id)
	epoch := b.publish(id)
	b.stage(id, epoch)
	b.write(id, "after the takeover")
	a.connect()
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	for _, text := range []string{"first", "alone", "without the other disk", "after the takeover"} {
		require.True(p.t, has(a.replicator.DiskContent(id), text), text)
	}
	require.LessOrEqual(p.t, a.pool.Snapshots(), 1)
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

// isRarePoint reports whether the point is not passed in replicatedVolumeLife, because its step
// is seldom needed.
func isRarePoint(point string) bool {
	for _, kind := range []string{"adjust.", "invalidate.", "resize.", "verify.", "keep-loser.", "connect-discard.", "end-loser.", "end-freeze.", "note-in-sync.", "resume-io.", "detach-disk.", "disconnect."} {
		if len(point) >= len(kind) && point[:len(kind)] == kind {
			return true
		}
	}
	return false
}

// Killed between every two steps, on either host, a replicated volume converges.
func TestACrashAtEveryPointOfAReplicatedVolume(t *testing.T) {
	t.Parallel()
	for _, point := range agent.ReplicaFaultPoints {
		for i, host := range []fsm.NodeID{"n1", "n2"} {
			t.Run(string(host)+" "+point, func(t *testing.T) {
				t.Parallel()
				p := newStoppedPair(t)
				f := stopAt(point, 0)
				other := stopAt("", 0)
				faults := []*stopAtPoint{other, other}
				faults[i] = f
				p.hosts[0].start(faults[0])
				p.hosts[1].start(faults[1])
				p.replicatedVolumeLife()
			})
		}
	}
}

// Every point is passed on one of the hosts, but those of rare steps.
func TestEveryReplicaFaultPointIsHit(t *testing.T) {
	p := newStoppedPair(t)
	f := stopAt("", 0)
	for _, m := range p.hosts {
		m.start(f)
	}
	p.replicatedVolumeLife()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, point := range agent.ReplicaFaultPoints {
		require.True(t, f.hits[point] || isRarePoint(point), point)
	}
	known := slices.Concat(agent.FaultPoints, agent.ReplicaFaultPoints)
	for point := range f.hits {
		require.Contains(t, known, point)
	}
}
