package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	diskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	failed       = fsmpb.DiskState_DISK_STATE_FAILED
	inconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	outdated     = fsmpb.DiskState_DISK_STATE_OUTDATED
	consistent   = fsmpb.DiskState_DISK_STATE_CONSISTENT
	upToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE

	connectionUnset = fsmpb.ConnectionState_CONNECTION_STATE_UNKNOWN
	standAlone      = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	connecting      = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	connected       = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
	syncSource      = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
	syncTarget      = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET

	// fakeMetadata is the size of the metadata on a backing device, in bytes.
	fakeMetadata = 1 << 20
	// defaultSyncTime is how long a synchronisation takes, unless a test sets another time.
	defaultSyncTime = 20 * time.Millisecond
)

// FakeLink is the DRBD of two hosts that replicate to each other, with the content of their disks.
// It survives the executors that use it. It behaves like DRBD in order and safety: a primary that
// loses its peer suspends I/O and calls its handler.
type FakeLink struct {
	mu           sync.Mutex
	splitBrains  int // reconnections of contents with unrelated generations
	disconnected bool
	syncTime     time.Duration // of one synchronisation
	nextUUID     uint64
	sides        [2]*FakeReplicator
}

// FakeReplicator is the DRBD of one of the two hosts.
type FakeReplicator struct {
	// Handler is called like the kernel's fence-peer handler; nil: the handler dies each time.
	Handler func(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error)

	link        *FakeLink
	disks       map[fsm.VolumeID]*fakeDisk
	kernel      map[fsm.VolumeID]*fakeResource
	files       map[fsm.VolumeID]executor.ResourceConfig
	steps       map[string]int
	changed     func(fsm.VolumeID)
	heldHelpers int // running pri-on-incon-degr helpers that are held back
}

// fakeDisk is what survives a power loss of the host.
type fakeDisk struct {
	uuid       uint64
	history    []uint64
	consistent bool
	outdated   bool
	content    []string
	// lostBlock: it was the target of a synchronisation when the power was lost, and lost a block
	// that neither bitmap names. bitmapFull: its bitmap names all blocks.
	lostBlock, bitmapFull bool
	// fileRemoved: its resource's file was removed, so the backing device may have been as well.
	fileRemoved bool
}

// fakeResource is the kernel's state, which a power loss removes.
type fakeResource struct {
	primary, suspended, discard bool
	disk, peerDisk              fsmpb.DiskState
	connection                  fsmpb.ConnectionState
	disconnects                 int
}

var _ executor.Replicator = (*FakeReplicator)(nil)

// NewFakeLink returns two hosts' DRBD without a resource.
func NewFakeLink() *FakeLink {
	l := &FakeLink{syncTime: defaultSyncTime}
	for i := range l.sides {
		l.sides[i] = &FakeReplicator{link: l, disks: map[fsm.VolumeID]*fakeDisk{}, kernel: map[fsm.VolumeID]*fakeResource{},
			files: map[fsm.VolumeID]executor.ResourceConfig{}, steps: map[string]int{}}
	}
	return l
}

// Side returns the DRBD of one host, 0 or 1.
func (l *FakeLink) Side(i int) *FakeReplicator { return l.sides[i] }

func (r *FakeReplicator) peer() *FakeReplicator {
	if r.link.sides[0] == r {
		return r.link.sides[1]
	}
	return r.link.sides[0]
}

// SetDisconnected disconnects the two hosts, or reconnects them.
func (l *FakeLink) SetDisconnected(disconnected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disconnected = disconnected
	for id := range l.sides[0].kernel {
		if disconnected {
			l.disconnect(id)
		} else {
			l.reconnect(id)
		}
	}
}

// SplitBrains returns how often contents with unrelated generations were connected.
func (l *FakeLink) SplitBrains() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.splitBrains
}

// SetSyncTime sets how long the synchronisations take that start from now on.
func (l *FakeLink) SetSyncTime(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncTime = d
}

// PowerLoss removes the host's kernel state; its disks stay.
func (r *FakeReplicator) PowerLoss() {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	for id, k := range r.kernel {
		if d := r.disks[id]; d != nil && k.disk == inconsistent && d.uuid != 0 {
			d.lostBlock, d.bitmapFull = true, false
		}
		r.link.disconnect(id)
	}
	clear(r.kernel)
}

