package fsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// held is what the node's host has of volume n at the end of a log.
func (w *world) held(n int, node string) *fsmpb.AdoptedReplica {
	w.t.Helper()
	d, ok := w.s.DesiredVolume(NodeID(node), VolumeID(volumeID(n)))
	require.True(w.t, ok)
	require.NotEmpty(w.t, d.Manifest)
	held := &fsmpb.HeldVolume{Manifest: &fsmpb.VolumeManifest{}, At: w.s.epoch().Proto(), SizeBytes: d.Size}
	require.NoError(w.t, proto.Unmarshal([]byte(d.Manifest), held.Manifest))
	if p := d.Publication; p != nil && p.Staging != nil && p.Staging.Done {
		held.Staged = p.Epoch.Proto()
	}
	if r := w.volume(n).Replica(HostID("host-" + node)); r.ReplicaSync != nil {
		held.Attachment, held.AttachedIn = r.Attachment, r.Boot
	}
	return &fsmpb.AdoptedReplica{NodeId: node, HostId: "host-" + node, Held: held}
}

func adopt(n int, replicas ...*fsmpb.AdoptedReplica) *fsmpb.AdoptVolume {
	return &fsmpb.AdoptVolume{VolumeId: volumeID(n), Replicas: replicas}
}

// lostAfter is a world that is restored from a backup of w as it is now; the rest of w's log is lost.
func (w *world) lostAfter(rest func()) *world {
	w.t.Helper()
	restored := &world{t: w.t, s: w.s.Fork(), index: w.index, calls: 1000}
	rest()
	restored.ok(controller, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	return restored
}

// sameVolume compares what a log says of a volume, but for when it said so.
func requireSameVolume(t *testing.T, want, got *Volume) {
	t.Helper()
	a, b := *want, *got
	for _, v := range []*Volume{&a, &b} {
		v.Created, v.Modified, v.Replication = Epoch{}, 0, nil
		v.Replicas = append([]Replica(nil), v.Replicas...)
		for i := range v.Replicas {
			v.Replicas[i].Sequence, v.Replicas[i].ReplicaSync, v.Replicas[i].Size = 0, nil, 0
		}
	}
	require.Equal(t, a, b)
}

// S1: what was made, formatted and staged after the backup is in the log again as it was, under the epoch that its host
// staged under; its host is asked for nothing.
func TestS1_AVolumeThatIsNewerThanTheBackupIsAdopted(t *testing.T) {
	lost := newWorld(t)
	w := lost.lostAfter(func() {
		lost.ready(1, create(1))
		lost.staged(1, "n1", 1)
		lost.ok("node/n1", lost.bind(2, "/t1", single, 1))
	})
	w.twice(admin, adopt(1, lost.held(1, "n1")))
	requireSameVolume(t, lost.volume(1), w.volume(1))
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n1"))
	d, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.Empty(t, d.Manifest, "a host in adoption mode keeps what the lost log said")
	w.ok(admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	d, _ = w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.NotEmpty(t, d.Manifest)
	require.Equal(t, volumeID(1), w.ok(controller, publish(1, "n1")).GetVolumeId(), "the orchestrator's call joins")
	require.Equal(t, volumeID(1), w.ok(controller, create(1)).GetVolumeId(), "and so does a create of the name")
}

// S1, S53: a replicated volume comes back with its minor and port and both replicas, of which nothing counts until their
// hosts observed it.
func TestS1_AReplicatedVolumeIsAdoptedWithBothReplicas(t *testing.T) {
	lost := newPair(t)
	w := lost.lostAfter(func() {
		lost.readyReplicated(1, createReplicated(1, protocolC))
		lost.primary(1, "n1", 7)
	})
	both := adopt(1, lost.held(1, "n1"), lost.held(1, "n2"))
	w.twice(admin, both)
	v, before := w.volume(1), lost.volume(1)
	requireSameVolume(t, before, v)
	require.Equal(t, before.Replication.Minor, v.Replication.Minor)
	require.Equal(t, before.Replication.Port, v.Replication.Port)
	require.Nil(t, v.Replication.Primary)
	for _, r := range v.ActiveReplicas() {
		require.False(t, r.UpToDate)
		require.EqualValues(t, 1, r.Attachment)
	}
	for _, node := range []string{"n1", "n2"} {
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
	}
	seen := inSyncObservation(7)
	seen.Primary = true
	w.reportCurrent(1, "n1", seen)
	w.reportCurrent(1, "n2", inSyncObservation(7))
	for _, r := range w.volume(1).ActiveReplicas() {
		require.True(t, r.UpToDate, r.Node)
	}
}

// S1, S6: a volume is in use while its log is lost. Restored, its primary has its grant as soon as both kernels were seen,
// and goes on alone when it loses its peer; before that, or where anything is in doubt, it is refused.
func TestS1_APrimaryIsGrantedAgainAfterARestore(t *testing.T) {
	primary := inSyncObservation(7)
	primary.Primary = true
	alone := ReplicaObservation{Disk: upToDate, PeerDisk: 0, Primary: true, Suspended: true}
	for name, tc := range map[string]struct {
		adopted []string
		change  func(*world)
		want    fsmpb.Verdict
		// seenBefore: both observed it before they were adopted, and nothing since.
		seenBefore bool
	}{
		"seen by both before":          {adopted: []string{"n1", "n2"}, change: func(*world) {}, want: fsmpb.Verdict_VERDICT_PEER_OUTDATED, seenBefore: true},
		"seen before, one is adopted":  {adopted: []string{"n1"}, change: func(*world) {}, want: fsmpb.Verdict_VERDICT_REFUSED, seenBefore: true},
		"seen by both":                 {adopted: []string{"n1", "n2"}, change: func(*world) {}, want: fsmpb.Verdict_VERDICT_PEER_OUTDATED},
		"the other one is not adopted": {adopted: []string{"n1"}, change: func(*world) {}, want: fsmpb.Verdict_VERDICT_REFUSED},
		"it is not adopted itself":     {adopted: []string{"n2"}, change: func(*world) {}, want: fsmpb.Verdict_VERDICT_REFUSED},
		"it cannot be asked":           {adopted: []string{"n1", "n2"}, change: func(w *world) { w.setUnreachable("n1", true) }, want: fsmpb.Verdict_VERDICT_REFUSED},
		"it is to end":                 {adopted: []string{"n1", "n2"}, change: func(w *world) { w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)}) }, want: fsmpb.Verdict_VERDICT_REFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			lost := newPair(t)
			lost.readyReplicated(1, createReplicated(1, protocolC))
			lost.primary(1, "n1", 7)
			lost.ok("node/n1", lost.stage(1, "n1", 1))
			epoch := lost.volume(1).Publication("n1").Epoch.Proto()
			lost.report("n1",
				&fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch, Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: "uuid-1"}}},
				&fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
			w := lost.lostAfter(func() {})
			if tc.seenBefore {
				w.reportCurrent(1, "n1", primary)
				w.reportCurrent(1, "n2", inSyncObservation(7))
				w.reportCurrent(1, "n1", primary)
			}
			for _, node := range tc.adopted {
				w.twice(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
			}
			tc.change(w)
			for range 2 {
				if tc.seenBefore {
					break
				}
				w.reportCurrent(1, "n1", primary)
				w.reportCurrent(1, "n2", inSyncObservation(7))
			}
			out := w.ok("node/n1", w.outdate(1, "n1", alone))
			require.Equal(t, tc.want, out.GetVerdict())
			require.Equal(t, tc.want == fsmpb.Verdict_VERDICT_PEER_OUTDATED, w.replicaSync(1, "n2").Outdated)
		})
	}
}

