package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	importedGeneration = 0xA1B2C3D4E5F60718
	importedDigest     = "the digest of parts of it \x00\xff...."
)

// newLVMPair has two hosts that hold replicas, with pools of LVM's.
func newLVMPair(t testing.TB) *world {
	w := newPair(t)
	for _, node := range []string{"n1", "n2"} {
		r := replicating(node)
		for _, p := range r.GetPools() {
			p.Backend = lvmBackend
		}
		w.ok("node/"+node, r)
	}
	return w
}

func (w *world) importDRBD(n int, nodes ...string) *fsmpb.ImportDrbd {
	c := &fsmpb.ImportDrbd{VolumeId: volumeID(n), Name: "data", SizeBytes: 20 << 20, FsType: "ext4", FsUuid: importedUUID, ContentDigest: []byte(importedDigest)}
	for i, id := range nodes {
		node, _ := w.s.Node(NodeID(id))
		c.Replicas = append(c.Replicas, &fsmpb.DrbdReplica{
			NodeId: id, HostId: "host-" + id, PoolId: string(node.Pools[0].ID), DeviceId: "uuid-of-" + id, DeviceName: "pvc-1_00000",
			DeviceBytes: 24 << 20, Format: DRBDFormat9, CurrentUuid: importedGeneration, ContentBytes: 19 << 20, DrbdNode: uint32(i),
		})
	}
	if len(nodes) == 1 {
		c.SizeBytes = c.GetReplicas()[0].GetDeviceBytes()
	}
	return c
}

// takenIn reports that the host took its device in, with metadata that are what they have to be.
func (w *world) takenIn(n int, node string) {
	w.t.Helper()
	w.report(node, volumeObservation(n, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(n).Size}}))
}

func (w *world) importedPairReady(n int) *Volume {
	w.t.Helper()
	w.twice(admin, w.importDRBD(n, "n1", "n2"))
	for _, node := range []string{"n1", "n2"} {
		w.takenIn(n, node)
	}
	for _, node := range []string{"n1", "n2"} {
		w.attach(n, node, 1)
	}
	for range 2 { // once more of the generation that began with the birth
		for _, node := range []string{"n1", "n2"} {
			w.reportCurrent(n, node, inSyncObservation(7))
		}
	}
	return w.volume(n)
}

// S15, S55, S109: a pair that is imported has its content from the first entry on, no host may replace metadata before both
// took their devices in, and then it is born as a new pair is.
func TestS15_AnImportedPairIsBornWithItsContent(t *testing.T) {
	w := newLVMPair(t)
	w.twice(admin, w.importDRBD(1, "n1", "n2"))
	v := w.volume(1)
	require.Equal(t, Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: "ext4", FSUUID: importedUUID}, v.Format)
	require.Equal(t, HostID("host-n1"), v.Replication.Seed)
	want := &DesiredDRBDImport{Format: DRBDFormat9, UUID: importedGeneration, ContentBytes: 19 << 20, ContentDigest: importedDigest, DeviceBytes: 24 << 20, Peer: 1, Paired: true}
	for i, node := range []string{"n1", "n2"} {
		d, _ := w.s.DesiredVolume(NodeID(node), v.ID)
		want.Peer = int32(1 - i)
		require.Equal(t, "uuid-of-"+node, d.ImportDevice)
		require.Equal(t, want, d.ImportDRBD)
		require.False(t, d.Replication.SyncFromSeed, "both have the content: none is copied")
	}
	w.takenIn(1, "n1")
	for _, node := range []string{"n1", "n2"} {
		d, _ := w.s.DesiredVolume(NodeID(node), v.ID)
		require.False(t, d.ImportDRBD.Replace, "%s: the other host did not take its device in", node)
	}
	w.takenIn(1, "n2")
	for _, node := range []string{"n1", "n2"} {
		d, _ := w.s.DesiredVolume(NodeID(node), v.ID)
		require.True(t, d.ImportDRBD.Replace)
		w.attach(1, node, 1)
	}
	for range 2 {
		w.reportCurrent(1, "n1", inSyncObservation(7))
		w.reportCurrent(1, "n2", inSyncObservation(7))
	}
	require.Equal(t, Ready{}, w.volume(1).Phase)
	d, _ := w.s.DesiredVolume("n2", v.ID)
	require.Nil(t, d.ImportDRBD)
	require.Empty(t, d.ImportDevice)
	w.twice(admin, w.importDRBD(1, "n1", "n2"))
	w.ok(controller, publish(1, "n2"))
	w.rejected(Precondition, admin, &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: "uuid-of-n1"})
}

