package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// published1 is a world with volume 1 published to n1, of both access types.
func published1(t testing.TB, capability *fsmpb.Capability) *world {
	w := newWorld(t)
	w.ready(1, changed(1, func(c *fsmpb.CreateVolume) {
		c.Capabilities = []*fsmpb.Capability{mount(writer), mount(multi), block(writer)}
	}))
	w.ok(controller, &fsmpb.PublishVolume{VolumeId: volumeID(1), NodeId: "n1", Capability: capability})
	return w
}

// CSI-NODE-NodeStageVolume-02, -12 to -14; S2, S3, S16.
func TestStageVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*world)
		change func(*fsmpb.StageVolume)
		want   Reason
	}{
		"the publication is current":                      {},
		"again at the same path (-02)":                    {before: stageOnce},
		"an unknown volume (-12)":                         {change: func(c *fsmpb.StageVolume) { c.VolumeId = volumeID(9) }, want: NotFound},
		"another capability at the same path (-13)":       {before: stageOnce, change: func(c *fsmpb.StageVolume) { c.Capability.Mode = readOnly }, want: Incompatible},
		"other mount flags at the same path (-13)":        {before: stageOnce, change: func(c *fsmpb.StageVolume) { c.Capability.FlagsFingerprint = []byte{1} }, want: Incompatible},
		"at another path":                                 {before: stageOnce, change: func(c *fsmpb.StageVolume) { c.StagingPath = "/other" }, want: InUse},
		"block, published for mounts (-14)":               {change: func(c *fsmpb.StageVolume) { c.Capability = block(writer) }, want: Precondition},
		"another filesystem (-14)":                        {change: func(c *fsmpb.StageVolume) { c.Capability.FsType = "xfs" }, want: Precondition},
		"no staging path":                                 {change: func(c *fsmpb.StageVolume) { c.StagingPath = "" }, want: Invalid},
		"no uuid for the first mkfs":                      {change: func(c *fsmpb.StageVolume) { c.FsUuid = "" }, want: Invalid},
		"S2: from an earlier boot":                        {change: func(c *fsmpb.StageVolume) { c.BootId = "boot-0" }, want: StaleEpoch},
		"S2: from another host":                           {change: func(c *fsmpb.StageVolume) { c.HostId = "host-x" }, want: StaleEpoch},
		"S3: under an older epoch":                        {change: func(c *fsmpb.StageVolume) { c.Epoch.Index-- }, want: StaleEpoch},
		"S3: under a later epoch":                         {change: func(c *fsmpb.StageVolume) { c.Epoch.Index++ }, want: StaleEpoch},
		"S1: under the same index of another incarnation": {change: func(c *fsmpb.StageVolume) { c.Epoch.Incarnation++ }, want: StaleEpoch},
		"S3: under no epoch":                              {change: func(c *fsmpb.StageVolume) { c.Epoch = nil }, want: StaleEpoch},
		"S3: not published any more":                      {before: func(w *world) { w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)}) }, want: StaleEpoch},
		"S16: a record that was before":                   {before: stageOnce, change: func(c *fsmpb.StageVolume) { c.Sequence = 1 }, want: StaleEpoch},
		"S16: no record":                                  {change: func(c *fsmpb.StageVolume) { c.Sequence = 0 }, want: StaleEpoch},
	} {
		t.Run(name, func(t *testing.T) {
			w := published1(t, mount(writer))
			c := w.stage(1, "n1", 5)
			if tc.before != nil {
				tc.before(w)
			}
			if tc.change != nil {
				tc.change(c)
			}
			if tc.want != 0 {
				w.rejected(tc.want, "node/n1", c)
				return
			}
			for range 2 {
				out := w.ok("node/n1", c)
				require.Equal(t, w.volume(1).Publication("n1").Epoch, EpochFrom(out.GetGrant().GetEpoch()))
				require.Equal(t, "uuid-1", out.GetGrant().GetFormat().GetFsUuid())
				require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, out.GetGrant().GetFormat().GetPhase())
				c.Sequence++
			}
		})
	}
}

func stageOnce(w *world) { w.ok("node/n1", w.stage(1, "n1", 1)) }

func TestAGrantSaysReadOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		publish  *fsmpb.PublishVolume
		readOnly bool
	}{
		"a writer may write":       {&fsmpb.PublishVolume{Capability: mount(writer)}, false},
		"published read only":      {&fsmpb.PublishVolume{Capability: mount(writer), ReadOnly: true}, true},
		"a mode that is read only": {&fsmpb.PublishVolume{Capability: mount(readOnly)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			tc.publish.VolumeId, tc.publish.NodeId = volumeID(1), "n1"
			w.ok(controller, tc.publish)
			c := w.stage(1, "n1", 1)
			c.Capability = tc.publish.Capability
			require.Equal(t, tc.readOnly, w.ok("node/n1", c).GetGrant().GetReadOnly())
		})
	}
}

