package drbd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const dumpedUUID = 0xA1B2C3D4E5F60718

// readDump is what drbdmeta 9.22 printed of metadata, with the flags of get-gi where the dump has none.
func readDump(t *testing.T, name string) []byte {
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	require.NoError(t, err)
	if gi, err := os.ReadFile(filepath.Join("testdata", name+".gi.txt")); err == nil {
		text, err = setFlags(text, string(gi))
		require.NoError(t, err)
	}
	return text
}

func TestDumpsOfBothFormatsAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		want        *fsmpb.DrbdMetadata
		pair, alone string // why it may not be imported with a peer, or alone
	}{
		"dump-v08-whole": {&fsmpb.DrbdMetadata{Format: 8, CurrentUuid: dumpedUUID, ContentBytes: 67067904, Consistent: true, UpToDate: true, Peers: []*fsmpb.DrbdPeer{{}}}, "", ""},
		"dump-v08-behind": {&fsmpb.DrbdMetadata{Format: 8, CurrentUuid: dumpedUUID, ContentBytes: 67067904, Consistent: true, UpToDate: true, Peers: []*fsmpb.DrbdPeer{
			{BitmapUuid: 0x1111222233334444, Behind: true, OutOfSyncBits: 10},
		}}, "went on without", ""},
		"dump-v08-created": {&fsmpb.DrbdMetadata{Format: 8, CurrentUuid: justCreated, Peers: []*fsmpb.DrbdPeer{{}}}, "just created", "just created"},
		"dump-v09-whole": {&fsmpb.DrbdMetadata{Format: 9, CurrentUuid: dumpedUUID, ContentBytes: 67051520, DrbdNode: 1, Consistent: true, UpToDate: true, Peers: []*fsmpb.DrbdPeer{
			{DrbdNode: 0}, {DrbdNode: 2, BitmapUuid: 0x1111222233334444, Behind: true, OutOfSyncBits: 10},
		}}, "", ""},
		"dump-v09-created": {&fsmpb.DrbdMetadata{Format: 9, CurrentUuid: justCreated, DrbdNode: -1}, "just created", "just created"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := parseDump(readDump(t, name))
			require.NoError(t, err)
			require.True(t, proto.Equal(tc.want, m), "%v", m)
			for why, says := range map[string]string{fsm.DRBDUnfit(m, true, 0): tc.pair, fsm.DRBDUnfit(m, false, 0): tc.alone} {
				require.Contains(t, why, says)
				require.Equal(t, says == "", why == "")
			}
		})
	}
}

// What a decision needs is never guessed: half a dump, or one that says something else, is an error.
func TestDumpsThatCannotBeReadAreErrors(t *testing.T) {
	whole := string(readDump(t, "dump-v09-whole"))
	whole8 := string(readDump(t, "dump-v08-whole"))
	for name, text := range map[string]string{
		"nothing":                           "",
		"half of it":                        whole[:len(whole)/2],
		"without its end":                   whole[:strings.LastIndex(whole, "}")],
		"another format":                    strings.Replace(whole, `"v09"`, `"v07"`, 1),
		"without flags":                     strings.Replace(whole, "\nflags 0x", "\nfrags 0x", 1),
		"without a size":                    strings.Replace(whole, "la-size-sect", "la-size", 1),
		"an impossible size":                strings.Replace(whole, "la-size-sect 1", "la-size-sect 0xFFFFFFFFFFFFFF1; #", 1),
		"marks of a kind that is not known": strings.Replace(whole, "292 times 0x0000000000000000;", "292 of 0x0000000000000000;", 1),
		"without its generation":            strings.Replace(whole, "current-uuid", "uuid-current", 1),
		"a peer's flags of another kind":    strings.Replace(whole, "    flags 0x00010010;", "    flags seen,exists;", 1),
		"a peer without flags":              strings.Replace(whole, "    flags 0x00010010;", "", 1),
		"a bitmap-uuid of another kind":     strings.Replace(whole, "    bitmap-uuid 0x", "    bitmap-uuid ~0x", 1),
		"without a peer's bitmap":           strings.Replace(whole, "bitmap[0] {", "bitmap[9] {", 1),
		"a peer's bitmap without a line":    strings.Replace(strings.Replace(whole, "    292 times 0x0000000000000000;", "", 1), "    0x0000000000000000;\n}", "}", 1),
		"v08 without its bitmap":            strings.Replace(whole8, "bm {", "bn {", 1),
		"v08, a bitmap without a line":      strings.Replace(whole8, "    512 times 0x0000000000000000;", "", 1),
	} {
		_, err := parseDump([]byte(text))
		require.Error(t, err, name)
	}
	_, err := setFlags([]byte("flags 0x0;"), "no metadata")
	require.Error(t, err)
}

