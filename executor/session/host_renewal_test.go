package session

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// A host whose certificate is replaced goes on with the same controller over another connection: what it was asked
// is answered first, and nobody is told that it had no session.
func TestASessionGoesOnWhenTheCertificateIsReplaced(t *testing.T) {
	l := newTestCluster(t, 2)
	dir := filepath.Join(t.TempDir(), "n1")
	issue := func() pki.Files {
		files, err := pki.Issue(l.ca, dir, pki.Identity{Role: pki.Node, Name: "n1"}, time.Hour)
		require.NoError(t, err)
		return files
	}
	creds, err := pki.Load(issue())
	require.NoError(t, err)
	n := l.newHostWith(creds, "n1", l.members[0].api.addr, l.members[1].api.addr)
	asked, release := make(chan struct{}), make(chan struct{})
	n.setInventory(func() (executor.Inventory, error) {
		close(asked)
		<-release
		return executor.Inventory{Items: []executor.InventoryItem{{Kind: "image", Volume: fsm.VolumeID(volumeID)}}}, nil
	})
	n.run(t)
	eventually(t, "the session is up", n.client.Connected)
	first := l.members[0].server.liveSession("n1")
	answered := make(chan error, 1)
	go func() {
		found, err := first.askInventory(t.Context(), &sessionpb.InventoryRequest{})
		if err == nil && len(found.items) != 1 {
			err = ErrNoSession
		}
		answered <- err
	}()
	<-asked

	renewed := renewedOf(n.client.conns[0])
	issue()
	go creds.Watch(t.Context())
	creds.Recheck()
	<-renewed
	require.Same(t, first, l.members[0].server.liveSession("n1"), "it answers first")
	close(release)
	require.NoError(t, <-answered)
	eventually(t, "another session of the same controller", func() bool {
		now := l.members[0].server.liveSession("n1")
		return now != nil && now != first && n.client.Connected()
	})
	require.NoError(t, n.client.Err())
	require.Zero(t, l.members[1].server.Sessions())
	require.Zero(t, l.members[1].server.arrivals.Load(), "it was never asked")
}
