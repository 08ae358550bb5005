package fsm

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	diskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	inconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	consistent   = fsmpb.DiskState_DISK_STATE_CONSISTENT
	upToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE

	standAlone = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	connecting = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	connected  = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
	syncSource = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
	syncTarget = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
)

// writes is a set of numbered writes.
type writes [8]uint64

func (w *writes) add(n int) { w[n/64%8] |= 1 << (n % 64) }
func (w *writes) lacks(o *writes) bool {
	for i := range w {
		if o[i]&^w[i] != 0 {
			return true
		}
	}
	return false
}

// mirror is one host's DRBD as far as it decides what is written where.
type simReplica struct {
	// On disk.
	data                                             writes
	uuid, bitmap                                     uint64 // current, and the one the peer was left behind with
	history                                          []uint64
	peerOutdatedFlag, crashed, syncUnfinished, fresh bool // flags of the metadata; half: a synchronisation was not finished
	// In the kernel.
	powered, configured bool // powered; configured in the kernel
	disk                fsmpb.DiskState
	primary, suspended  bool
	standAlone          bool
	peerDiskOutdated    bool   // it knows that its peer is outdated
	discard             bool   // it connects with --discard-my-data
	exposedUUID         uint64 // what a diskless primary last showed
	disconnects         int    // counts connections that were made and lost
}

// simDRBD are the two of them, and what is between them.
type simDRBD struct {
	replicas     [2]*simReplica
	link         bool
	connected    bool
	syncTarget   int // of a synchronisation, -1: none
	nextUUID     uint64
	failure      string // the first thing that must not be
	splitBrains  int
	attaching    bool
	acknowledged writes
	count        int
}

func newSimDRBD() *simDRBD {
	k := &simDRBD{link: true, syncTarget: -1, nextUUID: 100}
	for i := range k.replicas {
		k.replicas[i] = &simReplica{powered: true, standAlone: true, fresh: true}
	}
	return k
}

func (k *simDRBD) fail(what string) {
	if k.failure == "" {
		k.failure = what
	}
}

func (k *simDRBD) newUUID(m *simReplica) {
	k.nextUUID++
	if m.bitmap == 0 {
		m.bitmap = m.uuid
	}
	m.uuid = k.nextUUID
}

// writePeerFlags is what the kernel writes down about its peer.
func (k *simDRBD) writePeerFlags(i int) {
	m, p := k.replicas[i], k.replicas[1-i]
	if m.disk <= diskless {
		return
	}
	if k.connected {
		m.peerOutdatedFlag = p.disk == inconsistent
		m.peerDiskOutdated = false
		return
	}
	m.peerOutdatedFlag = m.peerDiskOutdated
}

// disconnect ends the connection, as every loss does.
func (k *simDRBD) disconnect() {
	if !k.connected {
		return
	}
	k.connected, k.syncTarget = false, -1
	for i, m := range k.replicas {
		if !m.powered {
			continue
		}
		m.disconnects++
		m.peerDiskOutdated = false
		if m.primary {
			m.suspended = true // fencing resource-and-stonith
		}
		k.writePeerFlags(i)
	}
}

// write is one of the application's: acknowledged only when every disk that counts has it.
func (k *simDRBD) write(i int) {
	m, p := k.replicas[i], k.replicas[1-i]
	if !m.powered || !m.primary || m.suspended || k.count >= 500 {
		return
	}
	own, other := m.disk == upToDate, k.connected && p.disk >= inconsistent && p.disk != consistent
	if !own && !(k.connected && p.disk == upToDate) {
		return // no data accessible: an I/O error
	}
	k.count++
	if own {
		m.data.add(k.count)
	}
	if other {
		p.data.add(k.count)
	}
	k.acknowledged.add(k.count)
	if own && !k.connected && m.bitmap == 0 {
		k.fail("a primary wrote alone in the generation that its peer has")
	}
}

// failDisk is an I/O error below: the disk is detached, and nobody is asked (S5).
func (k *simDRBD) failDisk(i int) {
	m, p := k.replicas[i], k.replicas[1-i]
	if !m.powered || m.disk <= diskless {
		return
	}
	k.writePeerFlags(i)
	m.exposedUUID = m.uuid
	m.disk = diskless
	m.crashed = m.crashed || m.primary
	if k.syncTarget >= 0 {
		k.syncTarget = -1
	}
	if !k.connected {
		return
	}
	if (m.primary || p.primary) && p.disk == upToDate {
		if p.bitmap == 0 {
			k.newUUID(p)
		}
		m.exposedUUID = p.uuid
	}
	k.writePeerFlags(1 - i)
}