// S15: unformatted, formatting with the first uuid, formatted; or raw for ever.
func TestS15_AVolumeIsFormattedOnce(t *testing.T) {
	formatted := func(w *world, uuid string) {
		w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: w.volume(1).Publication("n1").Epoch.Proto(),
			Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: uuid}}})
	}
	again := func(w *world, uuid string, sequence uint64) *fsmpb.Format {
		c := w.stage(1, "n1", sequence)
		c.FsUuid = uuid
		return w.ok("node/n1", c).GetGrant().GetFormat()
	}
	t.Run("the first uuid stays while formatting", func(t *testing.T) {
		w := published1(t, mount(writer))
		require.Equal(t, "uuid-1", again(w, "uuid-1", 1).GetFsUuid())
		f := again(w, "uuid-2", 2)
		require.Equal(t, "uuid-1", f.GetFsUuid())
		require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, f.GetPhase())
	})
	t.Run("only the uuid that was chosen is formatted", func(t *testing.T) {
		w := published1(t, mount(writer))
		formatted(w, "uuid-1")
		require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED, w.volume(1).Format.Phase)
		again(w, "uuid-1", 1)
		formatted(w, "uuid-2")
		require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, w.volume(1).Format.Phase)
		formatted(w, "uuid-1")
		require.Equal(t, Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: ext4, FSUUID: "uuid-1"}, w.volume(1).Format)
		require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, again(w, "uuid-3", 2).GetPhase())
		require.Equal(t, "uuid-1", w.volume(1).Format.FSUUID)
	})
	t.Run("a mount is not staged before it is formatted", func(t *testing.T) {
		w := published1(t, mount(writer))
		again(w, "uuid-1", 1)
		w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: w.volume(1).Publication("n1").Epoch.Proto(),
			Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
		require.False(t, w.volume(1).Publication("n1").Staging.Done)
	})
	t.Run("raw for ever", func(t *testing.T) {
		w := published1(t, block(writer))
		c := w.stage(1, "n1", 1)
		c.Capability, c.FsUuid = block(writer), ""
		require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_RAW, w.ok("node/n1", c).GetGrant().GetFormat().GetPhase())
		w.report("n1", unstaged(1, w.volume(1).Publication("n1").Epoch, 2))
		w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		w.ok(controller, publish(1, "n1"))
		w.rejected(Precondition, "node/n1", w.stage(1, "n1", 3))
		require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_RAW, w.volume(1).Format.Phase)
	})
	t.Run("a formatted volume is not given out raw", func(t *testing.T) {
		w := published1(t, mount(writer))
		again(w, "uuid-1", 1)
		formatted(w, "uuid-1")
		w.report("n1", unstaged(1, w.volume(1).Publication("n1").Epoch, 2))
		w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		w.ok(controller, &fsmpb.PublishVolume{VolumeId: volumeID(1), NodeId: "n1", Capability: block(writer)})
		c := w.stage(1, "n1", 3)
		c.Capability = block(writer)
		w.rejected(Precondition, "node/n1", c)
	})
}

// A volume that has a filesystem is used only as a mount of that type.
func TestAFilesystemIsUsedAsWhatItIs(t *testing.T) {
	v := &Volume{ID: "v", Format: Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: ext4, FSUUID: "uuid-1"}}
	format, rej := v.formatFor(Meta{}, Capability{Mode: writer, FSType: ext4}, "uuid-2")
	require.Nil(t, rej)
	require.Equal(t, v.Format, format)
	for _, other := range []Capability{{Mode: writer, FSType: "xfs"}, {Mode: writer, Block: true}} {
		_, rej := v.formatFor(Meta{}, other, "uuid-2")
		requireRejected(t, Precondition, "volume v has a filesystem of type ext4: it cannot be used as "+other.String(), rej)
	}
}

func (w *world) bind(sequence uint64, path string, mode fsmpb.AccessMode, fingerprint byte) *fsmpb.PublishTarget {
	p := w.volume(1).Publication("n1")
	return &fsmpb.PublishTarget{
		VolumeId: volumeID(1), NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Epoch: p.Epoch.Proto(),
		TargetPath: path, Capability: mount(mode), Fingerprint: []byte{fingerprint}, Sequence: sequence,
	}
}

// stagedAs is a world with volume 1 staged on n1 in that mode.
func stagedAs(t testing.TB, mode fsmpb.AccessMode) *world {
	w := newWorld(t)
	w.ready(1, changed(1, func(c *fsmpb.CreateVolume) { c.Capabilities[0].Mode = mode }))
	w.ok(controller, &fsmpb.PublishVolume{VolumeId: volumeID(1), NodeId: "n1", Capability: mount(mode)})
	c := w.stage(1, "n1", 1)
	c.Capability = mount(mode)
	w.ok("node/n1", c)
	epoch := c.Epoch
	w.report("n1",
		&fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch, Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: "uuid-1"}}},
		&fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
	return w
}

