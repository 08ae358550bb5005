package drbd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(text)
}

// expectedDevice is what a test expects of a captured /proc/drbd.
type expectedDevice struct {
	connection     fsmpb.ConnectionState
	role, peerRole string
	disk, peerDisk fsmpb.DiskState
	suspended      bool
	percent        int
	outOfSync      int64
}

const (
	dUnknown      = fsmpb.DiskState_DISK_STATE_UNKNOWN
	dDiskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	dInconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	dOutdated     = fsmpb.DiskState_DISK_STATE_OUTDATED
	dConsistent   = fsmpb.DiskState_DISK_STATE_CONSISTENT
	dUpToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE

	cStandAlone = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	cConnecting = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	cConnected  = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
	cSource     = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
	cTarget     = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
)

func TestParseProcOfCapturedStates(t *testing.T) {
	for name, want := range map[string]expectedDevice{
		"connected_primary":      {cConnected, "Primary", "Secondary", dUpToDate, dUpToDate, false, -1, 0},
		"connected_secondary":    {cConnected, "Secondary", "Primary", dUpToDate, dUpToDate, false, -1, 0},
		"standalone_uptodate":    {cStandAlone, "Secondary", "Unknown", dUpToDate, dUnknown, false, -1, 0},
		"suspended":              {cConnecting, "Primary", "Unknown", dUpToDate, dUnknown, true, -1, 0},
		"standalone_suspended":   {cStandAlone, "Primary", "Unknown", dUpToDate, dUnknown, true, -1, 0},
		"primary_alone":          {cStandAlone, "Primary", "Unknown", dUpToDate, dOutdated, false, -1, 0},
		"wfc_secondary":          {cConnecting, "Secondary", "Unknown", dUpToDate, dUnknown, false, -1, 0},
		"promoting":              {cConnecting, "Secondary", "Unknown", dUpToDate, dUnknown, false, -1, 0},
		"loser_detached":         {cConnecting, "Primary", "Unknown", dDiskless, dUnknown, true, -1, 0},
		"diskless_secondary":     {cConnecting, "Secondary", "Unknown", dDiskless, dUnknown, false, -1, 0},
		"outdated_standalone":    {cStandAlone, "Secondary", "Unknown", dConsistent, dUnknown, false, -1, 65532 << 10},
		"consistent_standalone":  {cStandAlone, "Secondary", "Unknown", dConsistent, dUnknown, false, -1, 0},
		"standalone_diskless":    {cStandAlone, "", "", dDiskless, dUnknown, false, -1, 0},
		"peer_diskless":          {cConnected, "Primary", "Secondary", dUpToDate, dDiskless, false, -1, 40 << 10},
		"primary_diskless":       {cConnected, "Primary", "Secondary", dDiskless, dUpToDate, false, -1, 0},
		"primary_diskless_alone": {cConnecting, "Primary", "Unknown", dDiskless, dUnknown, false, -1, 0},
		"sync_source":            {cSource, "Secondary", "Secondary", dUpToDate, dInconsistent, false, 6, 64784 << 10},
		"sync_target":            {cTarget, "Secondary", "Secondary", dInconsistent, dUpToDate, false, 6, 65244 << 10},
		"torn_target":            {cStandAlone, "Secondary", "Unknown", dInconsistent, dUnknown, false, -1, 0},
		"marked_target":          {cStandAlone, "Secondary", "Unknown", dInconsistent, dUnknown, false, -1, 49152 << 10},
		"crashed_attached":       {cStandAlone, "Secondary", "Unknown", dConsistent, dUnknown, false, -1, 65532 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			devices, err := parseProc(readTestdata(t, name+".proc"))
			require.NoError(t, err)
			require.Equal(t, "8.4.11", devices.version)
			d, found := devices.devices[107]
			require.True(t, found)
			require.Equal(t, want, expectedDevice{connectionState(d), d.role, d.peerRole, diskState(d), diskStates[d.peerDisk], d.suspended, d.percent, d.outOfSync})
		})
	}
}

