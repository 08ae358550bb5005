package drbdmodel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// reconnect has both wait for each other, and lets them meet.
func reconnect(p *Pair) {
	p.SetLink(true)
	for i := range 2 {
		p.Attach(i)
		p.Connect(i, false)
	}
	p.Handshake()
}

// inUse is a pair whose first replica is primary and has been written to.
func inUse() Pair {
	p := NewInSync(8)
	p.Promote(0, false)
	p.Write(0)
	return p
}

// requireState compares what a case says of one host.
func requireState(t *testing.T, want, got State) {
	t.Helper()
	require.Equal(t, []any{want.Disk, want.Connection, want.Primary, want.Suspended}, []any{got.Disk, got.Connection, got.Primary, got.Suspended})
}

// Each claim is a row of ../DESIGN.md, which says what the kernel did in guests.
func TestTheModelDoesWhatTheKernelDid(t *testing.T) {
	for claim, tc := range map[string]struct {
		steps func(p *Pair)
		want  [2]State
	}{
		"metadata just created are Inconsistent": {func(p *Pair) {
			for i := range 2 {
				p.PowerOff(i)
				p.Erase(i)
				p.PowerOn(i)
				p.CreateMetadata(i)
			}
			reconnect(p)
		}, [2]State{{Disk: inconsistent, Connection: connected}, {Disk: inconsistent, Connection: connected}}},
		"S8: a forced disconnect keeps a secondary UpToDate and suspends its primary": {func(p *Pair) {
			p.Disconnect(1)
		}, [2]State{{Disk: upToDate, Connection: connecting, Primary: true, Suspended: true}, {Disk: upToDate, Connection: standAlone}}},
		"the handler's exit code 4 resumes I/O": {func(p *Pair) {
			p.Disconnect(1)
			p.Resume(0, true)
		}, [2]State{{Disk: upToDate, Connection: connecting, Primary: true}, {Disk: upToDate, Connection: standAlone}}},
		"a Consistent disk is promoted with exit code 4": {func(p *Pair) {
			p.PowerOff(0)
			p.PowerOff(1)
			p.PowerOn(1)
			p.Attach(1)
			p.Promote(1, true)
		}, [2]State{{Connection: standAlone}, {Disk: upToDate, Connection: standAlone, Primary: true}}},
		"S2: a disk attached after its peer was outdated is UpToDate": {func(p *Pair) {
			p.Disconnect(1)
			p.Resume(0, true)
			p.Demote(0)
			p.Detach(0)
			p.Attach(0)
		}, [2]State{{Disk: upToDate, Connection: connecting}, {Disk: upToDate, Connection: standAlone}}},
		"the same after the peer reconnected is Consistent": {func(p *Pair) {
			p.Disconnect(1)
			p.Resume(0, true)
			reconnect(p)
			p.FinishSync()
			p.Demote(0)
			p.Disconnect(0)
			p.Detach(0)
			p.Attach(0)
		}, [2]State{{Disk: consistent, Connection: standAlone}, {Disk: upToDate, Connection: connecting}}},
		"S5: an outdated replica's disk is Consistent when it is attached again": {func(p *Pair) {
			p.Disconnect(0)
			p.Promote(1, true)
			p.Detach(0)
			p.Resume(0, false)
			p.Demote(0)
			p.Down(0)
			p.Attach(0)
		}, [2]State{{Disk: consistent, Connection: standAlone}, {Disk: upToDate, Connection: connecting, Primary: true}}},
		"an outdated replica connects with discard and is the target": {func(p *Pair) {
			p.Disconnect(0)
			p.Promote(1, true)
			p.Write(1)
			p.Detach(0)
			p.Resume(0, false)
			p.Demote(0)
			p.Down(0)
			p.Attach(0)
			p.Connect(0, true)
			p.Handshake()
		}, [2]State{{Disk: inconsistent, Connection: syncTarget}, {Disk: upToDate, Connection: syncSource, Primary: true}}},
		"a diskless primary that loses its peer suspends nothing that it could not write anyway": {func(p *Pair) {
			p.FailDisk(0)
			p.Disconnect(1)
			p.Resume(0, false)
		}, [2]State{{Disk: diskless, Connection: connecting, Primary: true}, {Disk: upToDate, Connection: standAlone}}},
		"a diskless primary connects only to the content that it showed": {func(p *Pair) {
			p.FailDisk(0)
			p.Write(0)
			p.Disconnect(1)
			p.Resume(0, false)
			p.Detach(1)
			p.RemakeMetadata(1)
			p.Attach(1)
			p.Connect(1, false)
			p.Handshake()
		}, [2]State{{Disk: diskless, Connection: connecting, Primary: true}, {Disk: inconsistent, Connection: connecting}}},
		"new metadata under a connected primary: everything is copied": {func(p *Pair) {
			p.FailDisk(1)
			p.RemakeMetadata(1)
			p.Attach(1)
		}, [2]State{{Disk: upToDate, Connection: syncSource, Primary: true}, {Disk: inconsistent, Connection: syncTarget}}},
		"new metadata under the primary itself, which goes on through its peer": {func(p *Pair) {
			p.FailDisk(0)
			p.RemakeMetadata(0)
			p.Attach(0)
		}, [2]State{{Disk: inconsistent, Connection: syncTarget, Primary: true}, {Disk: upToDate, Connection: syncSource}}},
		"a primary is no target: it stands alone, and its peer goes on waiting": {func(p *Pair) {
			p.Disconnect(0)
			p.Promote(1, true)
			p.Write(1)
			p.Demote(1)
			p.Connect(0, false)
			p.Handshake()
		}, [2]State{{Disk: upToDate, Connection: standAlone, Primary: true, Suspended: true}, {Disk: upToDate, Connection: connecting}}},
		"down of a connected secondary outdates it while its primary goes on": {func(p *Pair) {
			p.Down(1)
			p.Attach(1)
		}, [2]State{{Disk: upToDate, Connection: connecting, Primary: true}, {Disk: outdated, Connection: standAlone}}},
		"down of a primary is refused": {func(p *Pair) {
			p.Down(0)
		}, [2]State{{Disk: upToDate, Connection: connected, Primary: true}, {Disk: upToDate, Connection: connected}}},
		"resume-io while the disk is Failed begins a generation on it": {func(p *Pair) {
			p.Disconnect(0)
			p.BeginDetach(0)
			p.Resume(0, false)
			p.EndDetach(0)
			p.Demote(0)
			p.Promote(1, true)
			reconnect(p)
		}, [2]State{{Disk: consistent, Connection: standAlone}, {Disk: upToDate, Connection: standAlone, Primary: true}}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := inUse()
			tc.steps(&p)
			for i, want := range tc.want {
				requireState(t, want, p.Observe(i))
			}
		})
	}
}

