package agent_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// leftBehind is a volume whose primary at site A wrote without site B; then A's host loses its power, or is only isolated.
func leftBehind(p *pair, isolate func(a *member)) fsm.VolumeID {
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "everywhere")
	p.link.SetDisconnected(true)
	a.write(id, "at A only")
	p.eventually("B is outdated", func() bool { return p.volume(id).ActiveReplica(b.host()).Outdated })
	isolate(a)
	b.promoteByForce(id)
	b.primaryAt(id)
	b.write(id, "at B only")
	return id
}

// isApart waits until the log knows that nothing of the replica is in its host's kernel, and gives the host something else
// to do: all the while nothing happens to the replica.
func (m *member) isApart(id fsm.VolumeID) {
	m.t.Helper()
	m.eventually("it is torn down", func() bool {
		l := m.volume(id).ActiveReplica(m.host())
		return l.Observed.Unconfigured && l.Observed.Boot != "" && m.volume(id).Teardown(m.host()) == nil
	})
	attached := m.replicator.Steps("attach")
	m.createBetweenSites()
	require.Equal(m.t, attached+1, m.replicator.Steps("attach"), "of the other volume only")
	require.True(m.t, has(m.replicator.DiskContent(id), "at A only"))
	require.False(m.t, has(m.replicator.DiskContent(id), "at B only"))
	require.Zero(m.t, m.pool.Snapshots(), "nothing is kept before somebody decides")
}

// S48: what was given up by force stays as it is, through restarts, until a resynchronisation is forced through its site;
// then it is kept, and discarded.
func TestS48_WhatWasGivenUpStaysApart(t *testing.T) {
	for name, isolate := range map[string]func(*member){
		"after its host lost its power": func(a *member) { a.crash() },
		"after it was torn down":        func(a *member) { a.disconnect() },
	} {
		for kept, unkept := range map[string]bool{"and kept": false, "and not kept": true} {
			t.Run(name+" "+kept, func(t *testing.T) {
				p := newSites(t)
				a, b := p.hosts[0], p.hosts[1]
				id := leftBehind(p, isolate)
				p.link.SetDisconnected(false)
				for range 2 {
					if a.e == nil {
						a.start(nil)
					} else {
						a.connect()
					}
					a.isApart(id)
					a.stop()
					a.mu.Lock()
					a.e = nil
					a.mu.Unlock()
				}
				a.start(nil)
				a.resync(id, unkept)
				p.waitUpToDate(id)
				require.True(t, has(a.replicator.DiskContent(id), "at B only"))
				require.False(t, has(a.replicator.DiskContent(id), "at A only"))
				want := 1
				if unkept {
					want = 0
				}
				require.Equal(t, want, a.pool.Snapshots())
				p.eventually("what the other one kept before it was promoted is gone", func() bool { return len(p.keptCopies()) == want })
				require.Zero(t, p.link.SplitBrains())
				b.write(id, "goes on")
			})
		}
	}
}

// S48: a secondary that is up when it is given up is disconnected, and stays attached and whole; what it has is kept before
// it is discarded, although it never wrote.
func TestS48_ASecondaryThatWasGivenUpIsDisconnected(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "everywhere")
	p.link.SetDisconnected(true)
	a.write(id, "at A only")
	p.stopUsing(id, a)
	a.disconnect()
	b.promoteByForce(id)
	b.primaryAt(id)
	b.write(id, "at B only")
	p.link.SetDisconnected(false)
	downs, attached := a.replicator.Steps("down"), a.replicator.Steps("attach")
	a.connect()
	p.createBetweenSites()
	require.Equal(t, []int{downs, attached + 1}, []int{a.replicator.Steps("down"), a.replicator.Steps("attach")})
	require.True(t, has(a.replicator.DiskContent(id), "at A only"))
	a.resync(id, false)
	p.waitUpToDate(id)
	require.Equal(t, 1, a.pool.Snapshots())
	require.Zero(t, p.link.SplitBrains())
}

// halfSynchronised is a volume of which B has a part of what A has, when A's host loses its power: B was outdated, and is
// the target of a synchronisation.
func halfSynchronised(p *pair) fsm.VolumeID {
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "everywhere")
	p.link.SetDisconnected(true)
	a.write(id, "first at A only")
	a.write(id, "second at A only")
	p.eventually("B is outdated, and both are disconnected or what it has is kept", func() bool {
		own, peer := p.volume(id).ActiveReplica(b.host()), p.volume(id).ActiveReplica(a.host())
		alone := fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
		return own.Outdated && (!own.KeepDue || own.Observed.Connection == alone && peer.Observed.Connection == alone)
	})
	p.link.SetSyncTime(1 << 40)
	p.link.SetDisconnected(false)
	p.eventually("B is being synchronised", func() bool {
		return p.volume(id).ActiveReplica(b.host()).Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
	})
	a.crash()
	p.link.SetSyncTime(1 << 20)
	return id
}