// attach reads what the metadata say.
func (k *simDRBD) attach(i int) {
	m, p := k.replicas[i], k.replicas[1-i]
	if !m.powered || m.configured && m.disk > diskless {
		return
	}
	if m.primary && !k.connected && m.uuid != m.exposedUUID || k.connected && p.primary && p.disk <= diskless && m.uuid != p.exposedUUID {
		return // "can only attach to data with current UUID"
	}
	m.configured = true
	switch {
	case m.syncUnfinished:
		m.disk = inconsistent
	case m.peerOutdatedFlag && !k.connected:
		m.disk, m.peerDiskOutdated = upToDate, true
	default:
		m.disk = consistent
	}
	if k.connected { // it negotiates as if it connected anew
		k.connected, k.attaching = false, true
		primary := [2]bool{k.replicas[0].suspended, k.replicas[1].suspended}
		k.connect()
		if k.attaching = false; !k.connected {
			m.disk = diskless
			k.connected = true
			k.replicas[0].suspended, k.replicas[1].suspended = primary[0], primary[1]
		}
	}
}

// powerOff loses all that is not on disk.
func (k *simDRBD) powerOff(i int) {
	m := k.replicas[i]
	if !m.powered {
		return
	}
	if m.primary && m.disk > diskless {
		m.crashed = true
	}
	m.powered = false
	if k.connected {
		m.primary = false
		k.disconnect()
	}
	m.configured, m.disk, m.primary, m.suspended, m.standAlone, m.peerDiskOutdated, m.discard = false, 0, false, false, true, false, false
}

// resume ends a freeze with the peer known to be outdated, or not.
func (k *simDRBD) resume(i int, peerOut bool) {
	m := k.replicas[i]
	if k.connected || !m.suspended {
		return
	}
	m.suspended = false
	if m.disk != upToDate {
		return
	}
	if m.data.lacks(&k.acknowledged) {
		k.fail("a primary went on alone without an acknowledged write")
	}
	m.peerDiskOutdated = peerOut
	if m.bitmap == 0 {
		k.newUUID(m)
	}
	k.writePeerFlags(i)
}

// setPrimary is the kernel's part: asked says that it must ask its handler first.
func (k *simDRBD) setPrimary(i int, fenced bool) (asks bool) {
	m, p := k.replicas[i], k.replicas[1-i]
	if !m.powered || !m.configured || m.primary || k.connected && p.primary || m.disk != upToDate && m.disk != consistent {
		return false
	}
	if k.connected && m.disk != upToDate {
		return false
	}
	if !k.connected && !m.peerDiskOutdated && !fenced {
		return true
	}
	if !k.connected {
		m.peerDiskOutdated, m.disk = true, upToDate
	}
	m.primary = true
	if (!k.connected || p.disk <= diskless) && m.bitmap == 0 {
		k.newUUID(m)
	}
	k.writePeerFlags(i)
	if m.data.lacks(&k.acknowledged) {
		k.fail("a replica became primary without an acknowledged write")
	}
	return false
}

func (k *simDRBD) setSecondary(i int) bool {
	m := k.replicas[i]
	if !m.primary || m.suspended {
		return false
	}
	m.primary = false
	return true
}

// seen is what the host observes.
func (k *simDRBD) observe(i int) ReplicaObservation {
	m, p := k.replicas[i], k.replicas[1-i]
	if !m.configured {
		return ReplicaObservation{Unconfigured: true}
	}
	r := ReplicaObservation{Primary: m.primary, Disk: m.disk, UUID: m.uuid, Suspended: m.suspended, Connection: connecting}
	switch {
	case k.connected:
		r.PeerDisk = p.disk
		r.Connection = connected
		if k.syncTarget >= 0 {
			r.Connection = syncSource
		}
		if k.syncTarget == i {
			r.Connection = syncTarget
		}
	case m.standAlone:
		r.Connection = standAlone
	}
	if m.disk <= diskless {
		r.UUID = 0
	}
	return r
}

// String is what a trace shows of the kernels.
func (k *simDRBD) String() string {
	text := fmt.Sprintf("        link %t connected %t target %d, %d acknowledged:", k.link, k.connected, k.syncTarget, k.count)
	for i, m := range k.replicas {
		text += fmt.Sprintf(" n%d{up %t %s primary %t frozen %t alone %t uuid %d bitmap %d peerOut %t/%t crashed %t half %t lacks %t}",
			i+1, m.powered, diskName(m.disk), m.primary, m.suspended, m.standAlone, m.uuid, m.bitmap, m.peerOutdatedFlag, m.peerDiskOutdated, m.crashed, m.syncUnfinished, m.data.lacks(&k.acknowledged))
	}
	return text
}
