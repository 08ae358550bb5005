package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// formatted is a volume 1 with an ext4, published nowhere any more.
func (w *world) formatted() {
	w.t.Helper()
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	p := w.volume(1).Publications()[0]
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: p.Epoch.Proto(), Sequence: 2, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
}

func sized(c *fsmpb.CreateVolume, required, limit int64) *fsmpb.CreateVolume {
	c.RequiredBytes, c.LimitBytes = required, limit
	return c
}

func usable(c *fsmpb.CreateVolume, as ...*fsmpb.Capability) *fsmpb.CreateVolume {
	c.Capabilities = as
	return c
}

// What is copied from a volume has the format that the volume had when the copy was asked for.
func TestS15_NoFilesystemIsMadeWhileACopyOfTheEmptyVolumeIs(t *testing.T) {
	for name, ask := range map[string]func(*world){
		"a clone":    func(w *world) { w.ok(controller, createFrom(2, fromVolume(1))) },
		"a snapshot": func(w *world) { w.ok(controller, createSnapshot(1, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.ok(controller, publish(1, "n1"))
			ask(w)
			w.rejected(Busy, "node/n1", w.stage(1, "n1", 1))
			require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED, w.volume(1).Format.Phase)
		})
	}
	w := newWorld(t)
	w.formatted()
	w.ok(controller, createFrom(2, fromVolume(1)))
	w.ok(controller, publish(1, "n1"))
	w.ok("node/n1", w.stage(1, "n1", 3))
}

// CSI-CTRL-CreateVolume-12, -22, -23, -25, -31, -32, -37, -38, -39; CSI-CTRL-CreateSnapshot-19.
func TestCreateVolumeFromASource(t *testing.T) {
	xfs := &fsmpb.Capability{Mode: writer, FsType: "xfs"}
	anyFS := &fsmpb.Capability{Mode: writer}
	for name, tc := range map[string]struct {
		given func(*world)
		ask   *fsmpb.CreateVolume
		size  int64
		want  Reason
	}{
		"a snapshot's size is the volume's where none is asked for": {ask: createFrom(2, fromSnapshot(1)), size: gib},
		"a volume's size too":                        {ask: createFrom(2, fromVolume(1)), size: gib},
		"larger is served":                           {ask: sized(createFrom(2, fromSnapshot(1)), 2*gib, 0), size: 2 * gib},
		"a limit above the source's size is kept":    {ask: sized(createFrom(2, fromSnapshot(1)), 0, 3*gib), size: gib},
		"the source's size rounded down is equal":    {ask: sized(createFrom(2, fromSnapshot(1)), gib-1, 0), size: gib},
		"smaller is out of range":                    {ask: sized(createFrom(2, fromSnapshot(1)), gib/2, 0), want: OutOfRange},
		"a limit below the source is out of range":   {ask: sized(createFrom(2, fromSnapshot(1)), 0, gib-1), want: OutOfRange},
		"a snapshot that is not known is not found":  {ask: createFrom(2, &fsmpb.Source{SnapshotId: "somewhere"}), want: NotFound},
		"a volume that is not known is not found":    {ask: createFrom(2, fromVolume(7)), want: NotFound},
		"an empty source is refused":                 {ask: createFrom(2, &fsmpb.Source{}), want: Invalid},
		"two sources are refused":                    {ask: createFrom(2, &fsmpb.Source{SnapshotId: snapshotID(1), VolumeId: volumeID(1)}), want: Invalid},
		"a filesystem other than its is refused":     {ask: usable(createFrom(2, fromSnapshot(1)), xfs), want: Invalid},
		"raw use of a filesystem is refused":         {ask: usable(createFrom(2, fromSnapshot(1)), block(writer)), want: Invalid},
		"one of two uses is not enough":              {ask: usable(createFrom(2, fromVolume(1)), mount(writer), block(writer)), want: Invalid},
		"a mount without a filesystem means its":     {ask: usable(createFrom(2, fromVolume(1)), anyFS), size: gib},
		"a topology without the source has no room":  {ask: inTopology(createFrom(2, fromSnapshot(1)), "n2"), want: NoCapacity},
		"a pool without room has none":               {ask: sized(createFrom(2, fromSnapshot(1)), 16<<40-VolumeSizeUnit, 0), given: func(w *world) { w.ok(controller, inTopology(sized(create(5), 5<<40, 0), "n1")) }, want: NoCapacity},
		"a source that is being deleted is gone":     {given: func(w *world) { w.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)}) }, ask: createFrom(2, fromSnapshot(1)), want: NotFound},
		"a source that is being made is busy":        {given: func(w *world) { w.ok(controller, create(5)) }, ask: createFrom(2, fromVolume(5)), want: Busy},
		"a source on a silent host is not asked":     {given: func(w *world) { w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}) }, ask: createFrom(2, fromVolume(1)), want: Unreachable},
		"the name of a volume without source is not": {given: func(w *world) { w.ready(2, create(2)) }, ask: createFrom(3, fromVolume(1)), size: gib},
		"the name with another source is refused":    {given: func(w *world) { w.ready(2, createFrom(2, fromVolume(1))) }, ask: createFrom(2, fromSnapshot(1)), want: Incompatible},
		"the name without the source is refused":     {given: func(w *world) { w.ready(2, createFrom(2, fromVolume(1))) }, ask: create(2), want: Incompatible},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.formatted()
			w.takeSnapshot(1, 1)
			w.ok("node/n2", register("n2"))
			if tc.given != nil {
				tc.given(w)
			}
			if tc.want != 0 {
				w.rejected(tc.want, controller, tc.ask)
				return
			}
			id := VolumeID(w.twice(controller, tc.ask).GetVolumeId())
			v, _ := w.s.Volume(id)
			require.Equal(t, tc.size, v.Size)
			require.Equal(t, Replica{Node: "n1", Host: "host-n1", Pool: "pool-n1", State: ReplicaPlanned}, v.Replicas[0], "where its source is")
			desired, _ := w.s.DesiredVolume("n1", id)
			require.Equal(t, []any{SourceFrom(tc.ask.Source), gib}, []any{desired.Source, desired.SourceSize})
		})
	}
}

