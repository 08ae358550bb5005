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

	unlinked   = fsmpb.ConnectionState_CONNECTION_STATE_UNKNOWN
	standAlone = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	connecting = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	connected  = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
	syncSource = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
	syncTarget = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET

	// fakeMetadata is what the metadata take of a device below, in bytes.
	fakeMetadata = 1 << 20
	// syncTime is how long a synchronisation takes, where a test does not say it.
	syncTime = 20 * time.Millisecond
)

// FakeLink is the kernels of two hosts that replicate to each other, with what their
// disks keep. It outlives the executors that use it. It is DRBD as far as order and
// safety go: a primary that loses its peer freezes and asks its handler.
type FakeLink struct {
	mu    sync.Mutex
	split int // contents that met and did not know of each other
	cut   bool
	takes time.Duration // a synchronisation
	next  uint64
	sides [2]*FakeReplicator
}

// FakeReplicator is one of the two.
type FakeReplicator struct {
	// Handler is asked as the kernel's fence-peer handler is; nil: it dies each time.
	Handler func(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error)

	link    *FakeLink
	disks   map[fsm.VolumeID]*fakeDisk
	kernel  map[fsm.VolumeID]*fakeResource
	files   map[fsm.VolumeID]executor.ResourceConfig
	steps   map[string]int
	changed func(fsm.VolumeID)
	helpers int // that run pri-on-incon-degr and are held back
}

// fakeDisk survives the host.
type fakeDisk struct {
	uuid     uint64
	history  []uint64
	whole    bool
	outdated bool
	content  []string
	// torn: it was the target of a synchronisation before the power went, and lost a block
	// that neither bitmap names. Marked: its bitmap names all.
	torn, marked bool
	// forgotten: its file was removed, so the device below may have been as well.
	forgotten bool
}

// fakeResource does not.
type fakeResource struct {
	primary, suspended, discard bool
	disk, peerDisk              fsmpb.DiskState
	link                        fsmpb.ConnectionState
	losses                      int
}

var _ executor.Replicator = (*FakeReplicator)(nil)

// NewFakeLink is two hosts' kernels without a resource.
func NewFakeLink() *FakeLink {
	l := &FakeLink{takes: syncTime}
	for i := range l.sides {
		l.sides[i] = &FakeReplicator{link: l, disks: map[fsm.VolumeID]*fakeDisk{}, kernel: map[fsm.VolumeID]*fakeResource{},
			files: map[fsm.VolumeID]executor.ResourceConfig{}, steps: map[string]int{}}
	}
	return l
}

// Side is the kernel of one host, 0 or 1.
func (l *FakeLink) Side(i int) *FakeReplicator { return l.sides[i] }

func (r *FakeReplicator) peer() *FakeReplicator {
	if r.link.sides[0] == r {
		return r.link.sides[1]
	}
	return r.link.sides[0]
}

// SetCut cuts the two hosts apart, or heals that.
func (l *FakeLink) SetCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for id := range l.sides[0].kernel {
		if cut {
			l.lose(id)
		} else {
			l.meet(id)
		}
	}
}

// SplitBrains counts the contents that met and did not know of each other.
func (l *FakeLink) SplitBrains() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.split
}

// SetSyncTime says how long the synchronisations take that begin from now on.
func (l *FakeLink) SetSyncTime(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takes = d
}

// PowerLoss ends the host's kernel; its disks stay.
func (r *FakeReplicator) PowerLoss() {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	for id, k := range r.kernel {
		if d := r.disks[id]; d != nil && k.disk == inconsistent && d.uuid != 0 {
			d.torn, d.marked = true, false
		}
		r.link.lose(id)
	}
	clear(r.kernel)
}

// FailDisk makes the kernel give up a disk that has errors, and that lost a block it took
// before, which neither bitmap names. It gives up none of a resource that it does not have:
// the host may take it down meanwhile.
func (r *FakeReplicator) FailDisk(id fsm.VolumeID) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	k, p := r.kernel[id], r.peer().kernel[id]
	if k == nil {
		return
	}
	if k.link >= connected && p != nil && p.disk == upToDate && (k.primary || p.primary) {
		r.link.next += 2 // the other one goes on in a generation of its own
		d := r.peer().disks[id]
		d.history, d.uuid = append(d.history, d.uuid), r.link.next
	}
	if d := r.disks[id]; d != nil && len(d.content) > 0 {
		d.content, d.torn, d.marked = d.content[1:], true, false
	}
	r.detach(id)
}

// HoldHelper has the kernel's helper for a disk that is given up run until release is
// called: until then that disk is Failed, and not yet Diskless.
func (r *FakeReplicator) HoldHelper() (release func()) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.helpers++
	return func() {
		r.link.mu.Lock()
		defer r.link.mu.Unlock()
		r.helpers--
		for id, k := range r.kernel {
			if k.disk == failed {
				r.detached(id, k)
			}
		}
	}
}

// Steps counts how often a step was done.
func (r *FakeReplicator) Steps(step string) int {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.steps[step]
}

// Write writes to the primary; acknowledged is false while it is frozen, and for good
// when it returns an error.
func (r *FakeReplicator) Write(id fsm.VolumeID, text string) (acknowledged bool, err error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	k := r.kernel[id]
	switch {
	case k == nil || !k.primary:
		return false, errors.New("the device is not primary")
	case k.suspended:
		return false, nil
	case k.disk != upToDate && !(k.link >= connected && k.peerDisk == upToDate):
		return false, errors.New("input/output error")
	}
	if k.link < connected && k.peerDisk != outdated {
		r.goOn(id, k) // what it writes alone is of a generation of its own
	}
	if k.disk > failed {
		r.disks[id].content = append(r.disks[id].content, text)
	}
	if k.link >= connected {
		p := r.peer()
		if p.kernel[id].disk > failed {
			p.disks[id].content = append(p.disks[id].content, text)
		}
	}
	return true, nil
}

