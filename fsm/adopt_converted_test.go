package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S1, S15: an adopted volume is still the operator's who made it, and still has the device that it was imported with: it is
// given back, not removed.
func TestS1_AnAdoptedVolumeKeepsItsMakerAndItsImport(t *testing.T) {
	lost := newLVMWorld(t)
	w := lost.lostAfter(func() { lost.importReady(1) })
	was := lost.volume(1)
	held := lost.held(1, string(was.Replicas[0].Node))
	w.twice(admin, adopt(1, held))
	requireSameVolume(t, was, w.volume(1))
	require.NotEmpty(t, w.volume(1).MadeBy)
	require.NotNil(t, w.volume(1).Import)
	w.rejected(Incompatible, controller, &fsmpb.CreateVolume{VolumeId: volumeID(2), Name: was.Name, RequiredBytes: was.Size,
		Capabilities: []*fsmpb.Capability{was.Capabilities[0].TextProto()}})
	w.ok(admin, &fsmpb.AdoptNode{NodeId: held.GetNodeId(), HostId: held.GetHostId(), Incarnation: 2})
	w.twice(admin, &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: was.Import.Device})
	d, ok := w.s.DesiredVolume(NodeID(held.GetNodeId()), VolumeID(volumeID(1)))
	require.True(t, ok)
	require.Equal(t, was.Import.Device, d.ImportDevice, "its host gives it back")
}

// S1: a manifest of an older build says neither; one that says what cannot be is refused.
func TestS1_AManifestsMakerAndImportAreChecked(t *testing.T) {
	lost := newLVMWorld(t)
	w := lost.lostAfter(func() { lost.importReady(1) })
	node := string(lost.volume(1).Replicas[0].Node)
	for name, change := range map[string]func(*fsmpb.VolumeManifest){
		"no operator":           func(m *fsmpb.VolumeManifest) { m.MadeBy = controller },
		"a long operator":       func(m *fsmpb.VolumeManifest) { m.MadeBy = admin + string(make([]byte, maxIDBytes)) },
		"a device that is none": func(m *fsmpb.VolumeManifest) { m.Import.DeviceId = "-x" },
		"a name that is none":   func(m *fsmpb.VolumeManifest) { m.Import.DeviceName = "" },
		"another host":          func(m *fsmpb.VolumeManifest) { m.Import.HostId = "host-n7" },
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			r := lost.held(1, node)
			change(r.Held.Manifest)
			w.rejected(Invalid, admin, adopt(1, r))
		})
	}
	w.t = t
	older := lost.held(1, node)
	older.Held.Manifest.MadeBy, older.Held.Manifest.Import = "", nil
	again := lost.held(1, node)
	w.twice(admin, adopt(1, older))
	require.Empty(t, w.volume(1).MadeBy)
	w.twice(admin, adopt(1, again))
	require.Nil(t, w.volume(1).Import, "what is known is not overwritten")

	second := lost.held(1, node)
	second.Held.Manifest.VolumeId, second.Held.Manifest.Name = volumeID(2), "other"
	w.twice(admin, adopt(2, second))
	third := proto.CloneOf(second)
	third.Held.Manifest.VolumeId, third.Held.Manifest.Name = volumeID(3), "third"
	w.rejected(Busy, admin, adopt(3, third)) // another volume has the device
}

// S1: a pair that was imported outlives its first host as any other pair, and is given back by nobody then.
func TestS1_AnImportedPairIsAdoptedWithoutItsFirstHost(t *testing.T) {
	for without, imported := range map[string]bool{"n1": false, "n2": true} {
		t.Run("without "+without, func(t *testing.T) {
			lost := newLVMPair(t)
			w := lost.lostAfter(func() { lost.importedPairReady(1) })
			node := map[string]string{"n1": "n2", "n2": "n1"}[without]
			held := lost.held(1, node)
			require.Equal(t, "host-n1", held.GetHeld().GetManifest().GetImport().GetHostId())
			w.twice(admin, adopt(1, held))
			v := w.volume(1)
			require.Len(t, v.ActiveReplicas(), 1)
			require.Equal(t, imported, v.Import != nil)
			if imported {
				return
			}
			w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: held.GetHostId(), Incarnation: 2})
			w.rejected(Precondition, admin, &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: "uuid-of-n1"})
		})
	}
}

// heldAt is what the volume's host at the site has.
func (w *related) heldAt(n int, site Site) *fsmpb.AdoptedReplica {
	w.t.Helper()
	return w.held(n, w.node(n, site))
}

