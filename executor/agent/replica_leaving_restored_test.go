package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// backupWhileLeaving is a volume whose second host was away when its replica was given up; the backup is of then. Later it was removed, and
// made once more on the same host. It returns the backup's length.
func backupWhileLeaving(t *testing.T) (*pair, fsm.VolumeID, int) {
	p := newPair(t)
	b := p.hosts[1]
	b.holdUpdates()
	id := p.giveUpSecondHeld()
	n := p.logLength()
	b.disconnect()
	b.connect()
	p.eventually("it is removed", func() bool { return b.pool.Images() == 0 && len(p.volume(id).Replicas) == 1 })
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(id), NodeId: "n2", Reason: "test"}}})
	p.waitUpToDate(id)
	return p, id, n
}

// giveUpSecondHeld is giveUpSecond, where the second host does not hear of it.
func (p *pair) giveUpSecondHeld() fsm.VolumeID {
	p.t.Helper()
	a, b := p.hosts[0], p.hosts[1]
	b.mu.Lock()
	b.hold = false
	b.mu.Unlock()
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.unstage(id)
	a.unpublish(id)
	p.waitUpToDate(id)
	p.eventually("the replica may be given up", func() bool {
		b.mu.Lock()
		b.hold = true
		b.mu.Unlock()
		_, err := p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
			VolumeId: string(id), NodeId: "n2", HostId: string(b.host())}}})
		if err != nil {
			b.mu.Lock()
			b.hold = false
			b.mu.Unlock()
		}
		return err == nil
	})
	return id
}

// S1, S71: the log is restored to when a replica was leaving. It was added again since, and its host was primary without the other one: it
// has the only copy of what was acknowledged there.
func TestS71_ALeavingReplicaAfterARestoreIsTheNewest(t *testing.T) {
	t.Parallel()
	p, id, n := backupWhileLeaving(t)
	a, b := p.hosts[0], p.hosts[1]
	a.crash()
	b.stage(id, b.publish(id))
	b.write(id, "at B only")
	b.unstage(id)
	b.unpublish(id)
	require.True(t, p.volume(id).ActiveReplica(a.host()).Outdated)
	p.restore(n)
	a.startAdopted()
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) && b.pool.Images() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	require.Equal(t, 1, b.pool.Images(), "the only copy of what B acknowledged was removed after the restore")
}

// S1, S71: and the other host's replica was removed since: it has no image any more.
func TestS71_ALeavingReplicaAfterARestoreIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	p, id, n := backupWhileLeaving(t)
	a, b := p.hosts[0], p.hosts[1]
	p.eventually("A's is removed", func() bool {
		_, a.lastErr = p.try("admin/a", &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{VolumeId: string(id), NodeId: "n1", HostId: string(a.host()), Reason: "test"}}})
		return a.lastErr == nil
	})
	p.eventually("A's image is gone", func() bool { return a.pool.Images() == 0 })
	b.stage(id, b.publish(id))
	b.write(id, "at B only")
	b.unstage(id)
	b.unpublish(id)
	began := time.Now()
	a.crash() // it is started after the restore, a little later
	p.restore(n)
	b.disconnect()
	b.connect() // a new session
	p.eventually("B acted on it", func() bool { return b.pool.Images() == 0 || time.Since(began) > 2*time.Second })
	a.startAdopted()
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) && b.pool.Images() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	require.Equal(t, 1, b.pool.Images(), "the only copy there is was removed after the restore")
}