// Content is what the disk of the host holds.
func (r *FakeReplicator) Content(id fsm.VolumeID) []string {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if d := r.disks[id]; d != nil {
		return slices.Clone(d.content)
	}
	return nil
}

// Primary tells whether the host is, and whether its I/O is frozen.
func (r *FakeReplicator) Primary(id fsm.VolumeID) (primary, frozen bool) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	k := r.kernel[id]
	return k != nil && k.primary, k != nil && k.suspended
}

// lose ends the connection. The caller holds mu.
func (l *FakeLink) lose(id fsm.VolumeID) {
	for _, r := range l.sides {
		if k := r.kernel[id]; k != nil && k.link >= connected {
			k.link, k.peerDisk = connecting, 0
			k.losses++
			if k.primary {
				k.suspended = !r.asynchronous(id)
				go r.ask(id, k, k.losses)
			}
			if r.disks[id] != nil && k.disk == inconsistent {
				r.disks[id].whole = false
			}
		}
		r.notify(id)
	}
}

// asynchronous: with protocol A the kernel asks without a freeze.
func (r *FakeReplicator) asynchronous(id fsm.VolumeID) bool {
	return r.files[id].Protocol == fsmpb.Protocol_PROTOCOL_A
}

// ask is the kernel's thread that waits for the handler.
func (r *FakeReplicator) ask(id fsm.VolumeID, k *fakeResource, loss int) {
	verdict := r.handle(id)
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.kernel[id] != k || k.losses != loss || k.link >= connected || !k.suspended && !r.asynchronous(id) {
		return
	}
	if verdict == fsmpb.Verdict_VERDICT_PEER_OUTDATED {
		r.goOn(id, k)
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

// SetHandler changes who is asked.
func (r *FakeReplicator) SetHandler(handler func(context.Context, fsm.VolumeID) (fsmpb.Verdict, error)) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.Handler = handler
}

// goOn is without the peer: with a generation of its own. The caller holds mu.
func (r *FakeReplicator) goOn(id fsm.VolumeID, k *fakeResource) {
	k.suspended, k.peerDisk = false, outdated
	if d := r.disks[id]; k.disk > diskless {
		r.link.next += 2
		d.history, d.uuid = append(d.history, d.uuid), r.link.next
		k.disk, d.whole, d.outdated = upToDate, true, false
	}
}

// meet connects what waits for its peer. The caller holds mu.
func (l *FakeLink) meet(id fsm.VolumeID) {
	a, b := l.sides[0], l.sides[1]
	ka, kb := a.kernel[id], b.kernel[id]
	if l.cut || ka == nil || kb == nil || ka.link != connecting || kb.link != connecting {
		return
	}
	da, db := a.disks[id], b.disks[id]
	switch {
	case ka.disk <= diskless || kb.disk <= diskless, da.uuid == db.uuid && da.whole == db.whole:
		l.join(id, connected, connected)
	case kb.discard || !kb.primary && !db.whole, !kb.primary && !kb.discard && slices.Contains(da.history, db.uuid) && !ka.discard:
		l.synchronise(id, a, b)
	case ka.discard || !ka.primary && !da.whole, !ka.primary && slices.Contains(db.history, da.uuid):
		l.synchronise(id, b, a)
	default:
		l.split++
		ka.link, kb.link = standAlone, standAlone
	}
	a.notify(id)
	b.notify(id)
}

func (l *FakeLink) join(id fsm.VolumeID, la, lb fsmpb.ConnectionState) {
	for i, r := range l.sides {
		k := r.kernel[id]
		k.link, k.suspended, k.discard = []fsmpb.ConnectionState{la, lb}[i], false, false
		if d := r.disks[id]; k.disk > diskless && d.whole && d.uuid != 0 {
			k.disk, d.outdated = upToDate, false
		}
	}
	for _, r := range l.sides {
		r.kernel[id].peerDisk = r.peer().kernel[id].disk
	}
}

// synchronise copies in a while. The caller holds mu.
func (l *FakeLink) synchronise(id fsm.VolumeID, from, to *FakeReplicator) {
	to.disks[id].whole = false
	to.kernel[id].disk = inconsistent
	if from == l.sides[0] {
		l.join(id, syncSource, syncTarget)
	} else {
		l.join(id, syncTarget, syncSource)
	}
	source, target := from.kernel[id], to.kernel[id]
	time.AfterFunc(l.takes, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if from.kernel[id] != source || to.kernel[id] != target || source.link != syncSource || target.link != syncTarget {
			return
		}
		d, s := to.disks[id], from.disks[id]
		d.uuid, d.history, d.content, d.whole, d.outdated = s.uuid, slices.Clone(s.history), slices.Clone(s.content), true, false
		if d.torn && !d.marked && len(d.content) > 0 {
			d.content = d.content[1:]
		}
		d.torn, d.marked = false, false
		l.join(id, connected, connected)
		from.notify(id)
		to.notify(id)
	})
}

// notify says that something changed. The caller holds mu.
func (r *FakeReplicator) notify(id fsm.VolumeID) {
	if r.changed != nil {
		go r.changed(id)
	}
}

// begin counts a step and finds the resource, which must be in the kernel. The caller
// unlocks.
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
