package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// giveUpSecond is a volume that was written to, whose second host's replica is to be removed.
func (p *pair) giveUpSecond() fsm.VolumeID {
	p.t.Helper()
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.unstage(id)
	a.unpublish(id)
	p.waitUpToDate(id)
	p.eventually("the replica may be given up", func() bool {
		_, err := p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
			VolumeId: string(id), NodeId: "n2", HostId: string(b.host())}}})
		return err == nil
	})
	return id
}

// loseFirst is the loss of the first host, as an operator says.
func (p *pair) loseFirst() {
	p.t.Helper()
	p.hosts[0].crash()
	p.lose(p.hosts[0])
}

// lose is the loss of a host, as an operator says.
func (p *pair) lose(m *member) {
	p.t.Helper()
	p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: string(m.node), HostId: string(m.host()), Reason: "burnt"}}})
}

// stoppedWhileRemoving is a pair whose second host was to remove its replica and whose process
// stopped at the point; then the first host is lost.
func stoppedWhileRemoving(t *testing.T, point string) (*pair, fsm.VolumeID) {
	p := newStoppedPair(t)
	a, b := p.hosts[0], p.hosts[1]
	f := stopAt(point, 0)
	a.start(nil)
	b.start(f)
	id := p.giveUpSecond()
	select {
	case <-f.stopped:
	case <-time.After(pairTimeout):
		require.Fail(t, "the point is not passed")
	}
	p.loseFirst()
	b.start(nil)
	return p, id
}

// S71, S14: a host that began to remove what is now the last copy keeps what is left of it,
// wherever it was interrupted, and the volume continues by a decision.
func TestS71_AHostThatBeganToRemoveTheLastCopyKeepsIt(t *testing.T) {
	for _, point := range []string{
		"down.before", "down.after", "forget-resource.before", "forget-resource.after", "close-below.before", "close-below.after", "remove.before",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p, id := stoppedWhileRemoving(t, point)
			b := p.hosts[1]
			p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{
				VolumeId: string(id), NodeId: "n2", Reason: "n1 burnt"}}})
			b.stage(id, b.publish(id))
			require.True(t, has(b.replicator.DiskContent(id), "acknowledged"))
			b.write(id, "goes on")
			b.unstage(id)
			b.unpublish(id)
		})
	}
}

// S71: a host that had just removed it reports it as missing.
func TestS71_AHostThatRemovedTheLastCopyReportsIt(t *testing.T) {
	for _, point := range []string{"remove.after", "forget-replica.before", "forget-replica.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p, id := stoppedWhileRemoving(t, point)
			p.eventually("it is missing", func() bool { return p.isReplicaIn(id, p.hosts[1], fsm.ReplicaMissing) })
			p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
			p.eventually("the volume is gone", func() bool { return p.volume(id) == nil })
		})
	}
}
