package drbdmodel

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The states that the kernels' disks and connections rest in.
const (
	diskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	failed       = fsmpb.DiskState_DISK_STATE_FAILED
	inconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	outdated     = fsmpb.DiskState_DISK_STATE_OUTDATED
	consistent   = fsmpb.DiskState_DISK_STATE_CONSISTENT
	upToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE

	standAlone = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	connecting = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	connected  = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
	syncSource = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
	syncTarget = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
)

// Metadata are what a replica's backing device holds beside the content: they survive the loss of
// the host's power.
type Metadata struct {
	Generations
	Exist        bool
	Consistent   bool // no synchronisation into it is unfinished
	WasOutdated  bool // it left a primary that went on
	PeerOutdated bool // its peer was outdated or inconsistent
	Crashed      bool // it was primary when it was lost, and has not been synchronised since
	OutOfSync    Blocks
	ActivityLog  Blocks // writes that were not confirmed by all disks
}

// replica is one host's.
type replica struct {
	metadata        Metadata
	content, stable Blocks // what reads return, and what of it survives a loss of power

	powered, inKernel  bool
	disk               fsmpb.DiskState
	primary, suspended bool
	frozen             bool // by suspend-io
	standAlone         bool
	peerDiskOutdated   bool   // the kernel knows that its peer is outdated
	discard            bool   // it connects with --discard-my-data
	abandoned          bool   // it was given up while it was primary
	exposed            uint64 // the generation that a primary without a disk showed last
	disconnects        int
	inFlight           Blocks // writes of its user that are not acknowledged
}

// Pair is one volume's DRBD on two hosts, 0 and 1. A copy of it is independent.
type Pair struct {
	replicas [2]replica
	linkDown bool
	together bool // the two are connected
	target   int  // of a synchronisation, -1: none runs
	lastUUID uint64

	asynchronous bool // protocol A: a loss does not suspend I/O

	writes       int
	acknowledged Blocks
	splitBrains  int
	violation    string
}

// New returns two hosts with power, a link, and no metadata.
func New() Pair {
	p := Pair{target: -1, lastUUID: 100}
	for i := range p.replicas {
		p.replicas[i] = replica{powered: true, standAlone: true}
	}
	return p
}

// NewInSync returns two connected secondaries that are up to date in one generation.
func NewInSync(uuid uint64) Pair {
	p := New()
	for i := range p.replicas {
		r := &p.replicas[i]
		r.metadata = Metadata{Exist: true, Consistent: true, Generations: Generations{Current: uuid}}
		r.inKernel, r.disk, r.standAlone = true, upToDate, false
	}
	p.together = true
	return p
}

// LinkUp reports whether the network connects the two hosts.
func (p *Pair) LinkUp() bool { return !p.linkDown }

// SetAsynchronous sets protocol A, with which the loss of the peer suspends nothing, or C.
func (p *Pair) SetAsynchronous(yes bool) { p.asynchronous = yes }

func (p *Pair) nextUUID() uint64 {
	p.lastUUID += 2
	return p.lastUUID
}

// held reports whether the replica's I/O is suspended: for the loss of its peer, or by suspend-io.
func (r *replica) held() bool { return r.suspended || r.frozen }

// State is what one host knows of its replica, and what the model knows of it.
type State struct {
	Powered, InKernel, Primary, Suspended, StandAlone bool
	Frozen                                            bool // by suspend-io: Suspended, too

	Disk, PeerDisk fsmpb.DiskState
	Connection     fsmpb.ConnectionState
	PeerPrimary    bool
	PeerOutdated   bool // the kernel knows that its peer is outdated
	Metadata       Metadata
	Disconnects    int  // connections that were made and lost
	HasAll         bool // it has every acknowledged write
}

// Connected reports whether the replica has a connection, and may synchronise.
func (s State) Connected() bool { return s.Connection >= connected }

// Observe returns the state of host i's replica.
func (p *Pair) Observe(i int) State {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	s := State{
		Powered: r.powered, InKernel: r.inKernel, Primary: r.primary, Suspended: r.held(), Frozen: r.frozen, StandAlone: r.standAlone,
		Disk: r.disk, Connection: connecting, PeerOutdated: r.peerDiskOutdated, Metadata: r.metadata, Disconnects: r.disconnects,
		HasAll: !r.content.Lacks(&p.acknowledged),
	}
	switch {
	case p.together:
		s.PeerDisk, s.PeerPrimary, s.Connection = peer.disk, peer.primary, p.connection(i)
	case r.standAlone:
		s.Connection = standAlone
	}
	if !p.together && r.peerDiskOutdated {
		s.PeerDisk = outdated
	}
	return s
}

// connection is the state of an existing connection, as host i sees it.
func (p *Pair) connection(i int) fsmpb.ConnectionState {
	switch p.target {
	case -1:
		return connected
	case i:
		return syncTarget
	}
	return syncSource
}

// Content returns the writes that host i's disk holds.
func (p *Pair) Content(i int) Blocks { return p.replicas[i].content }

// Writes returns how many writes were acknowledged.
func (p *Pair) Writes() int { return p.acknowledged.Len() }

// SplitBrains returns how often two replicas met that had gone on separately, and neither of them
// was to discard what it has.
func (p *Pair) SplitBrains() int { return p.splitBrains }

// Violation returns the first event that may have lost an acknowledged write, empty while none
// has: a replica without it became primary, went on alone, or was the source of a synchronisation,
// or a primary wrote alone in a generation that its peer has too.
func (p *Pair) Violation() string { return p.violation }

func (p *Pair) violate(what string) {
	if p.violation == "" {
		p.violation = what
	}
}

// String is for traces.
func (p *Pair) String() string {
	text := fmt.Sprintf("        link %t connected %t target %d, %d acknowledged:", !p.linkDown, p.together, p.target, p.Writes())
	for i := range p.replicas {
		s := p.Observe(i)
		text += fmt.Sprintf(" n%d{up %t disk %s primary %t suspended %t alone %t uuid %d bitmap %d peer outdated %t/%t crashed %t consistent %t has all %t}",
			i+1, s.Powered, strings.TrimPrefix(s.Disk.String(), "DISK_STATE_"), s.Primary, s.Suspended, s.StandAlone, s.Metadata.Current, s.Metadata.Bitmap, s.Metadata.PeerOutdated, s.PeerOutdated,
			s.Metadata.Crashed, s.Metadata.Consistent, s.HasAll)
	}
	return text
}