// Metadata of DRBD 8.4 with the same device above them always fit behind content that lies before those of DRBD 9, and no
// size is accepted of which the kernel forgets marks.
func TestMetadataOfDRBD8FitBehindTheContent(t *testing.T) {
	r := &Replicator{}
	var refused int
	for _, backing := range []int64{4 << 20, 64 << 20, 1 << 30, 1<<30 + 4<<20, 128 << 30, 1 << 40, 6912 << 20} {
		for extent := range int64(64) {
			device := backing + extent*(4<<20)
			for _, peers := range []int64{1, 7, 31} { // DRBD 9 has a bitmap for each
				bitmap := (device + bytesPerBitmapSector - 1) / bytesPerBitmapSector * sectorBytes * peers
				content := device - roundUp(bitmap) - activityLogBytes - superblockBytes
				size, _ := r.ReplicatedBytes(device)
				if content > 0 {
					require.GreaterOrEqual(t, size, content-content%fsm.VolumeSizeUnit)
				}
			}
			size, why := r.ReplicatedBytes(device)
			require.Equal(t, deviceBytes(device)%bitmapWordBytes == 0, why != "")
			if why != "" {
				refused++
				require.Contains(t, why, "lvextend")
				_, again := r.ReplicatedBytes(marksKept(device))
				require.Empty(t, again)
				require.LessOrEqual(t, marksKept(device)-device, int64(128<<20))
			}
			require.Equal(t, deviceBytes(device), size)
		}
	}
	require.Positive(t, refused, "a size of 6.8 GiB is one of which marks are forgotten")
	_, why := r.ReplicatedBytes(32 << 10)
	require.Contains(t, why, "too small")
}

// With the real tools: metadata of others are read from a closed device only, kept, overwritten with zeroes behind the
// content and nowhere else, and made again from what was kept.
func TestForeignMetadataAreKeptAndOverwritten(t *testing.T) {
	if _, err := exec.LookPath("drbdmeta"); err != nil || os.Geteuid() != 0 {
		t.Skip("it takes root and drbd-utils")
	}
	for _, format := range []string{"v08", "v09"} {
		t.Run(format, func(t *testing.T) {
			device := loopDevice(t, 64<<20)
			r := New(Config{})
			none, dump, err := r.ForeignMetadata(t.Context(), device)
			require.NoError(t, err)
			require.Nil(t, none)
			require.Empty(t, dump)

			restoreMetadata(t, device, format, readDump(t, "dump-"+format+"-whole"))
			content := strings.Repeat("content ", 1<<10)
			before, _, err := r.ForeignMetadata(t.Context(), device)
			require.NoError(t, err)
			writeAt(t, device, before.GetContentBytes()-int64(len(content)), content)
			for range 2 {
				read, dump, err := r.ForeignMetadata(t.Context(), device)
				require.NoError(t, err)
				require.True(t, proto.Equal(before, read), "%v", read)
				require.Equal(t, before.GetConsistent() && before.GetUpToDate(), true)
				require.NoError(t, r.ClearBehind(t.Context(), device, before.GetContentBytes()))
				require.NoError(t, r.ClearBehind(t.Context(), device, before.GetContentBytes()), "again")
				gone, _, err := r.ForeignMetadata(t.Context(), device)
				require.NoError(t, err)
				require.Nil(t, gone)
				all, err := os.ReadFile(device)
				require.NoError(t, err)
				require.Equal(t, content, string(all[before.GetContentBytes()-int64(len(content)):before.GetContentBytes()]))
				require.Empty(t, strings.Trim(string(all[before.GetContentBytes():]), "\x00"))
				restoreMetadata(t, device, format, dump)
			}
			unclean := strings.Replace(string(readDump(t, "dump-"+format+"-whole")), "flags 0x00000091", "flags 0x00000011", 1)
			restoreMetadata(t, device, format, []byte(unclean))
			_, _, err = r.ForeignMetadata(t.Context(), device)
			require.ErrorContains(t, err, "drbdadm apply-al")
			require.Error(t, r.ClearBehind(t.Context(), device, 0))
			require.Error(t, r.ClearBehind(t.Context(), device, 65<<20))
		})
	}
}

func loopDevice(t *testing.T, size int64) string {
	file := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, size))
	out, err := run.New().Run(t.Context(), run.Command{Tool: "losetup", Args: []string{"--find", "--show", file}})
	require.NoError(t, err)
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	return device
}

func restoreMetadata(t *testing.T, device, format string, dump []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump")
	require.NoError(t, os.WriteFile(file, dump, 0o600))
	out, err := exec.Command("drbdmeta", "--force", "-", format, device, "internal", "restore-md", file).CombinedOutput()
	require.NoError(t, err, string(out))
	_ = os.Remove("/var/lib/drbd/drbd-minor--1.lkbd") // where the tool notes the place of what it wrote
}

func writeAt(t *testing.T, device string, at int64, text string) {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(text), at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