// FailDisk makes the kernel detach a disk with I/O errors that also lost a block it had
// acknowledged, which neither bitmap names. It does nothing for a resource that is not in the
// kernel: the host may have taken it down meanwhile.
func (r *FakeReplicator) FailDisk(id fsm.VolumeID) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	k, p := r.kernel[id], r.peer().kernel[id]
	if k == nil {
		return
	}
	if k.connection >= connected && p != nil && p.disk == upToDate && (k.primary || p.primary) {
		r.link.nextUUID += 2 // the other replica continues with a generation of its own
		d := r.peer().disks[id]
		d.history, d.uuid = append(d.history, d.uuid), r.link.nextUUID
	}
	if d := r.disks[id]; d != nil && len(d.content) > 0 {
		d.content, d.lostBlock, d.bitmapFull = d.content[1:], true, false
	}
	r.detach(id)
}

// HoldHelper keeps the kernel's helper for a detached disk running until release is called: until
// then that disk is Failed, and not yet Diskless.
func (r *FakeReplicator) HoldHelper() (release func()) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.heldHelpers++
	return func() {
		r.link.mu.Lock()
		defer r.link.mu.Unlock()
		r.heldHelpers--
		for id, k := range r.kernel {
			if k.disk == failed {
				r.finishDetach(id, k)
			}
		}
	}
}

// Steps returns how often a step was done.
func (r *FakeReplicator) Steps(step string) int {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.steps[step]
}

// Write writes to the primary. acknowledged is false while I/O is suspended; with an error the
// write has failed for good.
func (r *FakeReplicator) Write(id fsm.VolumeID, text string) (acknowledged bool, err error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	k := r.kernel[id]
	switch {
	case k == nil || !k.primary:
		return false, errors.New("the device is not primary")
	case k.suspended:
		return false, nil
	case k.disk != upToDate && !(k.connection >= connected && k.peerDisk == upToDate):
		return false, errors.New("input/output error")
	}
	if k.connection < connected && k.peerDisk != outdated {
		r.startOwnGeneration(id, k) // what it writes without its peer gets a generation of its own
	}
	if k.disk > failed {
		r.disks[id].content = append(r.disks[id].content, text)
	}
	if k.connection >= connected {
		p := r.peer()
		if p.kernel[id].disk > failed {
			p.disks[id].content = append(p.disks[id].content, text)
		}
	}
	return true, nil
}

// DiskContent returns what the host's disk holds.
func (r *FakeReplicator) DiskContent(id fsm.VolumeID) []string {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if d := r.disks[id]; d != nil {
		return slices.Clone(d.content)
	}
	return nil
}

// Primary returns whether this side is primary, and whether its I/O is suspended.
func (r *FakeReplicator) Primary(id fsm.VolumeID) (primary, frozen bool) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	k := r.kernel[id]
	return k != nil && k.primary, k != nil && k.suspended
}

// disconnect ends the connection. The caller holds mu.
func (l *FakeLink) disconnect(id fsm.VolumeID) {
	for _, r := range l.sides {
		if k := r.kernel[id]; k != nil && k.connection >= connected {
			k.connection, k.peerDisk = connecting, 0
			k.disconnects++
			if k.primary {
				k.suspended = !r.asynchronous(id)
				go r.callHandler(id, k, k.disconnects)
			}
			if r.disks[id] != nil && k.disk == inconsistent {
				r.disks[id].consistent = false
			}
		}
		r.notify(id)
	}
}

// asynchronous: with protocol A the kernel calls the handler without suspending I/O.
func (r *FakeReplicator) asynchronous(id fsm.VolumeID) bool {
	return r.files[id].Protocol == fsmpb.Protocol_PROTOCOL_A
}

// callHandler is the kernel's thread that waits for the handler.
func (r *FakeReplicator) callHandler(id fsm.VolumeID, k *fakeResource, loss int) {
	verdict := r.handle(id)
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.kernel[id] != k || k.disconnects != loss || k.connection >= connected || !k.suspended && !r.asynchronous(id) {
		return
	}
	if verdict == fsmpb.Verdict_VERDICT_PEER_OUTDATED {
		r.startOwnGeneration(id, k)
	}
	r.notify(id)
}

