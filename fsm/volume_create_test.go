package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	controller = "controller/c1"
	admin      = "admin/ann"
)

// changed is create(n) with a change.
func changed(n int, change func(*fsmpb.CreateVolume)) *fsmpb.CreateVolume {
	c := create(n)
	change(c)
	return c
}

func onNode(node string) *fsmpb.Topology {
	return &fsmpb.Topology{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: node}}}
}

// CSI-CTRL-CreateVolume-02 to -06 and -33 to -37.
func TestCreateVolumeJoinsTheVolumeOfTheName(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fsmpb.CreateVolume)
		want   Reason
	}{
		"equal arguments (-02, -04)":                    {change: func(c *fsmpb.CreateVolume) {}},
		"a range that the size is in (-05)":             {change: func(c *fsmpb.CreateVolume) { c.RequiredBytes, c.LimitBytes = 1<<20, 2*gib }},
		"no range":                                      {change: func(c *fsmpb.CreateVolume) { c.RequiredBytes = 0 }},
		"a topology that its host is in":                {change: func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n9"), onNode("n1")} }},
		"a larger size is required (-33)":               {change: func(c *fsmpb.CreateVolume) { c.RequiredBytes = 2 * gib }, want: Incompatible},
		"the limit is below its size (-33)":             {change: func(c *fsmpb.CreateVolume) { c.RequiredBytes, c.LimitBytes = 1, gib-4096 }, want: Incompatible},
		"other capabilities (-34)":                      {change: func(c *fsmpb.CreateVolume) { c.Capabilities[0].Mode = single }, want: Incompatible},
		"one capability more (-34)":                     {change: func(c *fsmpb.CreateVolume) { c.Capabilities = append(c.Capabilities, block(writer)) }, want: Incompatible},
		"other mount flags (-34)":                       {change: func(c *fsmpb.CreateVolume) { c.Capabilities[0].FlagsFingerprint = []byte{1} }, want: Incompatible},
		"other parameters or another source (-35, -37)": {change: func(c *fsmpb.CreateVolume) { c.Fingerprint = bytesOf("x", 32) }, want: Incompatible},
		"a topology that its host is not in (-36)":      {change: func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n9")} }, want: Incompatible},
	} {
		for _, phase := range []string{"Creating", "Ready"} {
			t.Run(name+" while "+phase, func(t *testing.T) {
				w := newWorld(t)
				if w.ok(controller, create(1)); phase == "Ready" {
					w.report("n1", deviceCreated(1, gib))
				}
				requested := changed(1, tc.change)
				requested.VolumeId = volumeID(2) // each caller brings an id of its own
				if tc.want != 0 {
					w.rejected(tc.want, controller, requested)
				} else {
					require.Equal(t, volumeID(1), w.twice(controller, requested).GetVolumeId())
				}
				require.Equal(t, 1, w.s.VolumeCount())
			})
		}
	}
}

func deviceCreated(n int, size int64) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: size}}}
}

func deviceGone(n int) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}}
}

func TestCreateVolumeRefusesWhatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fsmpb.CreateVolume)
		want   Reason
		says   string
	}{
		"an id that is none":    {func(c *fsmpb.CreateVolume) { c.VolumeId = "../../etc" }, Invalid, "is not a volume id"},
		"no name":               {func(c *fsmpb.CreateVolume) { c.Name = "" }, Invalid, "name"},
		"a name of 129 bytes":   {func(c *fsmpb.CreateVolume) { c.Name = strings.Repeat("x", 129) }, Invalid, "128"},
		"no capability":         {func(c *fsmpb.CreateVolume) { c.Capabilities = nil }, Invalid, "at least one"},
		"a mode of many nodes":  {func(c *fsmpb.CreateVolume) { c.Capabilities[0].Mode = multiRWX }, Invalid, "SINGLE_NODE"},
		"an unknown mode":       {func(c *fsmpb.CreateVolume) { c.Capabilities[0].Mode = 0 }, Invalid, "access mode"},
		"an unknown filesystem": {func(c *fsmpb.CreateVolume) { c.Capabilities[0].FsType = "btrfs" }, Invalid, "btrfs"},
		"two filesystems": {func(c *fsmpb.CreateVolume) {
			c.Capabilities = append(c.Capabilities, &fsmpb.Capability{Mode: writer, FsType: "xfs"})
		}, Invalid, "one filesystem"},
		"three replicas":                 {func(c *fsmpb.CreateVolume) { c.Replicas = 3 }, Invalid, "3 were asked for"},
		"a limit below what is required": {func(c *fsmpb.CreateVolume) { c.LimitBytes = 1 << 20 }, Invalid, "below"},
		"a range between two sizes":      {func(c *fsmpb.CreateVolume) { c.RequiredBytes, c.LimitBytes = gib+1, gib+4000 }, OutOfRange, "multiples"},
		"more than the largest":          {func(c *fsmpb.CreateVolume) { c.RequiredBytes = MaxVolumeSize + 1 }, OutOfRange, "largest"},
		"a topology that nobody has":     {func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n9")} }, NoCapacity, "topology"},
		"more than the pool may reserve": {func(c *fsmpb.CreateVolume) { c.RequiredBytes = MaxVolumeSize }, NoCapacity, "room"},
		"a topology segment given twice": {func(c *fsmpb.CreateVolume) {
			c.Requisite = []*fsmpb.Topology{{Segments: append(onNode("a").Segments, onNode("b").Segments...)}}
		}, Invalid, "twice"},
		"a topology with too many terms":   {func(c *fsmpb.CreateVolume) { c.Requisite = make([]*fsmpb.Topology, 257) }, Invalid, "257"},
		"a fingerprint that is too long":   {func(c *fsmpb.CreateVolume) { c.Fingerprint = make([]byte, 65) }, Invalid, "fingerprint"},
		"flags with a long fingerprint":    {func(c *fsmpb.CreateVolume) { c.Capabilities[0].FlagsFingerprint = make([]byte, 65) }, Invalid, "fingerprint"},
		"a block volume with a filesystem": {func(c *fsmpb.CreateVolume) { c.Capabilities[0].Block = true }, Invalid, "no filesystem"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if name == "more than the pool may reserve" {
				w.ok(controller, changed(7, func(c *fsmpb.CreateVolume) { c.RequiredBytes = 10 << 40 }))
			}
			out := w.rejected(tc.want, controller, changed(1, tc.change))
			require.Contains(t, out.GetRejection().GetMessage(), tc.says)
		})
	}
}

func TestAnIDIsUsedOnce(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.rejected(Incompatible, controller, changed(2, func(c *fsmpb.CreateVolume) { c.VolumeId = volumeID(1) }))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejected(Incompatible, controller, create(1)) // while the removal is pending, the id is taken; the name is free
	w.ok(controller, changed(1, func(c *fsmpb.CreateVolume) { c.VolumeId = volumeID(3) }))
}

func TestAFailedCreateIsPlacedAgain(t *testing.T) {
	for name, fail := range map[string]func(*world){
		"the host gave up": func(w *world) {
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_StepFailed{
				StepFailed: &fsmpb.StepFailed{Step: "create", Error: "no space left on device", Final: true, NoSpace: true}}})
			require.Equal(w.t, Failed{Reason: "no space left on device", NoSpace: true}, w.volume(1).Phase)
		},
		"an operator cancelled it": func(w *world) {
			w.twice(admin, &fsmpb.CancelOperation{OperationId: uint64(w.volume(1).Operation.ID)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldAt(t, Level1)
			w.ok("node/n2", register("n2"))
			first := w.ok(controller, changed(1, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n1")} }))
			fail(w)
			w.rejected(NoCapacity, controller, changed(2, func(c *fsmpb.CreateVolume) { c.Name, c.Requisite = "pvc-1", []*fsmpb.Topology{onNode("n9")} }))
			out := w.twice(controller, changed(2, func(c *fsmpb.CreateVolume) { c.Name = "pvc-1" }))
			require.Equal(t, volumeID(2), out.GetVolumeId())
			require.IsType(t, Deleting{}, w.volume(1).Phase, "the failed device is a pending removal")
			require.Equal(t, OpDelete, w.volume(1).Operation.Kind)
			require.Equal(t, first.GetOperationId(), uint64(w.volume(1).Operation.ID))
			desired, ok := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
			require.True(t, ok)
			require.Equal(t, GoalRemove, desired.Goal)
			w.report("n1", deviceGone(1))
			_, known := w.s.Volume(VolumeID(volumeID(1)))
			require.False(t, known)
			v, ok := w.s.VolumeByName("", "pvc-1")
			require.True(t, ok)
			require.Equal(t, VolumeID(volumeID(2)), v.ID)
		})
	}
}

func TestSizes(t *testing.T) {
	mountOf := func(fs string) []Capability { return []Capability{{Mode: writer, FSType: fs}} }
	raw := []Capability{{Mode: writer, Block: true}}
	for name, tc := range map[string]struct {
		required, limit int64
		of              []Capability
		size            int64
		want            Reason
	}{
		"no range is the default":                  {0, 0, mountOf(ext4), DefaultVolumeSize, 0},
		"no range for xfs":                         {0, 0, mountOf("xfs"), DefaultVolumeSize, 0},
		"a limit above the default":                {0, 2 * gib, mountOf(ext4), DefaultVolumeSize, 0},
		"a limit below the default":                {0, 10<<20 + 1, mountOf(ext4), 10 << 20, 0},
		"a limit below the smallest ext4":          {0, 1<<20 - 1, mountOf(ext4), 0, OutOfRange},
		"a limit below the smallest xfs":           {0, 320<<20 - 1, mountOf("xfs"), 0, OutOfRange},
		"a limit at the smallest xfs":              {0, 320 << 20, mountOf("xfs"), 320 << 20, 0},
		"a limit of less than a unit":              {0, 4095, raw, 0, OutOfRange},
		"one byte raw":                             {1, 0, raw, 4096, 0},
		"one byte ext4":                            {1, 0, mountOf(ext4), 1 << 20, 0},
		"one byte xfs is raised":                   {1, 0, mountOf("xfs"), 320 << 20, 0},
		"one byte of both":                         {1, 0, append(mountOf("xfs"), raw...), 320 << 20, 0},
		"a multiple stays":                         {gib, 0, mountOf(ext4), gib, 0},
		"rounded up":                               {gib + 1, 0, mountOf(ext4), gib + 4096, 0},
		"rounded up to the limit":                  {gib + 1, gib + 4096, mountOf(ext4), gib + 4096, 0},
		"rounded over the limit":                   {gib + 1, gib + 4095, mountOf(ext4), 0, OutOfRange},
		"required and limit equal":                 {gib, gib, mountOf(ext4), gib, 0},
		"the limit is below":                       {gib, gib - 1, mountOf(ext4), 0, Invalid},
		"the largest":                              {MaxVolumeSize, 0, raw, MaxVolumeSize, 0},
		"above the largest":                        {MaxVolumeSize + 1, 0, raw, 0, OutOfRange},
		"the largest number there is":              {1<<63 - 1, 0, raw, 0, OutOfRange},
		"the largest number as a limit":            {gib, 1<<63 - 1, raw, gib, 0},
		"negative":                                 {-1, 0, raw, 0, Invalid},
		"a negative limit":                         {0, -1, raw, 0, Invalid},
		"required below a limit between two sizes": {4097, 8191, raw, 0, OutOfRange},
		"xfs with a limit below its smallest":      {1 << 20, 300 << 20, mountOf("xfs"), 0, OutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				size, rej := SizeFor(tc.required, tc.limit, tc.of)
				require.Equal(t, tc.want, rej.Why())
				if rej == nil {
					require.Equal(t, tc.size, size)
				}
			}
		})
	}
}