// S1: what the lost log said of a volume that the backup knows: it grew, was formatted, is staged.
func TestS1_WhatTheLostLogSaidOfAKnownVolumeIsAdopted(t *testing.T) {
	for name, tc := range map[string]struct {
		backup func(*world)
		lost   func(*world)
	}{
		"it was being made": {func(w *world) { w.ok(controller, create(1)) }, func(w *world) {
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gib}}})
		}},
		"it was formatted": {func(w *world) { w.ready(1, create(1)) }, func(w *world) { w.staged(1, "n1", 1) }},
		"it grew": {func(w *world) { w.ready(1, create(1)) }, func(w *world) {
			w.ok(controller, &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib})
		}},
		"it is published no more": {func(w *world) { w.ready(1, create(1)); w.ok(controller, publish(1, "n1")) }, func(w *world) {
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		}},
		"it is published again": {func(w *world) { w.ready(1, create(1)); w.ok(controller, publish(1, "n1")) }, func(w *world) {
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
			w.staged(1, "n1", 1)
		}},
		"nothing": {func(w *world) { w.ready(1, create(1)); w.staged(1, "n1", 1) }, func(*world) {}},
	} {
		t.Run(name, func(t *testing.T) {
			lost := newWorld(t)
			tc.backup(lost)
			w := lost.lostAfter(func() { tc.lost(lost) })
			w.twice(admin, adopt(1, lost.held(1, "n1")))
			want := *lost.volume(1)
			want.Operation = w.volume(1).Operation // of an expansion: its host reported nothing yet, and has done it
			requireSameVolume(t, &want, w.volume(1))
		})
	}
}