func (r *FakeReplicator) handle(id fsm.VolumeID) fsmpb.Verdict {
	r.link.mu.Lock()
	handler := r.Handler
	r.link.mu.Unlock()
	if handler == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	verdict, err := handler(ctx, id)
	if err != nil {
		return 0
	}
	return verdict
}

// SetHandler replaces the handler.
func (r *FakeReplicator) SetHandler(handler func(context.Context, fsm.VolumeID) (fsmpb.Verdict, error)) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.Handler = handler
}

// startOwnGeneration continues without the peer, with a new generation. The caller holds mu.
func (r *FakeReplicator) startOwnGeneration(id fsm.VolumeID, k *fakeResource) {
	k.suspended, k.peerDisk = false, outdated
	if d := r.disks[id]; k.disk > diskless {
		r.link.nextUUID += 2
		d.history, d.uuid = append(d.history, d.uuid), r.link.nextUUID
		k.disk, d.consistent, d.outdated = upToDate, true, false
	}
}

// reconnect connects both sides if both wait for their peer. The caller holds mu.
func (l *FakeLink) reconnect(id fsm.VolumeID) {
	a, b := l.sides[0], l.sides[1]
	ka, kb := a.kernel[id], b.kernel[id]
	if l.disconnected || ka == nil || kb == nil || ka.connection != connecting || kb.connection != connecting {
		return
	}
	da, db := a.disks[id], b.disks[id]
	switch {
	case ka.disk <= diskless || kb.disk <= diskless, da.uuid == db.uuid && da.consistent == db.consistent:
		l.setConnection(id, connected, connected)
	case kb.discard || !kb.primary && !db.consistent, !kb.primary && !kb.discard && slices.Contains(da.history, db.uuid) && !ka.discard:
		l.synchronise(id, a, b)
	case ka.discard || !ka.primary && !da.consistent, !ka.primary && slices.Contains(db.history, da.uuid):
		l.synchronise(id, b, a)
	default:
		l.splitBrains++
		ka.connection, kb.connection = standAlone, standAlone
	}
	a.notify(id)
	b.notify(id)
}

func (l *FakeLink) setConnection(id fsm.VolumeID, la, lb fsmpb.ConnectionState) {
	for i, r := range l.sides {
		k := r.kernel[id]
		k.connection, k.suspended, k.discard = []fsmpb.ConnectionState{la, lb}[i], false, false
		if d := r.disks[id]; k.disk > diskless && d.consistent && d.uuid != 0 {
			k.disk, d.outdated = upToDate, false
		}
	}
	for _, r := range l.sides {
		r.kernel[id].peerDisk = r.peer().kernel[id].disk
	}
}

// synchronise copies after syncTime. The caller holds mu.
func (l *FakeLink) synchronise(id fsm.VolumeID, from, to *FakeReplicator) {
	to.disks[id].consistent = false
	to.kernel[id].disk = inconsistent
	if from == l.sides[0] {
		l.setConnection(id, syncSource, syncTarget)
	} else {
		l.setConnection(id, syncTarget, syncSource)
	}
	source, target := from.kernel[id], to.kernel[id]
	time.AfterFunc(l.syncTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if from.kernel[id] != source || to.kernel[id] != target || source.connection != syncSource || target.connection != syncTarget {
			return
		}
		d, s := to.disks[id], from.disks[id]
		d.uuid, d.history, d.content, d.consistent, d.outdated = s.uuid, slices.Clone(s.history), slices.Clone(s.content), true, false
		if d.lostBlock && !d.bitmapFull && len(d.content) > 0 {
			d.content = d.content[1:]
		}
		d.lostBlock, d.bitmapFull = false, false
		l.setConnection(id, connected, connected)
		from.notify(id)
		to.notify(id)
	})
}

// notify calls the function passed to Watch. The caller holds mu.
func (r *FakeReplicator) notify(id fsm.VolumeID) {
	if r.changed != nil {
		go r.changed(id)
	}
}

// begin counts a step and returns the resource, which must be in the kernel. It returns with mu
// held; the caller unlocks.
func (r *FakeReplicator) begin(step string, id fsm.VolumeID) (*fakeResource, error) {
	r.link.mu.Lock()
	r.steps[step]++
	k := r.kernel[id]
	if k == nil {
		return nil, fmt.Errorf("%s %s: the resource is not in the kernel", step, id)
	}
	r.notify(id)
	return k, nil
}
