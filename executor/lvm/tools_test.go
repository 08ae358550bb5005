package lvm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/run"
)

func TestKnownToolFailuresAreClassified(t *testing.T) {
	want := map[string]error{
		"err-lvm-5-no-group": errNoGroup, "err-lvm-5-missing": errMissing, "err-lvm-5-exists": errExists,
		"err-lvm-5-in-use-above": errInUse, "err-lvm-5-mounted": errInUse, "err-lvm-5-open": errInUse,
		"err-lvm-5-same-size": errSameSize, "err-lvm-5-orphan": errOrphan, "err-lvm-5-full": errFull,
		"err-dmsetup-1-busy": errDMInUse, "err-dmsetup-1-held": errDMInUse, "err-dmsetup-1-no-device": errNoMapping, "err-dmsetup-1-not-held": errNoMetadataSnap,
		"err-thin_dump-1-not-held": errNoMetadataSnap, "err-thin_ls-1-not-held": errNoMetadataSnap,
	}
	files, err := fs.Glob(capturedFiles, "testdata/err-*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		part := strings.SplitN(name, "-", 4)
		code, err := strconv.Atoi(part[2])
		require.NoError(t, err)
		text := strings.Join(strings.Fields(string(readTestdata(t, name+".txt"))), " ")
		text = text[max(0, len(text)-512):] // as much as run.Error keeps
		failed := &run.Error{Tool: part[1], Code: code, Output: text}
		require.ErrorIs(t, classifyError(failed), want[name], name)
		var kept *run.Error
		require.ErrorAs(t, classifyError(failed), &kept, "the output is kept")
		failed.Code++
		require.Equal(t, error(failed), classifyError(failed), "another exit code means something else")
	}
	require.NoError(t, classifyError(nil))
	require.ErrorIs(t, classifyError(os.ErrPermission), os.ErrPermission)
}

func TestGlobalFilterExcludesVolumesAndTheirLayers(t *testing.T) {
	ours := `"r|^/dev/drbd|","r|^/dev/loop|","r|^/dev/nbd|","r|^/dev/mapper/hfc-|","r|^/dev/vg-a[.]b/h[fs]-|","r|^/dev/mapper/vg--a[.]b-h[fs]--|"`
	for name, tc := range map[string]struct{ own, want string }{
		"a host without a filter":               {want: "[" + ours + "]"},
		"one that could not be read":            {own: "nonsense", want: "[" + ours + "]"},
		"a filter that accepts everything":      {own: `global_filter=["a|.*|"]`, want: "[" + ours + "]"},
		"another way to accept everything":      {own: `global_filter=["r|^/dev/sr0|","a/.*/"]`, want: "[" + ours + `,"r|^/dev/sr0|"]`},
		"a filter that was captured stays":      {own: string(readTestdata(t, "lvmconfig.txt")), want: "[" + ours + `,"a|/dev/ubd.*|","r|.*|"]`},
		"what it accepts in its middle, stays":  {own: `global_filter=["a|.*|","r|^/dev/sr0|"]`, want: "[" + ours + `,"a|.*|","r|^/dev/sr0|"]`},
		"a quote in a pattern does not end it":  {own: `global_filter=["r|x\"y|"]`, want: "[" + ours + `,"r|x\"y|"]`},
		"an empty one":                          {own: `global_filter=[]`, want: "[" + ours + "]"},
		"a pattern that is too short is theirs": {own: `global_filter=["a"]`, want: "[" + ours + `,"a"]`},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, globalFilter("vg-a.b", tc.own))
			}
		})
	}
}

func TestWithoutUdevLVMMakesItsNodesItself(t *testing.T) {
	with, without := lvmConfig("vg", "", true), lvmConfig("vg", "", false)
	require.NotContains(t, with, "udev")
	for _, setting := range []string{"activation/udev_sync=0", "activation/udev_rules=0", "devices/obtain_device_list_from_udev=0"} {
		require.Contains(t, strings.Fields(without), setting)
	}
	for _, setting := range []string{"devices/scan_lvs=0", "activation/monitoring=0"} {
		require.Contains(t, strings.Fields(with), setting)
	}
}