// S1: what is no word of a lost log is refused, and nothing is taken from another volume.
func TestS1_AnAdoptionThatIsRefused(t *testing.T) {
	lost := newPair(t)
	lost.ready(5, create(5))
	w := lost.lostAfter(func() {
		lost.ready(1, create(1))
		lost.readyReplicated(2, createReplicated(2, protocolC))
	})
	node := string(lost.volume(1).Replicas[0].Node)
	changed := func(n int, node string, change func(*fsmpb.AdoptedReplica)) *fsmpb.AdoptVolume {
		r := lost.held(n, node)
		change(r)
		return adopt(n, r)
	}
	for name, tc := range map[string]struct {
		ask  *fsmpb.AdoptVolume
		want Reason
	}{
		"nobody has it":                  {adopt(1), Invalid},
		"no id":                          {&fsmpb.AdoptVolume{VolumeId: "x"}, Invalid},
		"another host":                   {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.HostId = "other" }), StaleEpoch},
		"no such node":                   {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.NodeId = "n9" }), NotFound},
		"no manifest":                    {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest = nil }), Invalid},
		"of another volume":              {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.VolumeId = volumeID(2) }), Invalid},
		"it was removed":                 {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Removed = true }), Invalid},
		"no device":                      {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.SizeBytes = 0 }), Precondition},
		"another pool":                   {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.PoolId = "p" }), Precondition},
		"of this incarnation":            {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.At.Incarnation = 2 }), Precondition},
		"of none":                        {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.At = nil }), Precondition},
		"a size that is none":            {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.SizeBytes = 17 }), Invalid},
		"a source that is none":          {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Source = &fsmpb.Source{SnapshotId: "x"} }), Invalid},
		"a size above all":               {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.SizeBytes = 1 << 60 }), Invalid},
		"a format of no kind":            {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Format.Phase = 77 }), Invalid},
		"no capability":                  {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Capabilities = nil }), Invalid},
		"no name":                        {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Name = "" }), Invalid},
		"an unknown format":              {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Format = nil }), Invalid},
		"a name that another has":        {changed(1, node, func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Name = "pvc-5" }), Incompatible},
		"two hosts have the same":        {adopt(1, lost.held(1, node), lost.held(1, node)), Invalid},
		"a minor that is none":           {changed(2, "n1", func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Replication.Minor = 3 }), Invalid},
		"a port that is none":            {changed(2, "n1", func(r *fsmpb.AdoptedReplica) { r.Held.Manifest.Replication.Port = 1 }), Invalid},
		"more hosts than replicas":       {adopt(2, lost.held(2, "n1"), lost.held(2, "n2"), lost.held(2, "n1")), Invalid},
		"known, and a replica elsewhere": {&fsmpb.AdoptVolume{VolumeId: volumeID(5), Replicas: []*fsmpb.AdoptedReplica{heldElsewhere(lost, 5)}}, Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.rejected(tc.want, admin, tc.ask)
		})
	}
	t.Run("of no operator", func(t *testing.T) {
		w.t = t
		w.rejected(Forbidden, "node/n1", adopt(1, lost.held(1, node)))
	})
	w.t = t
	w.ok(admin, adopt(2, lost.held(2, "n1"), lost.held(2, "n2")))
	third := lost.held(2, "n1")
	third.Held.Manifest.VolumeId, third.Held.Manifest.Name = volumeID(3), "pvc-3"
	w.rejected(Busy, admin, adopt(3, third)) // it has the minor of the other
}

// heldElsewhere says that the other host has the volume.
func heldElsewhere(w *world, n int) *fsmpb.AdoptedReplica {
	r := w.held(n, string(w.volume(n).Replicas[0].Node))
	other := map[string]string{"n1": "n2", "n2": "n1"}[r.NodeId]
	r.NodeId, r.HostId, r.Held.Manifest.PoolId = other, "host-"+other, "pool-"+other
	return r
}

