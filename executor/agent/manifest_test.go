package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// heldOf is what a host says that it has of a volume, nil where it says nothing.
func heldOf(t testing.TB, e *agent.Agent, id fsm.VolumeID) *fsmpb.HeldVolume {
	t.Helper()
	found, err := e.Held(t.Context())
	require.NoError(t, err)
	for _, item := range found.Items {
		if item.Volume == id {
			held := &fsmpb.HeldVolume{}
			require.NoError(t, pb.Unmarshal([]byte(item.Held), held))
			return held
		}
	}
	return nil
}

// adoptVolume takes the volume in as both hosts have it.
func (p *pair) adoptVolume(id fsm.VolumeID) {
	p.t.Helper()
	c := &fsmpb.AdoptVolume{VolumeId: string(id)}
	for _, m := range p.hosts {
		if held := heldOf(p.t, m.e, id); held != nil {
			c.Replicas = append(c.Replicas, &fsmpb.AdoptedReplica{NodeId: string(m.node), HostId: string(m.host()), Held: held})
		}
	}
	p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_AdoptVolume{AdoptVolume: c}})
}

// S1: a replicated volume that is newer than the backup is in use while the log is lost, restored and takes it in: its
// writer goes on all the time, and it moves to the other host afterwards with all that was written.
func TestS1_AReplicatedVolumeInUseOutlivesTheLog(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	backup := p.logLength()
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	a.stage(id, a.publish(id))
	a.write(id, "before")
	p.eventually("both hosts keep what the log said", func() bool {
		h := heldOf(t, a.e, id)
		return h.GetManifest().GetPublication().GetStaging().GetDone() && heldOf(t, b.e, id).GetManifest() != nil
	})
	p.restoreLog(backup)
	require.Nil(t, p.volume(id))
	a.write(id, "in adoption mode")
	for range 2 {
		p.adoptVolume(id)
	}
	a.adopt()
	b.adopt()
	a.write(id, "adopted")
	p.waitUpToDate(id)
	require.Equal(t, a.node, p.volume(id).Publications()[0].Node)
	p.eventually("the host that is primary has its grant again", func() bool { return p.volume(id).Replication.Primary != nil })
	b.losePower()
	a.write(id, "without its peer")
	b.start(nil)
	p.waitUpToDate(id)
	p.stopUsing(id, a)
	b.stage(id, b.publish(id))
	b.holdsAll(id, "before", "in adoption mode", "adopted", "without its peer")
	p.stopUsing(id, b)
	p.remove(id)
}

// S1: what a host removed because the log said so, it says after the log was lost; what it has, also after a restart.
func TestS1_AHostSaysWhatTheLostLogSaid(t *testing.T) {
	w := newTestHost(t)
	kept, removed := backendtest.NewID(), backendtest.NewID()
	w.create(kept, mountCap)
	w.create(removed, mountCap)
	w.eventually(func() bool {
		return heldOf(t, w.e, kept).GetManifest() != nil && heldOf(t, w.e, removed).GetManifest() != nil
	}, "it keeps what the log says of both")
	require.NoError(t, w.deleteVolume(removed))
	w.eventually(func() bool { return heldOf(t, w.e, removed).GetRemoved() }, "and that one was deleted")
	for range 2 {
		w.restart()
		require.True(t, heldOf(t, w.e, removed).GetRemoved())
		require.Zero(t, heldOf(t, w.e, removed).GetSizeBytes())
		held := heldOf(t, w.e, kept)
		require.EqualValues(t, testSize, held.GetSizeBytes())
		require.Equal(t, string(kept), held.GetManifest().GetVolumeId())
	}
	at := heldOf(t, w.e, kept).GetAt()
	w.replaceIncarnation()
	w.restart()
	epoch := heldOf(t, w.e, kept).GetAt()
	require.True(t, pb.Equal(at, epoch), "in adoption mode it keeps that")
}
