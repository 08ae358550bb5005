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
	want := executor.Inventory{Items: []executor.InventoryItem{
		{Kind: "image", Volume: volumeID, Path: "/pool/volumes/x.img", HeaderRead: true}, {Kind: "loop", Path: "/dev/loop7"},
		{Kind: "mapping", Volume: volumeID, Path: "/dev/mapper/x", HeaderRead: true, HeaderUUID: "luks", WrongDevice: "/dev/loop9"},
	}, Encryption: true}
	n.setInventory(func() (executor.Inventory, error) { return want, nil })
	for i, m := range members {
		for range 2 {
			got, err := m.Inventory(t.Context(), "n1")
			require.NoError(t, err)
			require.Equal(t, want, got, "asked at member %d", i)
		}
	}
	t.Run("a long one comes in parts", func(t *testing.T) {
		want.Items = make([]executor.InventoryItem, 2*maxPerMessage+1)
		got, err := members[0].Inventory(t.Context(), "n1")
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("nothing is an answer", func(t *testing.T) {
		want.Items = nil
		for _, m := range members {
			got, err := m.Inventory(t.Context(), "n1")
			require.NoError(t, err)
			require.Empty(t, got.Items)
			require.True(t, got.Encryption)
		}
	})
	t.Run("of a host that does not list mappings they are not known", func(t *testing.T) {
		want = executor.Inventory{Items: []executor.InventoryItem{{Kind: "loop", Path: "/dev/loop7"}}}
		for _, m := range members {
			got, err := m.Inventory(t.Context(), "n1")
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
	t.Run("a host that cannot look says why", func(t *testing.T) {
		n.setInventory(func() (executor.Inventory, error) { return executor.Inventory{}, context.DeadlineExceeded })
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
		n.setInventory(func() (executor.Inventory, error) { <-block; return executor.Inventory{}, nil })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := members[1].Inventory(ctx, "n1")
		require.Equal(t, codes.Unavailable, status.Code(err), err)
	})
}
