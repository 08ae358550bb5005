package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor"
)

func TestInventoryIsAskedThroughWhicheverMemberHasTheSession(t *testing.T) {
	l := newTestCluster(t, 3)
	members := l.newMembers()
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	want := []executor.InventoryItem{{Kind: "image", Volume: volumeID, Path: "/pool/volumes/x.img"}, {Kind: "loop", Path: "/dev/loop7"}}
	n.setInventory(func() ([]executor.InventoryItem, error) { return want, nil })
	for i, m := range members {
		for range 2 {
			got, err := m.Inventory(t.Context(), "n1")
			require.NoError(t, err)
			require.Equal(t, want, got, "asked at member %d", i)
		}
	}
	t.Run("a long one comes in parts", func(t *testing.T) {
		want = make([]executor.InventoryItem, 2*maxPerMessage+1)
		got, err := members[0].Inventory(t.Context(), "n1")
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("nothing is an answer", func(t *testing.T) {
		want = nil
		got, err := members[0].Inventory(t.Context(), "n1")
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("a host that cannot look says why", func(t *testing.T) {
		n.setInventory(func() ([]executor.InventoryItem, error) { return nil, context.DeadlineExceeded })
		for _, m := range members {
			_, err := m.Inventory(t.Context(), "n1")
			require.ErrorContains(t, err, "n1 could not say what it holds: context deadline exceeded")
		}
	})
	t.Run("a host without a session is not known", func(t *testing.T) {
		_, err := members[0].Inventory(t.Context(), "n9")
		require.ErrorIs(t, err, ErrNoSession)
	})
	t.Run("a host that says nothing is waited for until the deadline", func(t *testing.T) {
		block := make(chan struct{})
		defer close(block)
		n.setInventory(func() ([]executor.InventoryItem, error) { <-block; return nil, nil })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := members[1].Inventory(ctx, "n1")
		require.Equal(t, codes.Unavailable, status.Code(err), err)
	})
}
