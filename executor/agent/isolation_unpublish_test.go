package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S45, S67: an orchestrator detaches the volume while its primary is isolated and frozen. That primary has all that was
// acknowledged and its peer has not, as the log knows: once it is heard again and was torn down, its disk did not fail, and
// its peer is brought up to date, without a decision.
func TestS45_AFrozenPrimaryThatWasUnpublishedIsStillTheGoodSide(t *testing.T) {
	p := newIsolatable(t)
	a, b := p.hosts[0], p.hosts[1]
	id := isolatedPrimary(p)
	_ = a.at(&fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(a.node)}}})
	p.link.SetDisconnected(false)
	a.connect()
	p.eventually("it is torn down", func() bool {
		primary, frozen := a.replicator.Primary(id)
		return !primary && !frozen && p.volume(id).Teardown(a.host()) == nil
	})
	require.True(t, has(a.replicator.DiskContent(id), "at A only"))
	p.eventually("its peer is brought up to date", func() bool { return p.volume(id).ActiveReplica(b.host()).UpToDate })
}