func TestPercentOfDoesNotOverflow(t *testing.T) {
	require.EqualValues(t, 2000, percentOf(100, 2000))
	require.EqualValues(t, 1<<63-1, percentOf(1<<62, 2000))
	require.EqualValues(t, 1<<63-1, percentOf(1<<63-1, 1<<32-1))
	require.EqualValues(t, 0, percentOf(99, 1))
}

func TestVolumeIDs(t *testing.T) {
	require.True(t, VolumeID(volumeID(1)).Valid())
	for _, id := range []string{"", "hf-", volumeID(1)[1:], volumeID(1) + "0", "hs-" + volumeID(1)[3:], strings.ToUpper(volumeID(10)), strings.Replace(volumeID(1), "-4", "44", 1)} {
		require.False(t, VolumeID(id).Valid(), id)
	}
	for n := range 3 {
		u, ok := VolumeID(volumeID(n)).uuid()
		require.True(t, ok)
		require.Equal(t, VolumeID(volumeID(n)), volumeIDFromUUID(u))
		packed := u.packed()
		again, ok := unpackUUID(packed[:])
		require.True(t, ok)
		require.Equal(t, u, again)
	}
}

func TestEpochsAreReadAsTheyArePrinted(t *testing.T) {
	e, err := ParseEpoch(Epoch{3, 14}.String())
	require.NoError(t, err)
	require.Equal(t, Epoch{3, 14}, e)
	require.Positive(t, Epoch{2, 1}.Compare(Epoch{1, 99}))
	for _, s := range []string{"", "1", "1.", "01.2", "1.2x", " 1.2", "1.2.3"} {
		_, err := ParseEpoch(s)
		require.Error(t, err, "%q", s)
	}
}

func TestVolumesAreListedInPages(t *testing.T) {
	w := newWorld(t)
	for n := range 5 {
		w.ok(controller, create(n+1))
	}
	var page []string
	for v := range w.s.Volumes(VolumeID(volumeID(2))) {
		if page = append(page, v.Name); len(page) == 2 {
			break
		}
	}
	require.Equal(t, []string{"pvc-3", "pvc-4"}, page)
	reserved, volumes := w.s.PoolUse("pool-n1")
	require.Equal(t, fmt.Sprint(5*gib, 5), fmt.Sprint(reserved, volumes))
}