func TestFirstGenerationIsMadeOnceWithoutASynchronisation(t *testing.T) {
	p := New()
	for i := range 2 {
		p.CreateMetadata(i)
		p.Attach(i)
	}
	require.False(t, p.NewGeneration(), "they are not connected")
	require.Equal(t, Refused, p.Promote(0, true))
	reconnect(&p)
	require.True(t, p.NewGeneration())
	require.False(t, p.NewGeneration())
	require.Equal(t, p.Observe(0).Metadata, p.Observe(1).Metadata)
	require.Zero(t, p.Progress(0))
	require.Equal(t, Promoted, p.Promote(0, false))
	require.Equal(t, Refused, p.Promote(1, false), "its peer is primary")
}

func TestAPromotionWithoutThePeerAsksTheHandler(t *testing.T) {
	p := NewInSync(8)
	p.SetLink(false)
	require.Equal(t, AsksHandler, p.Promote(0, false))
	require.False(t, p.Observe(0).Primary)
	require.Equal(t, Promoted, p.Promote(0, true))
	require.Equal(t, outdated, p.Observe(0).PeerDisk)
	require.NotEqual(t, p.Observe(0).Metadata.Current, p.Observe(1).Metadata.Current)
}

// A write that is never acknowledged, and two that went on: nobody chooses between them.
func TestTwoThatWentOnSeparatelyAreASplitBrain(t *testing.T) {
	p := inUse()
	p.SetLink(false)
	p.Resume(0, false)
	p.Write(0)
	p.Promote(1, true)
	require.Contains(t, p.Violation(), "became primary without")
	p.Demote(0)
	reconnect(&p)
	require.Equal(t, 1, p.SplitBrains())
	require.True(t, p.Observe(0).StandAlone && p.Observe(1).StandAlone)
	p.Connect(0, true)
	p.Connect(1, false)
	p.Handshake()
	p.FinishSync()
	require.Equal(t, p.Content(1), p.Content(0))
}

// DESIGN.md: what a target wrote and had not yet on stable storage is in neither bitmap.
func TestAnInterruptedTargetLosesWhatNoBitmapNames(t *testing.T) {
	for _, invalidated := range []bool{false, true} {
		p := inUse()
		p.Disconnect(1)
		p.Resume(0, true)
		p.Write(0)
		p.Write(0)
		p.Connect(1, false)
		p.Handshake()
		p.Sync(1)
		require.Equal(t, 1, p.Progress(1))
		p.PowerOff(1)
		p.PowerOn(1)
		p.Attach(1)
		require.Equal(t, inconsistent, p.Observe(1).Disk)
		if invalidated {
			p.Invalidate(1)
		}
		p.Connect(1, false)
		p.Resume(0, true)
		p.Handshake()
		p.FinishSync()
		require.Equal(t, upToDate, p.Observe(1).Disk)
		require.Equal(t, invalidated, p.Content(0) == p.Content(1))
	}
}

// S67: a disk that lost a block is served again unless its metadata are made anew.
func TestADiskThatLostABlockIsCopiedOnlyWithNewMetadata(t *testing.T) {
	for _, anew := range []bool{false, true} {
		p := inUse()
		require.True(t, p.LoseBlock(1))
		p.FailDisk(1)
		if anew {
			p.RemakeMetadata(1)
		}
		p.Attach(1)
		p.FinishSync()
		require.Equal(t, upToDate, p.Observe(1).Disk)
		require.Equal(t, anew, p.Observe(1).HasAll)
	}
}

func TestVerifyMarksWhatDiffersAndInvalidateCopiesIt(t *testing.T) {
	p := inUse()
	require.Zero(t, p.Verify())
	p.LoseBlock(1)
	require.Equal(t, 1, p.Verify())
	p.Invalidate(1)
	require.Equal(t, syncTarget, p.Observe(1).Connection)
	p.FinishSync()
	require.Zero(t, p.Verify())
}

func TestWithProtocolAALossSuspendsNothing(t *testing.T) {
	p := inUse()
	p.SetAsynchronous(true)
	before := p.Observe(0).Metadata.Current
	p.SetLink(false)
	require.False(t, p.Observe(0).Suspended)
	_, acknowledged := p.Write(0)
	require.True(t, acknowledged)
	require.NotEqual(t, before, p.Observe(0).Metadata.Current, "what it writes alone is a generation of its own")
	require.Empty(t, p.Violation())
}