// S14: one that this log deletes is not taken back.
func TestS14_AVolumeThatIsBeingDeletedIsNotAdopted(t *testing.T) {
	lost := newWorld(t)
	lost.ready(1, create(1))
	kept := lost.held(1, "n1")
	lost.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w := lost.lostAfter(func() {})
	w.rejected(Precondition, admin, adopt(1, kept))
}

// S1: what this incarnation decided about the use of a volume is not taken back by a host that comes late.
func TestS1_ALateHostTakesNoPublicationBack(t *testing.T) {
	lost := newWorld(t)
	lost.ready(1, create(1))
	w := lost.lostAfter(func() { lost.staged(1, "n1", 1) })
	late := lost.held(1, "n1")
	w.ok(admin, adopt(1, late))
	w.ok(admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	before := w.volume(1).Publications()
	w.ok(admin, adopt(1, late))
	require.Equal(t, before, w.volume(1).Publications())
}

// S1: an operator's publication is still that of who made it, whether the backup knows the volume or not: an orchestrator
// does not end it, and its maker does. A manifest of an older build does not say; one that says what cannot be is refused.
func TestS1_AnAdoptedPublicationKeepsItsMaker(t *testing.T) {
	const operator = "operator/ann"
	for name, known := range map[string]bool{"the backup knows the volume": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			lost := newWorld(t)
			if known {
				lost.ready(1, create(1))
			}
			w := lost.lostAfter(func() {
				if !known {
					lost.ready(1, create(1))
				}
				lost.ok(operator, publish(1, "n1"))
			})
			for _, other := range []string{controller, "node/n1", "operator", "operator/" + strings.Repeat("x", maxIDBytes)} {
				bad := lost.held(1, "n1")
				bad.Held.Manifest.Publication.MadeBy = other
				w.rejected(Invalid, admin, adopt(1, bad))
			}
			older := &world{t: t, s: w.s.Fork(), index: w.index, calls: 2000}
			silent := lost.held(1, "n1")
			silent.Held.Manifest.Publication.MadeBy = ""
			older.twice(admin, adopt(1, silent))
			require.Empty(t, older.volume(1).Publication("n1").MadeBy)

			w.twice(admin, adopt(1, lost.held(1, "n1")))
			require.Equal(t, lost.volume(1).Publications(), w.volume(1).Publications())
			require.Equal(t, operator, w.volume(1).Publication("n1").MadeBy)
			w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
			require.NotNil(t, w.volume(1).Publication("n1"))
			w.twice(operator, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
			require.Nil(t, w.volume(1).Publication("n1"))
		})
	}
}

// S1: a host that had no replica any more when the lost log spoke last gives none to the volume.
func TestS1_AHostThatWasReplacedIsNotAdoptedAsAReplica(t *testing.T) {
	lost := newPair(t)
	w := lost.lostAfter(func() { lost.readyReplicated(1, createReplicated(1, protocolC)) })
	stale, newest := lost.held(1, "n2"), lost.held(1, "n1")
	stale.Held.At.Index--
	newest.Held.Manifest.Replication.Hosts = []*fsmpb.ReplicaHost{{NodeId: "n1", HostId: "host-n1"}, {NodeId: "n3", HostId: "host-n3"}}
	w.twice(admin, adopt(1, stale, newest))
	require.Len(t, w.volume(1).Replicas, 1)
	require.Equal(t, NodeID("n1"), w.volume(1).Replicas[0].Node)
}

// S1, S8: the backup calls the replica outdated that the lost log had promoted since: its host is no loser.
func TestS1_TheReplicaThatIsInUseIsNotOutdatedAnyMore(t *testing.T) {
	lost := newPair(t)
	lost.readyReplicated(1, createReplicated(1, protocolC))
	lost.primary(1, "n1", 7)
	lost.ok("node/n1", lost.stage(1, "n1", 1))
	inUse, told := lost.held(1, "n1"), lost.held(1, "n2")
	inUse.Held.Staged = lost.volume(1).Publication("n1").Epoch.Proto()
	told.Held.Manifest.Replication.Outdated = true
	w := lost.lostAfter(func() {})
	w.s.putVolume(func() Volume {
		v := w.volume(1).withReplication()
		v.ActiveReplica("host-n1").Outdated = true
		return v
	}())
	w.twice(admin, adopt(1, inUse, told))
	require.False(t, w.replicaSync(1, "n1").Outdated)
	require.True(t, w.replicaSync(1, "n2").Outdated)
}
