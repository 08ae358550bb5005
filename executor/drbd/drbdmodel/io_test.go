package drbdmodel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The activity log names the writes that a crashed primary's disks may differ in.
func TestAWriteInFlightAtACrashIsOnBothDisksOrOnNone(t *testing.T) {
	for name, reached := range map[string][2]bool{"its own disk": {true, false}, "its peer's disk": {false, true}, "both": {true, true}, "none": {}} {
		for _, takenOver := range []bool{false, true} {
			p := inUse()
			_, begun := p.Begin(0, reached[0], reached[1])
			require.True(t, begun)
			p.PowerOff(0)
			p.PowerOn(0)
			if takenOver {
				p.Promote(1, true)
				p.Write(1)
			}
			reconnect(&p)
			p.FinishSync()
			require.Equal(t, upToDate, p.Observe(0).Disk, name)
			require.Equal(t, p.Content(0), p.Content(1), name)
			require.Empty(t, p.Violation(), name)
		}
	}
}

// A suspended write ends when the primary goes on or meets its peer, and is named as what that lacks.
func TestASuspendedWriteEndsWithTheFreeze(t *testing.T) {
	for name, end := range map[string]func(p *Pair){
		"the peer is outdated": func(p *Pair) { p.Resume(0, true) },
		"the peer is back":     reconnect,
	} {
		p := inUse()
		p.Begin(0, true, false)
		p.SetLink(false)
		p.Complete(0)
		require.Equal(t, 1, p.Writes(), name)
		end(&p)
		require.Equal(t, 2, p.Writes(), name)
		reconnect(&p)
		p.FinishSync()
		require.Equal(t, p.Content(0), p.Content(1), name)
		require.True(t, p.Observe(1).HasAll, name)
	}
}

// S9: without a disk it ends in an error.
func TestASuspendedWriteWithoutADiskFails(t *testing.T) {
	p := inUse()
	p.Begin(0, true, false)
	p.SetLink(false)
	p.Detach(0)
	p.Resume(0, false)
	require.Equal(t, 1, p.Writes())
	require.True(t, p.Demote(0))
}

// The end of a synchronisation is on stable storage: what a power loss takes later is nothing of it.
func TestATargetThatWasSynchronisedKeepsItWithoutPower(t *testing.T) {
	p := inUse()
	p.Disconnect(1)
	p.Resume(0, true)
	p.Write(0)
	p.Connect(1, false)
	p.Handshake()
	p.FinishSync()
	p.PowerOff(1)
	require.True(t, p.Observe(1).HasAll)
}

// The captured flags of the peer of a primary without a disk call it primary as well.
func TestThePeerOfAPrimaryWithoutADiskCrashesAsAPrimary(t *testing.T) {
	p := inUse()
	p.PowerOff(1)
	require.False(t, p.Observe(1).Metadata.Crashed)
	p.PowerOn(1)
	p.Resume(0, true)
	reconnect(&p)
	p.FinishSync()
	p.FailDisk(0)
	p.PowerOff(1)
	require.True(t, p.Observe(1).Metadata.Crashed)
}

// Of two that crashed as primaries in one generation the first is the source.
func TestTwoCrashedPrimariesOfOneGenerationAreMadeEqual(t *testing.T) {
	p := inUse()
	p.Begin(0, true, false)
	p.PowerOff(0)
	p.PowerOff(1)
	p.replicas[1].metadata.Crashed = true
	p.PowerOn(0)
	p.PowerOn(1)
	reconnect(&p)
	require.Equal(t, syncTarget, p.Observe(1).Connection)
	p.FinishSync()
	require.Equal(t, p.Content(0), p.Content(1))
}

// S45: suspend-io holds back what is written whatever becomes of the peer, until resume-io.
func TestS45_AFrozenPrimaryAcknowledgesNothing(t *testing.T) {
	p := NewInSync(7)
	require.Equal(t, Promoted, p.Promote(0, false))
	for range 2 {
		p.Freeze(0)
		require.True(t, p.Observe(0).Frozen && p.Observe(0).Suspended)
		_, acknowledged := p.Write(0)
		require.False(t, acknowledged)
		require.False(t, p.Demote(0), "its device is busy")
	}
	p.Disconnect(0)
	p.Resume(0, true)
	require.True(t, p.Observe(0).Frozen, "the handler's answer ends only its own suspension")
	p.Resume(0, false)
	require.False(t, p.Observe(0).Suspended)
	_, acknowledged := p.Write(0)
	require.True(t, acknowledged)
	require.Empty(t, p.Violation())
}