// S50: what a whole secondary has is kept before it is overwritten, once, and goes when both are up to date.
func TestS50_AWholeSecondaryIsKeptBeforeItIsOverwritten(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := halfSynchronised(p)
	kept := p.keptCopies()
	require.Len(t, kept, 1)
	require.True(t, kept[0].KeptCopy.BeforeSync)
	require.Equal(t, fsm.SnapshotReady, kept[0].Phase)
	require.Equal(t, 1, b.pool.Snapshots())
	a.start(nil)
	p.waitUpToDate(id)
	p.eventually("it goes", func() bool { return len(p.keptCopies()) == 0 && b.pool.Snapshots() == 0 })
	require.True(t, has(b.replicator.DiskContent(id), "second at A only"))
}

// S50: killed at each step of that, the replica does not connect before what it has is kept, and there is one copy.
func TestS50_ACrashWhileKeepingBeforeASynchronisation(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"keep-before-sync.before", "keep-before-sync.asked", "keep-before-sync.cut", "keep-before-sync.reported", "keep-before-sync.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newStoppedSites(t)
			p.hosts[0].start(nil)
			p.hosts[1].start(stopAt(point, 0))
			id := halfSynchronised(p)
			_ = id
			require.Len(t, p.keptCopies(), 1)
			require.Equal(t, 1, p.hosts[1].pool.Snapshots())
			p.hosts[0].start(nil)
			p.waitUpToDate(id)
		})
	}
}

// S50: where the pool would copy, or the snapshot fails, the replica is synchronised without, and its condition said so.
func TestS50_WhatCannotBeKeptAtOnceIsSynchronised(t *testing.T) {
	for name, spoil := range map[string]func(*member){
		"its pool copies": func(b *member) { b.pool.SetFullCopies(true) },
		"it fails": func(b *member) {
			b.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
				if effect == "cut" {
					return errNoCut
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSites(t)
			spoil(p.hosts[1])
			id := halfSynchronised(p)
			l := p.volume(id).ActiveReplica(p.hosts[1].host())
			require.Contains(t, l.NotKeptReason, "it is synchronised without a copy of what it had")
			require.Zero(t, p.hosts[1].pool.Snapshots())
			p.hosts[0].start(nil)
			p.waitUpToDate(id)
		})
	}
}

// S43: a replica with a part of the content goes back to what was kept of it, and is primary with that. Its former primary
// is copied wholly, whatever its bitmap says.
func TestS43_AHalfSynchronisedReplicaGoesBackToWhatWasKept(t *testing.T) {
	p := newSites(t)
	revertAndReturn(p)
}

func revertAndReturn(p *pair) {
	a, b := p.hosts[0], p.hosts[1]
	id := halfSynchronised(p)
	remade := a.replicator.Steps("remake-metadata")
	b.promoteByForce(id)
	b.primaryAt(id)
	p.eventually("the revert is over", func() bool { return p.volume(id).Replication.Revert == nil })
	require.Equal(p.t, []string{"everywhere"}, b.replicator.DiskContent(id))
	b.write(id, "at B only")
	a.start(nil)
	a.isApartWith(id, "second at A only")
	a.resync(id, false)
	p.waitUpToDate(id)
	require.Equal(p.t, []string{"everywhere", "at B only"}, a.replicator.DiskContent(id))
	require.Greater(p.t, a.replicator.Steps("remake-metadata"), remade, "all of it is copied")
	require.Zero(p.t, p.link.SplitBrains())
}

func (m *member) isApartWith(id fsm.VolumeID, text string) {
	m.t.Helper()
	m.eventually("it is apart", func() bool {
		l := m.volume(id).ActiveReplica(m.host())
		return l.Observed.Unconfigured && l.Observed.Boot != ""
	})
	require.True(m.t, has(m.replicator.DiskContent(id), text))
}

// S43: killed, or with its host's power lost, between any two steps: the metadata of the copy's time are never attached.
func TestS43_ACrashAtEveryPointOfARevert(t *testing.T) {
	t.Parallel()
	points := []string{"revert-below.recorded", "revert-below.reverted", "remake-reverted.made"}
	for _, step := range []string{"revert-below", "remake-reverted", "close-below", "disconnect", "down"} {
		points = append(points, step+".before", step+".after")
	}
	for _, point := range points {
		require.Contains(t, slices.Concat(agent.ReplicaFaultPoints, agent.SiteFaultPoints), point)
		for name, reboots := range map[string]bool{"process": false, "power": true} {
			t.Run(point+" "+name, func(t *testing.T) {
				t.Parallel()
				p := newStoppedSites(t)
				b := p.hosts[1]
				b.rebootOnStop = reboots
				p.hosts[0].start(nil)
				b.start(stopAt(point, 0))
				revertAndReturn(p)
				require.LessOrEqual(t, 1, b.pool.Effects("revert", p.onlyVolume()))
			})
		}
	}
}

// onlyVolume is the one that there is.
func (p *pair) onlyVolume() (id fsm.VolumeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for v := range p.state.Volumes("") {
		id = v.ID
	}
	return id
}
