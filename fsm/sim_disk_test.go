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

	alone      = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
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
type mirror struct {
	// On disk.
	data                          writes
	uuid, bitmap                  uint64 // current, and the one the peer was left behind with
	history                       []uint64
	peerOut, crashed, half, fresh bool // flags of the metadata; half: a synchronisation was not finished
	// In the kernel.
	up, in             bool // powered; configured in the kernel
	disk               fsmpb.DiskState
	primary, suspended bool
	standAlone         bool
	pdskOut            bool   // it knows that its peer is outdated
	discard            bool   // it connects with --discard-my-data
	exposed            uint64 // what a diskless primary last showed
	losses             int    // counts connections that were made and lost
}

// kernels are the two of them, and what is between them.
type kernels struct {
	m         [2]*mirror
	link      bool
	connected bool
	target    int // of a synchronisation, -1: none
	nextUUID  uint64
	broken    string // the first thing that must not be
	splits    int
	attaching bool
	acked     writes
	count     int
}

func newKernels() *kernels {
	k := &kernels{link: true, target: -1, nextUUID: 100}
	for i := range k.m {
		k.m[i] = &mirror{up: true, standAlone: true, fresh: true}
	}
	return k
}

func (k *kernels) fail(what string) {
	if k.broken == "" {
		k.broken = what
	}
}

func (k *kernels) newUUID(m *mirror) {
	k.nextUUID++
	if m.bitmap == 0 {
		m.bitmap = m.uuid
	}
	m.uuid = k.nextUUID
}

// flag is what the kernel writes down about its peer.
func (k *kernels) flag(i int) {
	m, p := k.m[i], k.m[1-i]
	if m.disk <= diskless {
		return
	}
	if k.connected {
		m.peerOut = p.disk == inconsistent
		m.pdskOut = false
		return
	}
	m.peerOut = m.pdskOut
}

// drop ends the connection, as every loss does.
func (k *kernels) drop() {
	if !k.connected {
		return
	}
	k.connected, k.target = false, -1
	for i, m := range k.m {
		if !m.up {
			continue
		}
		m.losses++
		m.pdskOut = false
		if m.primary {
			m.suspended = true // fencing resource-and-stonith
		}
		k.flag(i)
	}
}

// write is one of the application's: acknowledged only when every disk that counts has it.
func (k *kernels) write(i int) {
	m, p := k.m[i], k.m[1-i]
	if !m.up || !m.primary || m.suspended || k.count >= 500 {
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
	k.acked.add(k.count)
	if own && !k.connected && m.bitmap == 0 {
		k.fail("a primary wrote alone in the generation that its peer has")
	}
}

// failDisk is an I/O error below: the disk is detached, and nobody is asked (S5).
func (k *kernels) failDisk(i int) {
	m, p := k.m[i], k.m[1-i]
	if !m.up || m.disk <= diskless {
		return
	}
	k.flag(i)
	m.exposed = m.uuid
	m.disk = diskless
	m.crashed = m.crashed || m.primary
	if k.target >= 0 {
		k.target = -1
	}
	if !k.connected {
		return
	}
	if (m.primary || p.primary) && p.disk == upToDate {
		if p.bitmap == 0 {
			k.newUUID(p)
		}
		m.exposed = p.uuid
	}
	k.flag(1 - i)
}

// attach reads what the metadata say.
func (k *kernels) attach(i int) {
	m, p := k.m[i], k.m[1-i]
	if !m.up || m.in && m.disk > diskless {
		return
	}
	if m.primary && !k.connected && m.uuid != m.exposed || k.connected && p.primary && p.disk <= diskless && m.uuid != p.exposed {
		return // "can only attach to data with current UUID"
	}
	m.in = true
	switch {
	case m.half:
		m.disk = inconsistent
	case m.peerOut && !k.connected:
		m.disk, m.pdskOut = upToDate, true
	default:
		m.disk = consistent
	}
	if k.connected { // it negotiates as if it connected anew
		k.connected, k.attaching = false, true
		primary := [2]bool{k.m[0].suspended, k.m[1].suspended}
		k.connect()
		if k.attaching = false; !k.connected {
			m.disk = diskless
			k.connected = true
			k.m[0].suspended, k.m[1].suspended = primary[0], primary[1]
		}
	}
}

// power loses all that is not on disk.
func (k *kernels) power(i int) {
	m := k.m[i]
	if !m.up {
		return
	}
	if m.primary && m.disk > diskless {
		m.crashed = true
	}
	m.up = false
	if k.connected {
		m.primary = false
		k.drop()
	}
	m.in, m.disk, m.primary, m.suspended, m.standAlone, m.pdskOut, m.discard = false, 0, false, false, true, false, false
}

// resume ends a freeze with the peer known to be outdated, or not.
func (k *kernels) resume(i int, peerOut bool) {
	m := k.m[i]
	if k.connected || !m.suspended {
		return
	}
	m.suspended = false
	if m.disk != upToDate {
		return
	}
	if m.data.lacks(&k.acked) {
		k.fail("a primary went on alone without an acknowledged write")
	}
	m.pdskOut = peerOut
	if m.bitmap == 0 {
		k.newUUID(m)
	}
	k.flag(i)
}

// setPrimary is the kernel's part: asked says that it must ask its handler first.
func (k *kernels) setPrimary(i int, fenced bool) (asks bool) {
	m, p := k.m[i], k.m[1-i]
	if !m.up || !m.in || m.primary || k.connected && p.primary || m.disk != upToDate && m.disk != consistent {
		return false
	}
	if k.connected && m.disk != upToDate {
		return false
	}
	if !k.connected && !m.pdskOut && !fenced {
		return true
	}
	if !k.connected {
		m.pdskOut, m.disk = true, upToDate
	}
	m.primary = true
	if (!k.connected || p.disk <= diskless) && m.bitmap == 0 {
		k.newUUID(m)
	}
	k.flag(i)
	if m.data.lacks(&k.acked) {
		k.fail("a replica became primary without an acknowledged write")
	}
	return false
}

func (k *kernels) setSecondary(i int) bool {
	m := k.m[i]
	if !m.primary || m.suspended {
		return false
	}
	m.primary = false
	return true
}

// seen is what the host observes.
func (k *kernels) seen(i int) ReplicaSeen {
	m, p := k.m[i], k.m[1-i]
	if !m.in {
		return ReplicaSeen{Down: true}
	}
	r := ReplicaSeen{Primary: m.primary, Disk: m.disk, UUID: m.uuid, Suspended: m.suspended, Connection: connecting}
	switch {
	case k.connected:
		r.PeerDisk = p.disk
		r.Connection = connected
		if k.target >= 0 {
			r.Connection = syncSource
		}
		if k.target == i {
			r.Connection = syncTarget
		}
	case m.standAlone:
		r.Connection = alone
	}
	if m.disk <= diskless {
		r.UUID = 0
	}
	return r
}

// String is what a trace shows of the kernels.
func (k *kernels) String() string {
	text := fmt.Sprintf("        link %t connected %t target %d, %d acknowledged:", k.link, k.connected, k.target, k.count)
	for i, m := range k.m {
		text += fmt.Sprintf(" n%d{up %t %s primary %t frozen %t alone %t uuid %d bitmap %d peerOut %t/%t crashed %t half %t lacks %t}",
			i+1, m.up, diskName(m.disk), m.primary, m.suspended, m.standAlone, m.uuid, m.bitmap, m.peerOut, m.pdskOut, m.crashed, m.half, m.data.lacks(&k.acked))
	}
	return text
}
