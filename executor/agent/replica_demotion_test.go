package agent_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// sameInSyncUUID reports whether the log has the UUID of the content that both replicas had when
// neither could be written to any more.
func (p *pair) sameInSyncUUID(id fsm.VolumeID) bool {
	active := p.volume(id).ActiveReplicas()
	return len(active) == 2 && active[0].InSyncUUID.Value != 0 && active[0].InSyncUUID.Value == active[1].InSyncUUID.Value
}

// S5, S10: every clean demotion is recorded, whether NodeUnstage was called or the host
// ended the publication by itself.
func TestS10_EveryCleanDemotionIsRecorded(t *testing.T) {
	for name, unstaged := range map[string]bool{"after NodeUnstage": true, "of what was never staged": false} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			id := p.create(protocolC)
			for i := range 5 {
				m := p.hosts[i%2]
				epoch := m.publish(id)
				require.False(t, p.sameInSyncUUID(id), "a grant ends what is known")
				if unstaged {
					m.stage(id, epoch)
					m.write(id, fmt.Sprint("round ", i))
					m.unstage(id)
				}
				m.unpublish(id)
				p.eventually(fmt.Sprint("demotion ", i, " is recorded"), func() bool { return p.sameInSyncUUID(id) })
			}
			p.remove(id)
		})
	}
}

// S5 (a): after both hosts lost power, the one that returns first may use a volume that was not
// in use, without its peer and without an operator's decision. A volume that was in use waits.
func TestS5_AnUnusedVolumeIsUsedWithoutItsPeerAfterBothLostPower(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.unstage(id)
	a.unpublish(id)
	p.eventually("the demotion is recorded", func() bool { return p.sameInSyncUUID(id) })
	a.crash()
	b.crash()
	b.start(nil)
	b.stage(id, b.publish(id))
	require.True(t, has(b.replicator.DiskContent(id), "acknowledged"))
	b.write(id, "alone")
	a.start(nil)
	p.waitUpToDate(id)
	require.True(t, has(a.replicator.DiskContent(id), "alone"))
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}