// CSI-NODE-NodePublishTable-09 to -16 and -21 to -24: the second publish of a volume.
func TestASecondTarget(t *testing.T) {
	for _, tc := range []struct {
		row         string
		mode        fsmpb.AccessMode
		path        string
		fingerprint byte
		want        Reason
	}{
		{"-09 T1=T2 P1=P2", single, "/t1", 1, 0},
		{"-10 T1=T2 P1!=P2", single, "/t1", 2, Incompatible},
		{"-11 T1!=T2 P1=P2", single, "/t2", 1, Precondition},
		{"-12 T1!=T2 P1!=P2", single, "/t2", 2, Precondition},
		{"-13 T1=T2 P1=P2", multi, "/t1", 1, 0},
		{"-14 T1=T2 P1!=P2", multi, "/t1", 2, Incompatible},
		{"-15 T1!=T2 P1=P2", multi, "/t2", 1, 0},
		{"-16 T1!=T2 P1!=P2", multi, "/t2", 2, 0},
		{"-21 T1=T2 P1=P2", writer, "/t1", 1, 0},
		{"-22 T1=T2 P1!=P2", writer, "/t1", 2, Incompatible},
		{"-23 T1!=T2 P1=P2", writer, "/t2", 1, Precondition},
		{"-24 T1!=T2 P1!=P2", writer, "/t2", 2, Precondition},
		{"-21 reader T1=T2 P1=P2", readOnly, "/t1", 1, 0},
		{"-23 reader T1!=T2 P1=P2", readOnly, "/t2", 1, Precondition},
	} {
		t.Run(tc.mode.String()+" "+tc.row, func(t *testing.T) {
			w := stagedAs(t, tc.mode)
			w.ok("node/n1", w.bind(2, "/t1", tc.mode, 1))
			second := w.bind(3, tc.path, tc.mode, tc.fingerprint)
			if tc.want != 0 {
				w.rejected(tc.want, "node/n1", second)
				return
			}
			require.NotNil(t, w.ok("node/n1", second).GetGrant())
		})
	}
}

// CSI-NODE-NodePublishVolume-10, -17, -18, -19, -20.
func TestPublishTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fsmpb.PublishTarget)
		want   Reason
	}{
		"staged":                         {func(c *fsmpb.PublishTarget) {}, 0},
		"an unknown volume (-18)":        {func(c *fsmpb.PublishTarget) { c.VolumeId = volumeID(9) }, NotFound},
		"block, staged for mounts (-20)": {func(c *fsmpb.PublishTarget) { c.Capability = block(multi) }, Precondition},
		"another filesystem (-20)":       {func(c *fsmpb.PublishTarget) { c.Capability.FsType = "xfs" }, Precondition},
		"a mode of many nodes":           {func(c *fsmpb.PublishTarget) { c.Capability.Mode = multiRWX }, Invalid},
		"no target path":                 {func(c *fsmpb.PublishTarget) { c.TargetPath = "" }, Invalid},
		"a fingerprint that is too long": {func(c *fsmpb.PublishTarget) { c.Fingerprint = make([]byte, 65) }, Invalid},
		"S2: from an earlier boot":       {func(c *fsmpb.PublishTarget) { c.BootId = "boot-0" }, StaleEpoch},
		"S3: under an older epoch":       {func(c *fsmpb.PublishTarget) { c.Epoch.Index-- }, StaleEpoch},
		"S16: a record that was before":  {func(c *fsmpb.PublishTarget) { c.Sequence = 1 }, StaleEpoch},
	} {
		t.Run(name, func(t *testing.T) {
			w := stagedAs(t, multi)
			c := w.bind(2, "/t1", multi, 1)
			tc.change(c)
			if tc.want != 0 {
				w.rejected(tc.want, "node/n1", c)
				return
			}
			w.ok("node/n1", c)
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: c.Epoch, Fact: &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: "/t1"}}})
			require.True(t, w.volume(1).Publication("n1").Targets[0].Done)
			w.rejected(StaleEpoch, "node/n1", c)
		})
	}
	t.Run("another read-only flag at the same path (-19)", func(t *testing.T) {
		w := stagedAs(t, multi)
		w.ok("node/n1", w.bind(2, "/t1", multi, 1))
		flipped := w.bind(3, "/t1", multi, 1)
		flipped.ReadOnly = true
		w.rejected(Incompatible, "node/n1", flipped)
	})
	t.Run("before it is staged (-10)", func(t *testing.T) {
		w := published1(t, mount(writer))
		w.rejected(Precondition, "node/n1", w.bind(1, "/t1", writer, 1))
		w.ok("node/n1", w.stage(1, "n1", 1))
		w.rejected(Precondition, "node/n1", w.bind(2, "/t1", writer, 1))
	})
}