// S1, S55: the lost log was in the middle of a conversion, or had done it. Whatever the backup knew of the volume, both
// hosts go on with what they have: nothing is discarded, and neither is asked for a plain device.
func TestS1_S55_AVolumeThatWasConvertedIsAdopted(t *testing.T) {
	for name, tc := range map[string]struct {
		rest   func(*related)
		middle bool
	}{
		"in its middle": {func(w *related) { w.okAt("A", enable(sourceOf(1), "B")); w.secondMade() }, true},
		"it was done":   {func(w *related) { w.okAt("A", enable(sourceOf(1), "B")); w.secondMade(); w.copied() }, false},
	} {
		for _, known := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", the backup knows it", false: ", it is newer than the backup"}[known], func(t *testing.T) {
				lost := newTwoSites(t, 0)
				if known {
					lost.readyAt("A", 1, create(1))
				}
				w := lost.lostAfter(func() {
					if !known {
						lost.readyAt("A", 1, create(1))
					}
					tc.rest(lost)
				})
				ask := adopt(1, lost.heldAt(1, "A"), lost.heldAt(1, "B"))
				if tc.middle {
					w.rejected(Precondition, admin, adopt(1, lost.heldAt(1, "A")))
				}
				w.twice(admin, ask)
				v, was := w.volume(1), lost.volume(1)
				require.Equal(t, was.Replication.Minor, v.Replication.Minor)
				require.Equal(t, was.Replication.Port, v.Replication.Port)
				require.Equal(t, was.Sites, v.Sites)
				require.Equal(t, tc.middle, v.ConversionInDoubt())
				for _, l := range v.ActiveReplicas() {
					require.Equal(t, !tc.middle && l.Host != v.Replication.Seed, l.Outdated, "nobody is to discard what may be the newer content")
				}
				for _, l := range was.ActiveReplicas() {
					w.ok(admin, &fsmpb.AdoptNode{NodeId: string(l.Node), HostId: string(l.Host), Incarnation: 2})
					d, _ := w.s.DesiredVolume(l.Node, v.ID)
					require.Equal(t, GoalKeep, d.Goal)
					require.NotNil(t, d.Replication)
					require.Equal(t, tc.middle, d.Replication.ConversionRestored)
				}
			})
		}
	}
}

// S1, S55: before the content is touched, a host's plain manifest is true. Once it may be touched, one that says plain is
// an older one: its volume is not adopted as a plain one, and the refusal says what to do.
func TestS1_S55_APlainManifestOfAConvertedVolumeIsRefused(t *testing.T) {
	lost := newTwoSites(t, 0)
	var plain *fsmpb.AdoptedReplica
	w := lost.lostAfter(func() {
		lost.readyAt("A", 1, create(1))
		plain = lost.held(1, string(lost.volume(1).Replicas[0].Node))
		lost.okAt("A", enable(sourceOf(1), "B"))
		d, _ := lost.s.DesiredVolume(NodeID(plain.GetNodeId()), VolumeID(volumeID(1)))
		require.Empty(t, d.Manifest, "the one that the host has is true")
	})
	begun := proto.CloneOf(plain)
	begun.Held.Replica = true
	out := w.rejected(Precondition, admin, adopt(1, begun))
	require.Contains(t, out.GetRejection().GetMessage(), "start the host of its other replica")
	w.twice(admin, adopt(1, plain))
	require.Nil(t, w.volume(1).Replication)
}

// S1, S55: a backup of the middle of a conversion, whose host has the manifest of before: that says nothing newer.
func TestS1_S55_AManifestOfBeforeTheConversionChangesNothing(t *testing.T) {
	lost := newPlain(t)
	plain := lost.held(1, string(lost.volume(1).Replicas[0].Node))
	lost.okAt("A", enable(sourceOf(1), "B"))
	lost.secondMade()
	w := lost.lostAfter(func() {})
	before := w.volume(1).Modified
	w.twice(admin, adopt(1, plain))
	require.Equal(t, before, w.volume(1).Modified)
	require.True(t, w.volume(1).ConversionInDoubt())
}

// S1, S55: that the host of the second replica acts already says nothing of the volume: it did not have it here. Who uses
// the volume on the first host goes on.
func TestS1_S55_AConvertedVolumeStaysPublishedWhenTheSecondHostActs(t *testing.T) {
	lost := newTwoSites(t, 0)
	lost.readyAt("A", 1, create(1))
	w := lost.lostAfter(func() {
		lost.okAt("A", enable(sourceOf(1), "B"))
		lost.secondMade()
		lost.copied()
		lost.ok(controller, publish(1, lost.node(1, "A")))
	})
	second := lost.heldAt(1, "B")
	w.ok(admin, &fsmpb.AdoptNode{NodeId: second.GetNodeId(), HostId: second.GetHostId(), Incarnation: 2})
	w.twice(admin, adopt(1, lost.heldAt(1, "A"), second))
	require.Equal(t, lost.volume(1).Publications(), w.volume(1).Publications())
	require.Len(t, w.volume(1).Publications(), 1)
}
