package backendtest

import (
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// defaultSyncTime is how long a synchronisation takes, unless a test sets another time.
const defaultSyncTime = 20 * time.Millisecond

// FakeLink is the DRBD of two hosts that replicate to each other, with the content of their disks:
// drbdmodel's, driven by time and by the handlers. It survives the executors that use it.
type FakeLink struct {
	mu           sync.Mutex
	disconnected bool
	syncTime     time.Duration // of one synchronisation
	volumes      map[fsm.VolumeID]*fakeVolume
	sides        [2]*FakeReplicator
}

// fakeVolume is one volume on both hosts.
type fakeVolume struct {
	id    fsm.VolumeID
	pair  drbdmodel.Pair
	texts []string // the writes, by number
	syncs int      // counts the synchronisations that began
	sides [2]fakeSide
}

// fakeSide is what the model does not know of one host's replica.
type fakeSide struct {
	downs       int // counts the times that the kernel lost the resource
	saved       map[fsm.SnapshotID]drbdmodel.Disk
	fileRemoved bool // its resource's file was removed, so the backing device may have been as well
}

// NewFakeLink returns two hosts' DRBD without a resource.
func NewFakeLink() *FakeLink {
	l := &FakeLink{syncTime: defaultSyncTime, volumes: map[fsm.VolumeID]*fakeVolume{}}
	for i := range l.sides {
		l.sides[i] = &FakeReplicator{link: l, side: i, files: map[fsm.VolumeID]executor.ResourceConfig{}, steps: map[string]int{}}
	}
	return l
}

// Side returns the DRBD of one host, 0 or 1.
func (l *FakeLink) Side(i int) *FakeReplicator { return l.sides[i] }

// SetDisconnected disconnects the two hosts, or reconnects them.
func (l *FakeLink) SetDisconnected(disconnected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disconnected = disconnected
	for _, v := range l.volumes {
		l.change(v, func(p *drbdmodel.Pair) { p.SetLink(!disconnected) })
	}
}

// SplitBrains returns how often contents with unrelated generations were connected.
func (l *FakeLink) SplitBrains() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.volumes {
		n += v.pair.SplitBrains()
	}
	return n
}

// SetSyncTime sets how long the synchronisations take that start from now on.
func (l *FakeLink) SetSyncTime(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncTime = d
}

// FinishSync ends the synchronisation of a volume that goes on, however long it would take.
func (l *FakeLink) FinishSync(id fsm.VolumeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change(l.volume(id), (*drbdmodel.Pair).FinishSync)
}

// volume returns a volume; nothing is known of a new one. The caller holds mu.
func (l *FakeLink) volume(id fsm.VolumeID) *fakeVolume {
	v := l.volumes[id]
	if v == nil {
		v = &fakeVolume{id: id, pair: drbdmodel.New()}
		v.pair.SetLink(!l.disconnected)
		l.volumes[id] = v
	}
	return v
}

// change does one step of the model, lets the two meet, and does what follows: handlers are called,
// synchronisations take their time, watchers are notified. The caller holds mu.
func (l *FakeLink) change(v *fakeVolume, step func(p *drbdmodel.Pair)) {
	before := [2]drbdmodel.State{v.pair.Observe(0), v.pair.Observe(1)}
	step(&v.pair)
	lost := [2]drbdmodel.State{v.pair.Observe(0), v.pair.Observe(1)}
	v.pair.Handshake()
	for i, r := range l.sides {
		after := v.pair.Observe(i)
		if lost[i].Disconnects != before[i].Disconnects && after.Primary {
			go r.callHandler(v, v.sides[i].downs, after.Disconnects)
		}
		if after.Connection == syncTarget && before[i].Connection != syncTarget {
			v.pair.Sync(1) // not on stable storage before the end: a loss of power loses it, also after one of the peer
			l.finishLater(v)
		}
		if after != before[i] {
			r.notify(v.id)
		}
	}
}

// finishLater ends the synchronisation that just began, unless something else ends it before. The
// caller holds mu.
func (l *FakeLink) finishLater(v *fakeVolume) {
	v.syncs++
	current := v.syncs
	time.AfterFunc(l.syncTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if v.syncs == current {
			l.change(v, (*drbdmodel.Pair).FinishSync)
		}
	})
}

// callHandler is the kernel's thread that waits for the handler.
func (r *FakeReplicator) callHandler(v *fakeVolume, downs, loss int) {
	verdict := r.handle(v.id)
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	s := v.pair.Observe(r.side)
	if verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED || v.sides[r.side].downs != downs || s.Disconnects != loss {
		return
	}
	r.link.change(v, func(p *drbdmodel.Pair) { p.Resume(r.side, true) })
}