// A single replica becomes a plain volume of its device's size.
func TestAnImportedReplicaAloneIsAPlainVolume(t *testing.T) {
	w := newLVMPair(t)
	w.twice(admin, w.importDRBD(1, "n2"))
	v := w.volume(1)
	require.Nil(t, v.Replication)
	require.Equal(t, int64(24<<20), v.Size)
	d, _ := w.s.DesiredVolume("n2", v.ID)
	require.Equal(t, &DesiredDRBDImport{Format: DRBDFormat9, UUID: importedGeneration, ContentBytes: 19 << 20, ContentDigest: importedDigest, DeviceBytes: 24 << 20, Replace: true}, d.ImportDRBD)
	w.takenIn(1, "n2")
	require.Equal(t, Ready{}, w.volume(1).Phase)
	w.twice(admin, &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: "uuid-of-n2"})
	d, _ = w.s.DesiredVolume("n2", v.ID)
	require.Equal(t, GoalRemove, d.Goal)
	require.Equal(t, "uuid-of-n2", d.ImportDevice)
}

// S14: whatever ends the import of a pair before its birth, both hosts give their devices back, and none removes its own.
func TestS14_APairThatCouldNotBeImportedIsGivenBackOnBothHosts(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"one host refuses": func(w *world) {
			w.takenIn(1, "n1")
			w.report("n2", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "create", Error: "another generation", Final: true, Reason: uint32(Precondition)}}})
		},
		"it is cancelled": func(w *world) {
			w.ok(admin, &fsmpb.CancelOperation{OperationId: uint64(w.volume(1).Operation.ID)})
		},
		"it is deleted": func(w *world) { w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newLVMPair(t)
			w.twice(admin, w.importDRBD(1, "n1", "n2"))
			end(w)
			for _, node := range []string{"n1", "n2"} {
				d, ok := w.s.DesiredVolume(NodeID(node), VolumeID(volumeID(1)))
				require.True(t, ok)
				require.Equal(t, GoalRemove, d.Goal)
				require.Equal(t, "uuid-of-"+node, d.ImportDevice)
				require.Nil(t, d.ImportDRBD, "nothing of it is replaced any more")
				w.report(node, volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
			}
			_, known := w.s.Volume(VolumeID(volumeID(1)))
			require.False(t, known)
			w.ok(admin, w.importDRBD(2, "n1", "n2"))
		})
	}
}

