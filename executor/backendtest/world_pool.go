package backendtest

import (
	"errors"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
)

// PoolConfig describes a pool.
type PoolConfig struct {
	ID         fsm.PoolID
	Kind       string // of the backend; empty: "loopfile"
	Capacity   int64  // bytes; 0: 1 TiB
	FullCopies bool   // it cannot share blocks
	Rate       int64  // of copies, in bytes a second; 0: 1 GiB
}

// Pool is a pool of a Host: images and snapshots on a disk that has a cache.
type Pool struct {
	world     *World
	host      *Host
	config    PoolConfig
	images    map[fsm.VolumeID]*image
	snapshots map[fsm.SnapshotID]fakeSnapshot
	replicas  map[fsm.SnapshotID]drbdmodel.Disk // what the model says that snapshots of replicas hold
	// unfinished holds the ids of what an interrupted effect left.
	unfinished          map[fsm.VolumeID]bool
	unfinishedSnapshots map[fsm.SnapshotID]bool

	absent, fullData, fullMetadata, readErrors, writeErrors, hanging bool
}

// image is what a volume's image holds.
type image struct {
	size     int64
	content  blocks
	opened   bool                        // its encryption was open on this host
	unsynced map[int64]*[BlockBytes]byte // what is on the disk of blocks that are only in its cache
}

var (
	errIO   = errors.New("input/output error")
	errFull = errors.New("no space left on the pool")
)

func newPool(h *Host, config PoolConfig) *Pool {
	if config.Kind == "" {
		config.Kind = "loopfile"
	}
	if config.Capacity == 0 {
		config.Capacity = 1 << 40
	}
	if config.Rate == 0 {
		config.Rate = 1 << 30
	}
	return &Pool{
		world: h.world, host: h, config: config, images: map[fsm.VolumeID]*image{}, snapshots: map[fsm.SnapshotID]fakeSnapshot{},
		replicas:   map[fsm.SnapshotID]drbdmodel.Disk{},
		unfinished: map[fsm.VolumeID]bool{}, unfinishedSnapshots: map[fsm.SnapshotID]bool{},
	}
}

// ID is the pool's identity.
func (p *Pool) ID() fsm.PoolID { return p.config.ID }

// SetAbsent makes the pool absent, as an unmount does, or present.
func (p *Pool) SetAbsent(absent bool) { p.world.change(func() { p.absent = absent }) }

// SetFullData says that the pool has no room for data: writes to what was never written fail.
func (p *Pool) SetFullData(full bool) { p.world.change(func() { p.fullData = full }) }

// SetFullMetadata says that the pool has no room for metadata: writes to what was never written
// fail, and nothing is made.
func (p *Pool) SetFullMetadata(full bool) { p.world.change(func() { p.fullMetadata = full }) }

// SetReadErrors has every read from the disk fail.
func (p *Pool) SetReadErrors(fail bool) { p.world.change(func() { p.readErrors = fail }) }

// SetWriteErrors has every write to the disk fail.
func (p *Pool) SetWriteErrors(fail bool) { p.world.change(func() { p.writeErrors = fail }) }

// SetHanging has everything that reads or writes the disk wait.
func (p *Pool) SetHanging(hanging bool) { p.world.change(func() { p.hanging = hanging }) }

// InterruptCreate leaves what a crash during Create leaves.
func (p *Pool) InterruptCreate(id fsm.VolumeID) { p.world.change(func() { p.unfinished[id] = true }) }

// InterruptRevert leaves what a crash during Revert leaves.
func (p *Pool) InterruptRevert(id fsm.VolumeID) { p.InterruptCreate(id) }

// InterruptSnapshot leaves what a crash during TakeSnapshot leaves.
func (p *Pool) InterruptSnapshot(id fsm.SnapshotID) {
	p.world.change(func() { p.unfinishedSnapshots[id] = true })
}

// LoseImage removes an image, as a careless operator does.
func (p *Pool) LoseImage(id fsm.VolumeID) { p.world.change(func() { p.erase(id) }) }

// LoseSnapshot removes a snapshot, as a careless operator does.
func (p *Pool) LoseSnapshot(id fsm.SnapshotID) {
	p.world.change(func() { delete(p.snapshots, id) })
}

// erase removes an image. The lock is held.
func (p *Pool) erase(id fsm.VolumeID) {
	if p.images[id] != nil {
		delete(p.images, id)
		p.world.eraseReplica(p.host, id)
	}
}

// check is why nothing can be made in the pool now. The lock is held.
func (p *Pool) check() error {
	switch {
	case p.absent:
		return errAbsent
	case p.hanging:
		return errHangs
	case p.writeErrors:
		return errIO
	case p.fullMetadata:
		return errFull
	}
	return nil
}

// used is how many bytes are allocated. The lock is held.
func (p *Pool) used() (bytes int64) {
	for _, img := range p.images {
		bytes += int64(len(img.content)) * BlockBytes
	}
	for _, s := range p.snapshots {
		if p.config.FullCopies {
			bytes += int64(len(s.content)) * BlockBytes
		}
	}
	return min(bytes, p.config.Capacity)
}

func (p *Pool) facts() executor.PoolFacts {
	facts := executor.PoolFacts{ID: p.config.ID, Capacity: p.config.Capacity, Free: p.config.Capacity - p.used(), FullCopies: p.config.FullCopies}
	switch {
	case p.absent:
		return executor.PoolFacts{ID: p.config.ID, Absent: true, Detail: errAbsent.Error()}
	case p.fullData || p.fullMetadata:
		facts.Free, facts.Detail = 0, errFull.Error()
	}
	return facts
}

// source returns what a volume is copied from. The lock is held.
func (p *Pool) source(s fsm.Source) (fakeSnapshot, error) {
	if s.Volume != "" {
		img := p.images[s.Volume]
		if img == nil {
			return fakeSnapshot{}, fsm.Reject(fsm.Precondition, "there is no image of %s", s.Volume)
		}
		return fakeSnapshot{img.size, img.content}, nil
	}
	return p.snapshot(s.Snapshot)
}

func (p *Pool) snapshot(id fsm.SnapshotID) (fakeSnapshot, error) {
	if err := checkSnapshotID(id); err != nil {
		return fakeSnapshot{}, err
	}
	s, ok := p.snapshots[id]
	if !ok {
		return fakeSnapshot{}, fsm.Reject(fsm.Precondition, "there is no snapshot %s", id)
	}
	return s, nil
}
