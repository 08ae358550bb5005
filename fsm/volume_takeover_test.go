package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S8: a publication is done when the host said that its replica is primary under it.
func TestVolumePublication(t *testing.T) {
	published := func(w *world) { w.ok(controller, publish(1, "n1")) }
	for name, tc := range map[string]struct {
		given    func(*world)
		epoch    func(*Epoch)
		id       string
		done     bool
		waitsFor string
		want     Reason
		says     string
	}{
		"primary":        {given: func(w *world) { w.primary(1, "n1", 7) }, done: true},
		"not primary":    {given: published, waitsFor: "its host has not said so yet"},
		"not replicated": {given: published, id: volumeID(2), done: true},
		"unknown":        {given: published, id: volumeID(9), want: NotFound, says: `volume "` + volumeID(9) + `" is not known`},
		"another epoch":  {given: published, epoch: func(e *Epoch) { e.Index++ }, want: Busy, says: "publish volume " + volumeID(1) + ": its publication to node n1 was ended meanwhile; retry"},
		"unreachable": {given: func(w *world) { published(w); w.setUnreachable("n1", true) },
			want: Unreachable, says: "publish volume " + volumeID(1) + ": node n1 cannot be reached now"},
		"primary and unreachable": {given: func(w *world) { w.primary(1, "n1", 7); w.setUnreachable("n1", true) }, done: true},
		"its replica is not up to date": {given: func(w *world) {
			published(w)
			w.setUnreachable("n2", true)
			w.reboot("n1")
		}, waitsFor: "the replica on node n1 is not attached"},
		"it waits for a peer that is away": {given: func(w *world) {
			published(w)
			w.setUnreachable("n2", true)
			w.reboot("n1")
			w.attach(1, "n1", 2)
			w.reportCurrent(1, "n1", ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 9})
		}, waitsFor: "the disk of the replica on node n1 is consistent; node n2, whose replica it waits for, cannot be reached: if that is gone for good, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"it has a part of the content only, and waits for a peer that is away": {given: func(w *world) {
			published(w)
			w.setUnreachable("n2", true)
			w.reboot("n1")
			w.attach(1, "n1", 2)
			w.reportCurrent(1, "n1", ReplicaObservation{Disk: inconsistent, Connection: connecting, UUID: 7})
		}, waitsFor: "the disk of the replica on node n1 is inconsistent"},
		"it is the only one that is left": {given: onlyConsistent,
			waitsFor: "the disk of the replica on node n1 is consistent; no other replica is left: if what it has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"that was decided": {given: func(w *world) {
			onlyConsistent(w)
			w.twice(admin, forcePrimary("n1", false))
			require.True(w.t, w.ok("node/n1", w.setPrimary(1, "n1", ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 9})).GetForce())
		}, waitsFor: "1 of 2 replicas are left"},
		"its disk was given up, and its peer is outdated": {given: func(w *world) {
			published(w)
			w.changeVolume(func(v *Volume) {
				*v = v.withReplication()
				own, peer := v.ActiveReplica("host-n1"), v.ActiveReplica("host-n2")
				own.DiskFailed, own.UpToDate, own.Observed = 1, false, ReplicaObservation{}
				peer.markOutdated(nil)
			})
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel; its disk was given up, and the replica on node n2 is outdated: if what it has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"both disks were given up": {given: func(w *world) {
			published(w)
			w.changeVolume(func(v *Volume) {
				*v = v.withReplication()
				for _, l := range v.ActiveReplicas() {
					l.DiskFailed, l.UpToDate, l.Observed = 1, false, ReplicaObservation{}
				}
			})
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel; its disk was given up, and that of the replica on node n2 too: if what it has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"both disks were given up, and the other one is blank": {given: func(w *world) {
			published(w)
			w.connectedInVain(ReplicaSync{DiskFailed: 1, Observed: ReplicaObservation{Disk: diskless}}, ReplicaSync{DiskFailed: 1, Attachment: 2, Observed: ReplicaObservation{Disk: inconsistent}})
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel; its disk was given up, and that of the replica on node n2 too: if what it has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"it is blank, and both disks were given up": {given: func(w *world) {
			published(w)
			w.connectedInVain(ReplicaSync{DiskFailed: 1, Attachment: 2, Observed: ReplicaObservation{Disk: inconsistent}}, ReplicaSync{DiskFailed: 1, Observed: ReplicaObservation{Disk: diskless}})
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel; its disk has a part of the content only, and that of the replica on node n2, which it waits for, was given up: if what that one has is enough, `holdfast volumes force-primary " + volumeID(1) + " n2` lets this one be copied from it"},
		"its disk was given up, and its peer is consistent": {given: func(w *world) {
			published(w)
			w.connectedInVain(ReplicaSync{DiskFailed: 1, Observed: ReplicaObservation{Disk: diskless}}, ReplicaSync{Observed: ReplicaObservation{Disk: consistent}})
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel: all of it is copied again; its disk was given up, and it is not known whether the replica on node n2 has every write: if what both have is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"it is consistent, and its peer's disk was given up": {given: func(w *world) {
			published(w)
			w.connectedInVain(ReplicaSync{Observed: ReplicaObservation{Disk: consistent}}, ReplicaSync{DiskFailed: 1, Observed: ReplicaObservation{Disk: diskless}})
		}, waitsFor: "the disk of the replica on node n1 is consistent; the disk of the replica on node n2, which it waits for, was given up: if what this one has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"its disk was given up, and its peer's kernel calls its disk up to date": {given: func(w *world) {
			published(w)
			w.connectedInVain(ReplicaSync{DiskFailed: 1, Observed: ReplicaObservation{Disk: diskless}}, ReplicaSync{Observed: ReplicaObservation{Disk: upToDate}})
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel: all of it is copied again"},
		"its disk was given up in an earlier boot, and its peer's kernel cannot tell": {given: func(w *world) {
			published(w)
			w.apartInVain("n1", "n2")
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel: all of it is copied again; its disk was given up, and it is not known whether the replica on node n2 has every write: if what both have is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"its kernel cannot tell, and its peer's disk was given up in an earlier boot": {given: func(w *world) {
			published(w)
			w.apartInVain("n2", "n1")
		}, waitsFor: "the disk of the replica on node n1 is consistent; the disk of the replica on node n2, which it waits for, was given up: if what this one has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"its disk was given up, and its peer is away": {given: func(w *world) {
			published(w)
			w.apartInVain("n1", "n2")
			w.setUnreachable("n2", true)
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel: all of it is copied again; node n2, whose replica it waits for, cannot be reached: if that is gone for good, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"its kernel cannot tell, and its peer was chosen": {given: func(w *world) {
			w.ok(admin, forcePrimary("n2", false))
			published(w)
			w.setUnreachable("n2", true)
			w.reboot("n1")
			w.attach(1, "n1", 2)
			w.reportCurrent(1, "n1", ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 9})
			w.setUnreachable("n2", false)
		}, waitsFor: "the disk of the replica on node n1 is consistent; an operator chose the replica on node n2 to go on: publish the volume there, or if what this one has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"its disk was given up, and it is the only one": {given: func(w *world) {
			onlyConsistent(w)
			w.changeVolume(func(v *Volume) {
				*v = v.withReplication()
				own := v.ActiveReplica("host-n1")
				own.DiskFailed, own.Observed = own.Attachment, ReplicaObservation{}
			})
		}, waitsFor: "the disk of the replica on node n1 was given up by its kernel; its disk was given up, and no other replica is left: if what it has is enough, `holdfast volumes force-primary " + volumeID(1) + " n1` lets it go on with what it has"},
		"it has every write": {given: func(w *world) {
			published(w)
			w.setUnreachable("n2", true)
			w.reboot("n1")
			w.attach(1, "n1", 2)
			w.reportCurrent(1, "n1", ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
		}, waitsFor: "the disk of the replica on node n1 is consistent"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.ready(2, create(2))
			tc.given(w)
			epoch := w.volume(1).Publication("n1").Epoch
			if tc.epoch != nil {
				tc.epoch(&epoch)
			}
			id := VolumeID(volumeID(1))
			if tc.id != "" {
				id = VolumeID(tc.id)
			}
			done, waitsFor, rej := w.s.VolumePublication(id, "n1", epoch)
			require.Equal(t, tc.done, done)
			require.Equal(t, tc.waitsFor, waitsFor)
			requireRejected(t, tc.want, tc.says, rej)
		})
	}
}

// apartInVain: the disk of one replica failed in an earlier boot of its host and is not attached, and the kernel of the other
// does not know whether it is up to date.
func (w *world) apartInVain(failed, consistent string) {
	w.changeVolume(func(v *Volume) {
		*v = v.withReplication()
		own, peer := v.ActiveReplica(HostID("host-"+failed)), v.ActiveReplica(HostID("host-"+consistent))
		own.DiskFailed, own.UpToDate, own.Observed = own.Attachment, false, ReplicaObservation{Unconfigured: true}
		peer.UpToDate, peer.Observed.Disk, peer.Observed.Connection = false, fsmpb.DiskState_DISK_STATE_CONSISTENT, connecting
		peer.InSyncUUID = RecordedUUID{}
	})
}

// S8: a volume may be published to a host whose disk has a part of the content only: the decision for the other replica, whose
// disk failed, is taken all the same, as that host is granted nothing before it was copied.
func TestS8_TheSourceOfABlankReplicaIsForcedWhileItIsPublished(t *testing.T) {
	for disk, want := range map[fsmpb.DiskState]Reason{fsmpb.DiskState_DISK_STATE_INCONSISTENT: 0, consistent: Precondition} {
		w := newReplicated(t, protocolC)
		w.ok(controller, publish(1, "n1"))
		w.connectedInVain(ReplicaSync{DiskFailed: 1, Attachment: 2, Observed: ReplicaObservation{Disk: disk}}, ReplicaSync{DiskFailed: 1, Observed: ReplicaObservation{Disk: diskless}})
		if want != 0 {
			w.rejected(want, admin, forcePrimary("n2", false))
			continue
		}
		w.ok(admin, forcePrimary("n2", false))
		require.Equal(t, HostID("host-n2"), w.volume(1).Replication.Forced.Host)
	}
}

// S8: so is a decision for the other one after a decision for the one that has lost its content since.
func TestS8_AReplicaThatWasForcedAndLostItsContentIsNotWaitedFor(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok(admin, forcePrimary("n1", false))
	w.ok(controller, publish(1, "n1"))
	w.connectedInVain(ReplicaSync{DiskFailed: 1, Observed: ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_INCONSISTENT}}, ReplicaSync{Observed: ReplicaObservation{Disk: consistent}})
	w.changeVolume(func(v *Volume) {
		*v = v.withReplication()
		for _, l := range v.ActiveReplicas() {
			l.Observed.Connection = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
		}
	})
	_, waitsFor, rej := w.s.VolumePublication(VolumeID(volumeID(1)), "n1", w.volume(1).Publication("n1").Epoch)
	require.Nil(t, rej)
	require.Contains(t, waitsFor, "an operator chose it to go on instead of the replica on node n2: if what that one has is enough, `holdfast volumes force-primary "+volumeID(1)+" n2`")
	w.ok(admin, forcePrimary("n2", false))
	require.Equal(t, HostID("host-n2"), w.volume(1).Replication.Forced.Host)
}

// onlyConsistent is published to a host that lost its power right after its peer's replica was removed.
func onlyConsistent(w *world) {
	w.primary(1, "n1", 7)
	w.ok(admin, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: "n2", HostId: "host-n2"})
	w.reboot("n1")
	w.attach(1, "n1", 2)
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 9})
	w.unstaged(1, "n1", w.volume(1).Publication("n1").Epoch)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.ok(controller, publish(1, "n1"))
}

// S8: only a former primary that cannot be reached is waited for.
func TestVolumeIsolation(t *testing.T) {
	for name, tc := range map[string]struct {
		given    func(*world)
		node     NodeID
		done     bool
		waitsFor string
	}{
		"the peer is connected": {given: func(*world) {}, waitsFor: "node n1 has not ended its use of it"},
		"a step of the teardown failed": {given: func(w *world) {
			w.changeVolume(func(v *Volume) { v.putOperation(&Operation{Kind: OpTeardown, State: OpRunning, LastError: "busy"}) })
		}, waitsFor: "busy"},
		"the peer is disconnected":  {given: func(w *world) { w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone)) }, done: true},
		"of another node":           {given: func(*world) {}, node: "n2", done: true},
		"of this node":              {given: func(*world) {}, node: "n1", waitsFor: "node n1 has not ended its use of it"},
		"a host that can be asked":  {given: func(w *world) { w.setUnreachable("n1", false) }, done: true},
		"a volume that was deleted": {given: func(w *world) { w.changeVolume(func(v *Volume) { v.Phase = Deleting{} }) }, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			publicationRevoked1(w)
			w.reportCurrent(1, "n2", inSyncObservation(7))
			tc.given(w)
			done, waitsFor := w.s.VolumeIsolation(VolumeID(volumeID(1)), tc.node)
			require.Equal(t, tc.done, done)
			require.Equal(t, tc.waitsFor, waitsFor)
		})
	}
	w := newWorld(t)
	w.ready(1, create(1))
	for _, id := range []string{volumeID(1), volumeID(9)} {
		done, _ := w.s.VolumeIsolation(VolumeID(id), "")
		require.True(t, done, "no other host has its data")
	}
}

// S31: what an unpublish call waits for, and what it does not.
func TestUnpublishProgress(t *testing.T) {
	type progress struct{ held, unstaging, ending, tearingDown bool }
	publication := func(change func(*Publication)) func(*world) {
		return func(w *world) {
			p := *w.volume(1).Publication("n1")
			change(&p)
			w.changeVolume(func(v *Volume) { *v = v.withPublication(p) })
		}
	}
	revoked := func(w *world) { w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)}) }
	for name, tc := range map[string]struct {
		given func(*world)
		node  NodeID
		want  progress
	}{
		"staged":                    {given: func(*world) {}, want: progress{held: true, unstaging: true, ending: true}},
		"on another node":           {given: func(*world) {}, node: "n2"},
		"on this node":              {given: func(*world) {}, node: "n1", want: progress{held: true, unstaging: true, ending: true}},
		"not staged":                {given: publication(func(p *Publication) { p.Staging = nil }), want: progress{held: true}},
		"requested to unstage":      {given: publication(func(p *Publication) { p.Ending = true }), want: progress{held: true, ending: true}},
		"in use":                    {given: publication(func(p *Publication) { p.Ending, p.UsedBy = true, "pid 7" }), want: progress{held: true}},
		"staged, unreachable":       {given: func(w *world) { w.setUnreachable("n1", true) }, want: progress{held: true}},
		"unpublished":               {given: revoked, want: progress{tearingDown: true}},
		"unpublished, another node": {given: revoked, node: "n2"},
		"unpublished, unreachable":  {given: func(w *world) { revoked(w); w.setUnreachable("n1", true) }},
		"unpublished, a step failed": {given: func(w *world) {
			revoked(w)
			w.changeVolume(func(v *Volume) { v.Operation = &Operation{Kind: OpTeardown, LastError: "busy"} })
		}},
		"deleted": {given: func(w *world) { w.changeVolume(func(v *Volume) { v.Phase = Deleting{} }) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.staged(1, "n1", 1)
			tc.given(w)
			got := w.s.UnpublishProgress(controller, VolumeID(volumeID(1)), tc.node)
			require.Equal(t, tc.want, progress{len(got.Held) > 0, got.Unstaging, got.Ending, got.TearingDown})
		})
	}
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	require.Zero(t, w.s.UnpublishProgress(controller, VolumeID(volumeID(9)), ""))
	revoked(w)
	require.NotEmpty(t, w.volume(1).Teardowns)
	require.False(t, w.s.UnpublishProgress(controller, VolumeID(volumeID(1)), "").TearingDown, "its isolation is waited for")
}

// connectedInVain has the replicas of n1 and n2 connected, with what is given of them.
func (w *world) connectedInVain(own, peer ReplicaSync) {
	w.changeVolume(func(v *Volume) {
		*v = v.withReplication()
		for host, given := range map[HostID]ReplicaSync{"host-n1": own, "host-n2": peer} {
			l := v.ActiveReplica(host)
			l.DiskFailed, l.UpToDate, l.Attachment = given.DiskFailed, false, max(l.Attachment, given.Attachment)
			l.Observed.Disk, l.Observed.Attachment, l.Observed.Connection = given.Observed.Disk, l.Attachment, connected
		}
	})
}