func inTopology(c *fsmpb.CreateVolume, node string) *fsmpb.CreateVolume {
	c.Requisite = []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: node}}}}
	return c
}

func TestS15_AVolumeOfASourceHasItsFormatAndIsNeverFormatted(t *testing.T) {
	w := newWorld(t)
	w.formatted()
	w.takeSnapshot(1, 1)
	w.ready(2, createFrom(2, fromSnapshot(1)))
	formatted := fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED
	copied := Format{Phase: formatted, FSType: ext4, FSUUID: "uuid-1", Cloned: true}
	require.Equal(t, copied, w.volume(2).Format)
	require.Equal(t, copied, w.ready(3, createFrom(3, fromVolume(1))).Format)
	require.Equal(t, copied, w.ready(4, createFrom(4, fromVolume(3))).Format, "a copy of a copy, neither staged")

	w.ok(controller, publish(2, "n1"))
	stage := w.stage(2, "n1", 1)
	stage.FsUuid = ""
	w.rejected(Invalid, "node/n1", stage)
	stage.FsUuid = "uuid-2"
	grant := w.ok("node/n1", stage).GetGrant()
	require.Equal(t, []any{formatted, "uuid-2", true}, []any{grant.GetFormat().GetPhase(), grant.GetFormat().GetFsUuid(), grant.GetFormat().GetCloned()})
	again := w.stage(2, "n1", 2)
	again.FsUuid = "uuid-3"
	require.Equal(t, "uuid-2", w.ok("node/n1", again).GetGrant().GetFormat().GetFsUuid(), "the first identity stays")

	epoch := w.volume(2).Publications()[0].Epoch.Proto()
	is := func(uuid string) *fsmpb.Observation {
		return &fsmpb.Observation{VolumeId: volumeID(2), Epoch: epoch, Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: uuid}}}
	}
	w.report("n1", is("uuid-1"))
	require.True(t, w.volume(2).Format.Cloned)
	w.report("n1", is("uuid-2"))
	require.Equal(t, Format{Phase: formatted, FSType: ext4, FSUUID: "uuid-2"}, w.volume(2).Format)
}

func TestS15_RawAndEmptySourcesMakeRawAndEmptyVolumes(t *testing.T) {
	w := newWorld(t)
	w.ready(1, usable(create(1), block(writer)))
	w.ready(2, usable(createFrom(2, fromVolume(1)), mount(writer)))
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED, w.volume(2).Format.Phase)
	w.ok(controller, &fsmpb.PublishVolume{VolumeId: volumeID(1), NodeId: "n1", Capability: block(writer)})
	stage := w.stage(1, "n1", 1)
	stage.Capability = block(writer)
	w.ok("node/n1", stage)
	w.rejected(Invalid, controller, createFrom(3, fromVolume(1)))
	w.ready(3, usable(createFrom(3, fromVolume(1)), block(writer)))
	require.Equal(t, Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_RAW}, w.volume(3).Format)
}

// CSI-CTRL-DeleteSnapshot-05, CSI-CTRL-DeleteVolume-07.
func TestASourceStaysUntilTheVolumeIsMade(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.takeSnapshot(1, 1)
	w.ok(controller, createFrom(2, fromSnapshot(1)))
	w.ok(controller, createFrom(3, fromVolume(1)))
	w.rejected(InUse, controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	w.rejected(Busy, controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejected(Busy, controller, &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib})
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(2), Fact: &fsmpb.Observation_Progress{Progress: &fsmpb.Progress{DoneBytes: 1, TotalBytes: 2}}})
	require.Equal(t, int64(1), w.volume(2).Operation.DoneBytes)

	failed := &fsmpb.Observation{VolumeId: volumeID(2), Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Error: "full", Final: true}}}
	w.report("n1", failed)
	w.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	w.rejected(NotFound, "admin/ann", &fsmpb.RetryOperation{OperationId: uint64(w.volume(2).Operation.ID)})
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(3)})
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
}

// CSI-EXT-Modify-09.
func TestMutableParametersAreCompared(t *testing.T) {
	w := newWorld(t)
	c := create(1)
	c.Limits = &fsmpb.Limits{ReadIops: 100}
	w.twice(controller, c)
	require.Equal(t, Limits{ReadIOPS: 100}, w.volume(1).Limits)
	w.rejected(Incompatible, controller, create(1))
}
