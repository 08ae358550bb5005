package drbdmodel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A replica that gets another peer keeps what it is, and its new peer is copied from it completely.
func TestAReplicaThatMovesToANewPeerIsItsSource(t *testing.T) {
	p := inUse()
	p.SetLink(false)
	p.Resume(0, true)
	_, acknowledged := p.Write(0)
	require.True(t, acknowledged)
	p.Disconnect(0)
	moved := New()
	moved.Move(0, &p, 0)
	require.False(t, p.Observe(0).InKernel, "nothing of it is left in the old place")
	require.False(t, p.Observe(1).HasAll, "what is acknowledged elsewhere counts here")
	require.Equal(t, p.Writes(), moved.Writes())
	moved.CreateMetadata(1)
	moved.Attach(1)
	reconnect(&moved)
	require.Equal(t, syncTarget, moved.Observe(1).Connection)
	moved.FinishSync()
	require.Equal(t, moved.Content(0), moved.Content(1))
	require.True(t, moved.Observe(1).HasAll)
	require.Empty(t, moved.Violation())
}

func TestNumbersAndGenerationsStayUniqueOverTwoPeers(t *testing.T) {
	p := inUse()
	other := New()
	other.Continue(&p)
	first, _ := p.Write(0)
	other.Continue(&p)
	require.Equal(t, p.writes, other.writes)
	require.Greater(t, other.nextUUID(), p.Observe(0).Metadata.Current)
	require.True(t, other.Acknowledged(first))
}

func TestContentOfBeforeTheFirstGenerationIsCopiedLikeAnyWrite(t *testing.T) {
	p := New()
	for i := range 2 {
		p.CreateMetadata(i)
		p.Attach(i)
	}
	reconnect(&p)
	require.True(t, p.NewGeneration())
	n, adopted := p.AdoptContent(0, 1)
	require.True(t, adopted)
	p.FailDisk(1)
	p.Erase(1)
	require.False(t, p.Observe(1).HasAll)
	p.CreateMetadata(1)
	p.Attach(1)
	p.FinishSync()
	content := p.Content(1)
	require.True(t, content.Has(n))
}

// A write on its way is on the disks that it reached, and no bitmap forgets it.
func TestAWriteOnItsWayIsOnTheDisksThatItReached(t *testing.T) {
	for _, peer := range []bool{false, true} {
		p := inUse()
		n, begun := p.Begin(0, false, false)
		require.True(t, begun)
		p.Reach(0, peer)
		own, other := p.Content(0), p.Content(1)
		require.Equal(t, [2]bool{!peer, peer}, [2]bool{own.Has(n), other.Has(n)})
		inFlight := p.InFlight(0)
		require.True(t, inFlight.Has(n))
		require.False(t, p.Acknowledged(n))
		p.Complete(0)
		require.True(t, p.Acknowledged(n))
		require.Equal(t, p.Content(0), p.Content(1))
	}
}
