package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
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
	promote := &fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: sourceOf(id), Force: true}}}
	require.NoError(t, b.at(promote))
	b.connect() // it goes on with its reports
	p.eventually("the log knows what B has", func() bool {
		return p.volume(id).ActiveReplica(b.host()).Observed.Disk == fsmpb.DiskState_DISK_STATE_INCONSISTENT
	})
	time.Sleep(500 * time.Millisecond)
	holds := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		done, _, rej := p.state.PromoteHolds(sourceOf(id), "B")
		return done && rej == nil
	}
	answered := holds()
	epoch := b.publishAt(id)
	var err error
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		require.NoError(t, b.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: sourceOf(id), Force: true}}}))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err = b.e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: stagingPath, Capability: mountCap, Keys: rightKeys})
		cancel()
		if err == nil {
			break
		}
	}
	require.NoError(t, err, "S42: Promote answered OK (%v), again and again, and the volume cannot be used", answered)
	require.True(t, has(b.replicator.DiskContent(id), "everywhere"))
}