// S16: a record of an earlier staging ends no later one, however late it comes.
func TestS16_ALateTeardownRecordEndsNoLaterStaging(t *testing.T) {
	w := stagedAs(t, multi)
	epoch := w.volume(1).Publication("n1").Epoch
	gone := func(sequence uint64) *fsmpb.Observation {
		return &fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch.Proto(), Sequence: sequence, Fact: &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: "/t1"}}}
	}
	w.ok("node/n1", w.bind(3, "/t1", multi, 1))
	w.report("n1", unstaged(1, epoch, 2), gone(3), gone(0), unstaged(1, epoch, 0))
	require.Len(t, w.volume(1).Publication("n1").Targets, 1)
	require.NotNil(t, w.volume(1).Publication("n1").Staging)
	w.report("n1", gone(4))
	require.Empty(t, w.volume(1).Publication("n1").Targets)
	w.report("n1", unstaged(1, epoch, 5))
	require.Nil(t, w.volume(1).Publication("n1").Staging)
	require.EqualValues(t, 5, w.volume(1).Replicas[0].Sequence)
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.EqualValues(t, 5, desired.Sequence)
}

// S2: what a host staged in an earlier boot is not staged; only its report of what
// it observes ends the intent, and a new stage begins from nothing done.
func TestS2_ANewBootHasNothingStaged(t *testing.T) {
	w := stagedAs(t, multi)
	w.ok("node/n1", w.bind(2, "/t1", multi, 1))
	stale := w.bind(3, "/t2", multi, 1)
	r := register("n1")
	r.BootId = "boot-2"
	w.ok("node/n1", r)
	p := w.volume(1).Publication("n1")
	require.False(t, p.Staging.Done)
	require.Len(t, p.Targets, 1)
	w.rejected(StaleEpoch, "node/n1", stale)
	w.rejected(StaleEpoch, "node/n1", &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-1"})

	next := w.stage(1, "n1", 3)
	next.BootId, next.Capability = "boot-2", mount(multi)
	stale.BootId = "boot-2"
	w.rejected(Precondition, "node/n1", stale)
	w.ok("node/n1", next)
	require.Equal(t, "boot-2", w.volume(1).Publication("n1").Staging.Boot)
	require.False(t, w.volume(1).Publication("n1").Staging.Done)
}

// S104, S3: what a host reports under another epoch than the publication's is overtaken.
func TestS3_AReportCountsUnderItsEpochOnly(t *testing.T) {
	w := published1(t, mount(multi))
	c := w.stage(1, "n1", 1)
	c.Capability = mount(multi)
	w.ok("node/n1", c)
	epoch := w.volume(1).Publication("n1").Epoch
	facts := func(epoch Epoch, sequence uint64) []*fsmpb.Observation {
		of := func(o *fsmpb.Observation) *fsmpb.Observation {
			o.VolumeId, o.Epoch = volumeID(1), epoch.Proto()
			return o
		}
		return []*fsmpb.Observation{
			of(&fsmpb.Observation{Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: ext4, FsUuid: "uuid-1"}}}),
			of(&fsmpb.Observation{Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}}),
			of(&fsmpb.Observation{Fact: &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: "/t1"}}}),
			of(&fsmpb.Observation{Sequence: sequence, Fact: &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: "/t1"}}}),
			of(&fsmpb.Observation{Sequence: sequence + 1, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}}),
		}
	}
	others := []Epoch{{}, {epoch.Incarnation, epoch.Index - 1}, {epoch.Incarnation, epoch.Index + 1}, {epoch.Incarnation + 1, epoch.Index}}
	unchanged := func() {
		before := w.contents()
		for _, other := range others {
			w.report("n1", facts(other, 8)...)
		}
		require.Equal(t, before, w.contents())
	}
	unchanged()
	w.report("n1", facts(epoch, 0)[:2]...)
	require.True(t, w.volume(1).Publication("n1").Staging.Done)
	w.ok("node/n1", w.bind(2, "/t1", multi, 1))
	unchanged()
	w.report("n1", facts(epoch, 3)...)
	require.Nil(t, w.volume(1).Publication("n1").Staging)
}

// S73: a host is told which of its reports the state does not want: not of one that is so, also when it is repeated.
func TestS73_OnlyWhatIsNotWantedIsOvertaken(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	epoch := w.staged(1, "n1", 1).Epoch.Proto()
	staged := func(path string) *fsmpb.Observation {
		return &fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: path}}}
	}
	for range 2 {
		require.Empty(t, w.report("n1", staged("/staging")).GetOvertaken())
		require.Equal(t, []uint32{0}, w.report("n1", staged("/elsewhere")).GetOvertaken())
	}
}
