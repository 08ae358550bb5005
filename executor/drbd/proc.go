package drbd

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// procDevice is what /proc/drbd says of one minor.
type procDevice struct {
	minor          uint32
	connection     string // in the kernel's words, "Unconfigured" when there is neither disk nor peer
	role, peerRole string
	disk, peerDisk string
	suspended      bool
	outOfSync      int64 // bytes
	percent        int   // -1: no synchronisation is running
	requests       int64 // of whoever has it open, that have not ended
	transferred    int64 // bytes, over the network and to and from the disk
}

// procTable is the content of /proc/drbd.
type procTable struct {
	version string // such as 8.4.11
	devices map[uint32]procDevice
}

// csUnconfigured is the connection state of a minor with neither disk nor peer.
const csUnconfigured = "Unconfigured"

var (
	versionLine = regexp.MustCompile(`^version: (\S+)`)
	deviceLine  = regexp.MustCompile(`^ *(\d+): cs:(\S+)(.*)$`)
	stateFields = regexp.MustCompile(`^ ro:([^/]+)/(\S+) ds:([^/]+)/(\S+) .*?([rs])[-a-z]{4}[-s]\s*$`)
	countFields = regexp.MustCompile(`\b(ns|nr|dw|dr|ap):(\d+)`)
	oosField    = regexp.MustCompile(` oos:(\d+)`)
	doneField   = regexp.MustCompile(`(?:sync'ed|verified): *(\d+)`)
)

func parseProc(text string) (procTable, error) {
	t := procTable{devices: map[uint32]procDevice{}}
	var last *procDevice
	flush := func() {
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
			last.parseDetails(line)
			continue
		}
		flush()
		d, err := parseDevice(m[1], m[2], m[3])
		if err != nil {
			return procTable{}, err
		}
		last = &d
	}
	flush()
	return t, nil
}

func parseDevice(minor, connection, details string) (procDevice, error) {
	n, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return procDevice{}, fmt.Errorf("minor %q: %w", minor, err)
	}
	d := procDevice{minor: uint32(n), connection: connection, percent: -1}
	m := stateFields.FindStringSubmatch(details)
	switch {
	case m != nil:
		d.role, d.peerRole, d.disk, d.peerDisk, d.suspended = m[1], m[2], m[3], m[4], m[5] == "s"
	case connection != csUnconfigured:
		return procDevice{}, fmt.Errorf("minor %d: cannot read %q", n, details)
	}
	return d, nil
}

// parseDetails reads the lines that follow a device's first one.
func (d *procDevice) parseDetails(line string) {
	if d == nil {
		return
	}
	d.parseCounts(line)
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

func (d *procDevice) parseCounts(line string) {
	for _, m := range countFields.FindAllStringSubmatch(line, -1) {
		switch n, err := strconv.ParseInt(m[2], 10, 53); {
		case err != nil:
		case m[1] == "ap":
			d.requests = n
		default:
			d.transferred += n << 10
		}
	}
}

// attached reports whether the kernel has the backing device open.
func (d procDevice) attached() bool {
	return d.connection != csUnconfigured && d.disk != "" && d.disk != "Diskless"
}

// standAlone reports whether the kernel has no connection configured for the device.
func (d procDevice) standAlone() bool {
	return d.connection == csUnconfigured || d.connection == "StandAlone"
}

func (d procDevice) primary() bool { return d.role == "Primary" }

func (d procDevice) connected() bool {
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

// connectionStates are the lasting states of a connection; every other name is a transition.
var connectionStates = map[string]fsmpb.ConnectionState{
	"StandAlone":    fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE,
	csUnconfigured:  fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE,
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

func connectionState(d procDevice) fsmpb.ConnectionState {
	if state, stable := connectionStates[d.connection]; stable {
		return state
	}
	return fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
}

func diskState(d procDevice) fsmpb.DiskState {
	if d.connection == csUnconfigured {
		return fsmpb.DiskState_DISK_STATE_DISKLESS
	}
	return diskStates[d.disk]
}
