package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S1: an adopted volume is still the one of the DRBD resource that it was imported from: a repeated import finds it.
func TestS1_AnAdoptedImportOfDRBDReplicasIsJoinedWhenRepeated(t *testing.T) {
	for _, nodes := range [][]string{{"n1"}, {"n1", "n2"}} {
		lost := newLVMPair(t)
		var again *fsmpb.ImportDrbd
		w := lost.lostAfter(func() {
			again = lost.importDRBD(1, nodes...)
			if len(nodes) == 2 {
				lost.importedPairReady(1)
				return
			}
			lost.twice(admin, again)
			lost.takenIn(1, "n1")
		})
		var held []*fsmpb.AdoptedReplica
		for _, node := range nodes {
			held = append(held, lost.held(1, node))
		}
		w.twice(admin, adopt(1, held...))
		require.NotNil(t, lost.volume(1).Import.DRBD)
		require.Equal(t, lost.volume(1).Import, w.volume(1).Import)
		require.Equal(t, volumeID(1), w.twice(admin, again).GetVolumeId())

		other := proto.CloneOf(held[0])
		other.Held.Manifest.VolumeId, other.Held.Manifest.Name, other.Held.Manifest.Replication = volumeID(2), "other", nil
		for range 2 {
			w.rejected(Busy, admin, adopt(2, other)) // another volume has the device
		}
	}
}

// S1: a manifest of an older build does not say of which resource; one that says what cannot be is refused.
func TestS1_AManifestsDRBDImportIsChecked(t *testing.T) {
	lost := newLVMPair(t)
	w := lost.lostAfter(func() { lost.importedPairReady(1) })
	for name, change := range map[string]func(*fsmpb.DrbdImportManifest){
		"no format":             func(d *fsmpb.DrbdImportManifest) { d.Format = 7 },
		"no generation":         func(d *fsmpb.DrbdImportManifest) { d.CurrentUuid = drbdJustCreated },
		"a primary's":           func(d *fsmpb.DrbdImportManifest) { d.CurrentUuid |= 1 },
		"no content":            func(d *fsmpb.DrbdImportManifest) { d.ContentBytes = 0 },
		"more than a device":    func(d *fsmpb.DrbdImportManifest) { d.ContentBytes = 1 << 40 },
		"a short digest":        func(d *fsmpb.DrbdImportManifest) { d.ContentDigest = []byte("d") },
		"no device":             func(d *fsmpb.DrbdImportManifest) { d.Replicas = nil },
		"three devices":         func(d *fsmpb.DrbdImportManifest) { d.Replicas = append(d.Replicas, &fsmpb.DrbdReplica{}) },
		"another first device":  func(d *fsmpb.DrbdImportManifest) { d.Replicas[0], d.Replicas[1] = d.Replicas[1], d.Replicas[0] },
		"a device that is none": func(d *fsmpb.DrbdImportManifest) { d.Replicas[1].DeviceId = "-x" },
		"two of one host":       func(d *fsmpb.DrbdImportManifest) { d.Replicas[1].HostId = d.Replicas[0].HostId },
		"no host":               func(d *fsmpb.DrbdImportManifest) { d.Replicas[1].HostId = "" },
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			r := lost.held(1, "n1")
			change(r.Held.Manifest.Import.Drbd)
			for range 2 {
				w.rejected(Invalid, admin, adopt(1, r))
			}
		})
	}
	w.t = t
	older := lost.held(1, "n1")
	older.Held.Manifest.Import.Drbd = nil
	w.twice(admin, adopt(1, older))
	require.NotNil(t, w.volume(1).Import)
	require.Nil(t, w.volume(1).Import.DRBD)
}