func TestParseProcOfEveryCapturedFile(t *testing.T) {
	files, err := filepath.Glob("testdata/*.proc")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		_, err := parseProc(readTestdata(t, filepath.Base(file)))
		require.NoError(t, err, file)
	}
}

// The lines were captured in guests.
func TestProgressIsReadHoweverItIsSpaced(t *testing.T) {
	for line, want := range map[string]int{
		"\t[===================>] sync'ed:100.0% (260/65532)K":        100,
		"\t[=======>............] verified: 29.0% (114644/155604)K":   29,
		"\t[>...................] sync'ed:  6.3% (65084/65532)K":      6,
		"\tfinish: 0:00:00 speed: 39,364 (39,364) want: 36,880 K/sec": -1,
	} {
		d := procDevice{percent: -1}
		d.parseDetails(line)
		require.Equal(t, want, d.percent, line)
	}
}

func TestAStateThatCannotBeReadIsAnErrorNotAGuess(t *testing.T) {
	for _, text := range []string{"107: cs:Connected ro:Primary", " 1: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C", "107: cs:WFConnection what"} {
		_, err := parseProc(text)
		require.Error(t, err, text)
	}
	devices, err := parseProc("")
	require.NoError(t, err)
	require.Empty(t, devices.devices)
}

func FuzzParseTable(f *testing.F) {
	f.Add(" 1: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----\n    ns:0 oos:4\n")
	f.Fuzz(func(t *testing.T, text string) {
		if devices, err := parseProc(text); err == nil {
			for _, d := range devices.devices {
				require.LessOrEqual(t, d.percent, 100)
			}
		}
	})
}

func TestUUIDsAreReadWithoutTheBitThatSaysPrimary(t *testing.T) {
	for name, want := range map[string]diskMetadata{
		"connected_primary":   {found: true, uuid: 0x82CB38916AD3EDA2},
		"connected_secondary": {found: true, uuid: 0x82CB38916AD3EDA2},
		"crashed_attached":    {found: true, uuid: 0xAED6F6537B712B14},
	} {
		md, err := parseMetadata(readTestdata(t, name+".gi"))
		require.NoError(t, err)
		require.Equal(t, want, md, name)
	}
	fresh, err := parseMetadata("0000000000000004:0000000000000000:0000000000000000:0000000000000000:0:0:0:0:0:0:0\n")
	require.NoError(t, err)
	require.Equal(t, diskMetadata{found: true, fresh: true}, fresh)
	_, err = parseMetadata(readTestdata(t, "loser_detached.gi"))
	require.Error(t, err)
}

func TestEventsNameTheirVolumesAndMinors(t *testing.T) {
	text := readTestdata(t, "connected_primary.events")
	require.Equal(t, []fsm.VolumeID{testVolume}, parseVolumes(text))
	require.Equal(t, map[uint32]fsm.VolumeID{107: testVolume}, parseMinors(text))
	require.Empty(t, parseVolumes("exists -\nexists resource name:r0 role:Secondary\n"), "what is not ours is not a volume")
}

func TestEventsAreHandledInWholeLines(t *testing.T) {
	var named []fsm.VolumeID
	lines := &eventWriter{changed: func(id fsm.VolumeID) { named = append(named, id) }}
	text := "change resource name:" + string(testVolume) + " role:Primary\n"
	for _, part := range []string{text[:30], text[30:50], text[50:] + "change", " nothing", strings.Repeat("x", maxLineBytes+1)} {
		n, err := lines.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, []fsm.VolumeID{testVolume}, named)
	require.Empty(t, lines.partial, "a line that does not end is not kept")
}

func TestParseProcOfARequestThatWaits(t *testing.T) {
	devices, err := parseProc(readTestdata(t, "flush_lost.proc"))
	require.NoError(t, err)
	require.EqualValues(t, 1, devices.devices[107].requests)
	require.EqualValues(t, (2686+14909+2519)<<10, devices.devices[107].transferred)
	require.EqualValues(t, 0, devices.devices[108].requests)
}
