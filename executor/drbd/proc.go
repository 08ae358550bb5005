package drbd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// device is what /proc/drbd says of one minor.
type device struct {
	minor          uint32
	connection     string // as the kernel calls it, "Unconfigured" when there is neither disk nor peer
	role, peerRole string
	disk, peerDisk string
	suspended      bool
	outOfSync      int64 // bytes
	percent        int   // -1: nothing is under way
}

// table is the whole of /proc/drbd.
type table struct {
	version string // such as 8.4.11
	devices map[uint32]device
}

// unconfigured is the kernel's word for a minor with neither disk nor peer.
const unconfigured = "Unconfigured"

var (
	versionLine = regexp.MustCompile(`^version: (\S+)`)
	deviceLine  = regexp.MustCompile(`^ *(\d+): cs:(\S+)(.*)$`)
	stateFields = regexp.MustCompile(`^ ro:([^/]+)/(\S+) ds:([^/]+)/(\S+) .*?([rs])[-a-z]{4}[-s]\s*$`)
	oosField    = regexp.MustCompile(` oos:(\d+)`)
	doneField   = regexp.MustCompile(`(?:sync'ed|verified): *(\d+)`)
)

// readTable reads /proc/drbd. It asks no command, so it answers also while one hangs.
func (r *Replicator) readTable() (table, error) {
	text, err := os.ReadFile(filepath.Join(r.config.proc, "drbd"))
	if err != nil {
		return table{}, fmt.Errorf("read what the kernel says of DRBD: %w", err)
	}
	t, err := parseTable(string(text))
	if err != nil {
		return table{}, fmt.Errorf("read what the kernel says of DRBD: %w", err)
	}
	return t, nil
}

func parseTable(text string) (table, error) {
	t := table{devices: map[uint32]device{}}
	var last *device
	keep := func() {
		if last != nil {
			t.devices[last.minor] = *last
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := versionLine.FindStringSubmatch(line); m != nil {
			t.version = m[1]
			continue
		}
		m := deviceLine.FindStringSubmatch(line)
		if m == nil {
			last.read(line)
			continue
		}
		keep()
		d, err := parseDevice(m[1], m[2], m[3])
		if err != nil {
			return table{}, err
		}
		last = &d
	}
	keep()
	return t, nil
}

func parseDevice(minor, connection, rest string) (device, error) {
	n, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return device{}, fmt.Errorf("minor %q: %w", minor, err)
	}
	d := device{minor: uint32(n), connection: connection, percent: -1}
	m := stateFields.FindStringSubmatch(rest)
	switch {
	case m != nil:
		d.role, d.peerRole, d.disk, d.peerDisk, d.suspended = m[1], m[2], m[3], m[4], m[5] == "s"
	case connection != unconfigured:
		return device{}, fmt.Errorf("minor %d: cannot read %q", n, rest)
	}
	return d, nil
}

// read takes what the lines below a device's first say.
func (d *device) read(line string) {
	if d == nil {
		return
	}
	if m := oosField.FindStringSubmatch(line); m != nil {
		if kib, err := strconv.ParseInt(m[1], 10, 53); err == nil {
			d.outOfSync = kib << 10
		}
	}
	if m := doneField.FindStringSubmatch(line); m != nil {
		if percent, err := strconv.Atoi(m[1]); err == nil {
			d.percent = min(percent, 100)
		}
	}
}

// attached tells whether the kernel has the device below open.
func (d device) attached() bool {
	return d.connection != unconfigured && d.disk != "" && d.disk != "Diskless"
}

// standAlone tells whether the kernel has no peer for it.
func (d device) standAlone() bool {
	return d.connection == unconfigured || d.connection == "StandAlone"
}

func (d device) primary() bool { return d.role == "Primary" }
func (d device) connected() bool {
	return connectionState(d) >= fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
}

var diskStates = map[string]fsmpb.DiskState{
	"Diskless":     fsmpb.DiskState_DISK_STATE_DISKLESS,
	"Attaching":    fsmpb.DiskState_DISK_STATE_ATTACHING,
	"Failed":       fsmpb.DiskState_DISK_STATE_FAILED,
	"Negotiating":  fsmpb.DiskState_DISK_STATE_NEGOTIATING,
	"Inconsistent": fsmpb.DiskState_DISK_STATE_INCONSISTENT,
	"Outdated":     fsmpb.DiskState_DISK_STATE_OUTDATED,
	"Consistent":   fsmpb.DiskState_DISK_STATE_CONSISTENT,
	"UpToDate":     fsmpb.DiskState_DISK_STATE_UP_TO_DATE,
}

// connectionStates are those that last; every other name is a step on the way to a
// connection or from it.
var connectionStates = map[string]fsmpb.ConnectionState{
	"StandAlone":    fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE,
	unconfigured:    fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE,
	"Connected":     fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED,
	"StartingSyncS": fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE,
	"WFBitMapS":     fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE,
	"SyncSource":    fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE,
	"PausedSyncS":   fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE,
	"Ahead":         fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE,
	"StartingSyncT": fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET,
	"WFBitMapT":     fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET,
	"WFSyncUUID":    fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET,
	"SyncTarget":    fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET,
	"PausedSyncT":   fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET,
	"Behind":        fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET,
	"VerifyS":       fsmpb.ConnectionState_CONNECTION_STATE_VERIFYING,
	"VerifyT":       fsmpb.ConnectionState_CONNECTION_STATE_VERIFYING,
}

func connectionState(d device) fsmpb.ConnectionState {
	if state, lasting := connectionStates[d.connection]; lasting {
		return state
	}
	return fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
}

func diskState(d device) fsmpb.DiskState {
	if d.connection == unconfigured {
		return fsmpb.DiskState_DISK_STATE_DISKLESS
	}
	return diskStates[d.disk]
}