func TestAnImportOfReplicasIsRefused(t *testing.T) {
	second := func(change func(*fsmpb.DrbdReplica)) func(*world, *fsmpb.ImportDrbd) {
		return func(_ *world, c *fsmpb.ImportDrbd) { change(c.GetReplicas()[1]) }
	}
	for name, tc := range map[string]struct {
		reason Reason
		change func(w *world, c *fsmpb.ImportDrbd)
	}{
		"no replica":     {Invalid, func(_ *world, c *fsmpb.ImportDrbd) { c.Replicas = nil }},
		"three replicas": {Invalid, func(_ *world, c *fsmpb.ImportDrbd) { c.Replicas = append(c.Replicas, c.GetReplicas()[0]) }},
		"both on one host": {Invalid, func(w *world, c *fsmpb.ImportDrbd) {
			c.Replicas = w.importDRBD(1, "n1", "n1").Replicas
			c.Replicas[1].DeviceId = "x"
		}},
		"one node of DRBD's twice":   {Invalid, second(func(r *fsmpb.DrbdReplica) { r.DrbdNode = 0 })},
		"two resources":              {Precondition, second(func(r *fsmpb.DrbdReplica) { r.CurrentUuid = 0xBAD0BAD0BAD0 })},
		"two sizes of content":       {Precondition, second(func(r *fsmpb.DrbdReplica) { r.ContentBytes -= 4096 })},
		"two formats":                {Precondition, second(func(r *fsmpb.DrbdReplica) { r.Format = DRBDFormat8 })},
		"a format that is none":      {Invalid, second(func(r *fsmpb.DrbdReplica) { r.Format = 7 })},
		"content without a digest":   {Invalid, func(_ *world, c *fsmpb.ImportDrbd) { c.ContentDigest = nil }},
		"half a digest":              {Invalid, func(_ *world, c *fsmpb.ImportDrbd) { c.ContentDigest = c.GetContentDigest()[:16] }},
		"metadata just created":      {Invalid, func(_ *world, c *fsmpb.ImportDrbd) { c.Replicas[0].CurrentUuid = 5 }},
		"content that does not fit":  {OutOfRange, func(_ *world, c *fsmpb.ImportDrbd) { c.SizeBytes = 18 << 20 }},
		"a device that is too small": {OutOfRange, second(func(r *fsmpb.DrbdReplica) { r.DeviceBytes = 19 << 20 })},
		"another host":               {StaleEpoch, second(func(r *fsmpb.DrbdReplica) { r.HostId = "host-n9" })},
		"no such node":               {NotFound, second(func(r *fsmpb.DrbdReplica) { r.NodeId = "n9" })},
		"no such pool":               {NotFound, second(func(r *fsmpb.DrbdReplica) { r.PoolId = "hp-none" })},
		"an option for a device":     {Invalid, second(func(r *fsmpb.DrbdReplica) { r.DeviceName = "-f" })},
		"nothing on it":              {Precondition, func(_ *world, c *fsmpb.ImportDrbd) { c.FsType, c.FsUuid = "", "" }},
		"one alone of another size":  {OutOfRange, func(w *world, c *fsmpb.ImportDrbd) { c.Replicas = w.importDRBD(1, "n1").Replicas }},
		"a host without replication": {Precondition, func(w *world, _ *fsmpb.ImportDrbd) {
			r := register("n2")
			r.Pools[0].Backend = lvmBackend
			w.ok("node/n2", r)
		}},
		"a pool of files":                       {Precondition, func(w *world, _ *fsmpb.ImportDrbd) { w.ok("node/n2", replicating("n2")) }},
		"a name that is taken":                  {Incompatible, func(w *world, c *fsmpb.ImportDrbd) { c.Name = create(1).GetName(); w.ok(controller, create(1)) }},
		"a device that is another volume's":     {Incompatible, func(w *world, c *fsmpb.ImportDrbd) { w.ok(admin, w.importDRBD(2, "n2")); c.Name = "other" }},
		"a first device that is imported alone": {Incompatible, func(w *world, _ *fsmpb.ImportDrbd) { w.ok(admin, w.importDRBD(2, "n1")) }},
		"a pair by another name":                {Incompatible, func(w *world, c *fsmpb.ImportDrbd) { w.importedPairReady(2); c.Name = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLVMPair(t)
			c := w.importDRBD(1, "n1", "n2")
			tc.change(w, c)
			w.rejected(tc.reason, admin, c)
		})
	}
	t.Run("by anybody but an operator", func(t *testing.T) {
		w := newLVMPair(t)
		require.NotNil(t, w.apply(controller, w.importDRBD(1, "n1", "n2")).GetRejection())
	})
	t.Run("below feature level 3", func(t *testing.T) {
		c := &fsmpb.Command{Body: &fsmpb.Command_ImportDrbd{ImportDrbd: newLVMPair(t).importDRBD(1, "n1", "n2")}}
		require.Equal(t, Unsupported, TooNew(Level2, c).Why())
		require.Nil(t, TooNew(Level3, c))
	})
}

