package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S42, S43: B is whole and left behind, as the log knows, and waits for its peer. The link comes back, B begins to be copied, and A burns before B's report
// of that is in the log. Force promotes what was whole a moment ago.
func TestS43_AReplicaThatHasJustBegunToBeCopied(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "everywhere")
	p.link.SetDisconnected(true)
	a.write(id, "alone")
	p.eventually("B waits for its peer, with a copy of what it has", func() bool {
		l := p.volume(id).ActiveReplica(b.host())
		return l.Outdated && !l.KeepDue && l.Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	})
	p.link.SetSyncTime(time.Hour)
	b.mu.Lock()
	b.connected = false // nobody noticed yet
	b.mu.Unlock()
	p.link.SetDisconnected(false)
	p.eventually("B is being copied", func() bool {
		s, err := b.replicator.Observe(t.Context(), id, 0, "")
		return err == nil && s.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
	})
	a.crash()
	b.promoteByForce(id)
	b.connect() // it goes on with its reports
	p.eventually("the log knows what B has", func() bool {
		return p.volume(id).ActiveReplica(b.host()).Observed.Disk == fsmpb.DiskState_DISK_STATE_INCONSISTENT
	})
	p.mu.Lock()
	holds, _, rej := p.state.PromoteHolds(sourceOf(id), "B")
	p.mu.Unlock()
	require.Nil(t, rej)
	require.False(t, holds, "S42: it cannot be used as it is")
	for range 2 {
		b.promoteByForce(id)
	}
	b.primaryAt(id)
	require.True(t, has(b.replicator.DiskContent(id), "everywhere"))
}