func TestNamesInTheDeviceMapperAreAsLVMMakesThem(t *testing.T) {
	require.Equal(t, "vg--a-pool-tpool", dmName("vg-a", "pool", "tpool"))
	p := &thinPool{Config: Config{VG: "vg-a"}}
	require.Equal(t, "vg--a-hf--6f1d3a52--7f3b--4c1e--8a44--0e7d9d2b1c10-holdfast", p.layerName(testVolumeID))
	require.Equal(t, "LVM-BRTkP5lN02SkLByDpSGQKeHWqW41IaKRJrmSkjJT0bjZkYhgwegAokPrr1aP1hM6-holdfast",
		layerUUID("BRTkP5-lN02-SkLB-yDpS-GQKe-HWqW-41IaKR", "JrmSkj-JT0b-jZkY-hgwe-gAok-Prr1-aP1hM6"))
	require.Equal(t, "JrmSkjJT0bjZkYhgwegAokPrr1aP1hM6", volumeUUID("LVM-BRTkP5lN02SkLByDpSGQKeHWqW41IaKRJrmSkjJT0bjZkYhgwegAokPrr1aP1hM6"))
	require.Empty(t, volumeUUID("CRYPT-x"))
	require.Less(t, len(dmName(strings.Repeat("-", 20), string(testVolumeID), layerSuffix)), dmNameLength)
}

func TestNamesThatLVMWouldTakeForSomethingElseAreRefused(t *testing.T) {
	require.NoError(t, checkNames("vg-a", "pool.0+_"))
	for _, name := range []string{"", "-x", "a/b", ".", "..", "a b", `a"b`, "a\x00", "@tag", strings.Repeat("x", 64)} {
		require.Error(t, checkNames(name, "pool"), name)
		require.Error(t, checkNames("vg", name), name)
	}
	require.ErrorContains(t, checkNames("vg", string(testVolumeID)), "named like a volume")
}

func TestANewPoolTakesNineTenthsAndHasMetadataForItsSnapshots(t *testing.T) {
	for name, tc := range map[string]struct {
		free, extent int64
		want         geometry
	}{
		"a small group":         {free: 1196 << 20, extent: 4 << 20, want: geometry{data: 1060 << 20, metadata: 8 << 20, chunk: 64 << 10}},
		"a disk of 1 TiB":       {free: 1 << 40, extent: 4 << 20, want: geometry{data: 938_996 << 20, metadata: 2360 << 20, chunk: 64 << 10}},
		"nothing free":          {free: 0, extent: 4 << 20, want: geometry{data: -16 << 20, metadata: 8 << 20, chunk: 64 << 10}},
		"40 TiB, larger chunks": {free: 40 << 40, extent: 4 << 20, want: geometry{data: 37_718_012 << 20, metadata: 15 << 30, chunk: 256 << 10}},
	} {
		t.Run(name, func(t *testing.T) {
			g := planGeometry(tc.free, tc.extent)
			require.Equal(t, tc.want, g)
			require.LessOrEqual(t, g.data+2*g.metadata, max(tc.free/100*90, 0))
		})
	}
}

func TestPredecessorsCommandsAreFound(t *testing.T) {
	tools := &tools{config: `devices/global_filter=["r|^/dev/drbd|"] devices/scan_lvs=0`}
	proc := t.TempDir()
	process := func(pid, parent int, argv ...string) {
		folder := filepath.Join(proc, strconv.Itoa(pid))
		require.NoError(t, os.Mkdir(folder, 0o700))
		stat := strconv.Itoa(pid) + " (a (b) c) S " + strconv.Itoa(parent) + " 1 1"
		require.NoError(t, errors.Join(os.WriteFile(folder+"/cmdline", []byte(strings.Join(argv, "\x00")+"\x00"), 0o600),
			os.WriteFile(folder+"/stat", []byte(stat), 0o600)))
	}
	const self = 4000
	process(1, 0, "init")
	process(10, self, "/sbin/lvm", "lvcreate", "--config", tools.config, "-y")
	process(11, 1, "/sbin/lvm", "lvcreate", "--config", "another group's", "-y")
	require.Empty(t, tools.predecessors(proc, self))
	process(12, 1, "/sbin/lvm", "lvchange", "--config", tools.config, "-y")
	require.Equal(t, []int{12}, tools.predecessors(proc, self))
	waited, err := tools.waitPredecessors(t.Context())
	require.NoError(t, err)
	require.False(t, waited, "there is none on this host")
}