// The state of an imported pair is the same after a dump.
func TestAnImportedPairOutlivesADump(t *testing.T) {
	w := newLVMPair(t)
	w.twice(admin, w.importDRBD(1, "n1", "n2"))
	imported := w.volume(1).Import
	require.Equal(t, imported, importFrom(imported.record()))
	require.Len(t, imported.DRBD.Devices, 2)
	again := *w.volume(1)
	require.Equal(t, importedDigest, imported.DRBD.ContentDigest)
	for _, change := range []func(*DRBDImport){func(d *DRBDImport) { d.UUID++ }, func(d *DRBDImport) { d.ContentDigest = "" }} {
		other := *imported.DRBD
		change(&other)
		again.Import = &Import{Host: imported.Host, Device: imported.Device, Name: imported.Name, DRBD: &other}
		e, f := &encoder{}, &encoder{}
		require.NotEqual(t, hashVolume(e, w.volume(1)), hashVolume(f, &again))
	}
}

// What a replica's metadata have to say, in both formats: S5 asks for nothing less of a pair's.
func TestS5_ReplicasThatAreNotProvablyWholeAreUnfit(t *testing.T) {
	fit := func(format uint32) *fsmpb.DrbdMetadata {
		m := &fsmpb.DrbdMetadata{Format: format, CurrentUuid: importedGeneration, ContentBytes: 19 << 20, Consistent: true, UpToDate: true, Peers: []*fsmpb.DrbdPeer{{}}}
		if format == DRBDFormat9 {
			m.DrbdNode, m.Peers = 1, []*fsmpb.DrbdPeer{{DrbdNode: 0}, {DrbdNode: 2, BitmapUuid: 9, Behind: true, OutOfSyncBits: 5}}
		}
		return m
	}
	for _, format := range []uint32{DRBDFormat8, DRBDFormat9} {
		require.Empty(t, DRBDUnfit(fit(format), true, 0))
		require.Empty(t, DRBDUnfit(fit(format), false, 0))
		for name, tc := range map[string]struct {
			change func(*fsmpb.DrbdMetadata)
			alone  bool // it may be imported alone
			says   string
		}{
			"just created":              {func(m *fsmpb.DrbdMetadata) { m.CurrentUuid = 5 }, false, "just created"},
			"without content":           {func(m *fsmpb.DrbdMetadata) { m.ContentBytes = 0 }, false, "just created"},
			"a primary":                 {func(m *fsmpb.DrbdMetadata) { m.Primary = true }, false, "primary"},
			"inconsistent":              {func(m *fsmpb.DrbdMetadata) { m.Consistent = false }, false, "inconsistent"},
			"outdated, of one UUID":     {func(m *fsmpb.DrbdMetadata) { m.UpToDate = false }, false, "outdated"},
			"went on alone":             {func(m *fsmpb.DrbdMetadata) { m.Peers[0].BitmapUuid = 7 }, true, "went on without"},
			"its peer is behind":        {func(m *fsmpb.DrbdMetadata) { m.Peers[0].Behind = true }, true, "behind"},
			"blocks that are not equal": {func(m *fsmpb.DrbdMetadata) { m.Peers[0].OutOfSyncBits = 3 }, true, "3 of its blocks"},
			"a peer it does not know":   {func(m *fsmpb.DrbdMetadata) { m.Peers = nil }, true, "does not know"},
		} {
			m := fit(format)
			tc.change(m)
			require.Contains(t, DRBDUnfit(m, true, 0), tc.says, name)
			require.Equal(t, tc.alone, DRBDUnfit(m, false, 0) == "", name)
		}
	}
	require.Contains(t, DRBDUnfit(fit(DRBDFormat9), true, 1), "no other node")
	require.Contains(t, DRBDUnfit(fit(DRBDFormat9), true, 2), "went on without", "the third replica lags, which is no matter of the other two")
	require.Contains(t, DRBDUnfit(&fsmpb.DrbdMetadata{Format: 7}, false, 0), "no metadata")
	want := &DesiredDRBDImport{Format: DRBDFormat9, UUID: importedGeneration, ContentBytes: 19 << 20, Paired: true}
	require.Empty(t, want.Fits(fit(DRBDFormat9)))
	require.Contains(t, want.Fits(nil), "any more")
	later := proto.CloneOf(fit(DRBDFormat9))
	later.CurrentUuid += 2
	require.Contains(t, want.Fits(later), "plan again")
}
