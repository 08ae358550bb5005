package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// growsUnmounted is the filesystem that is grown before it is mounted; the other kind
// can only be grown while it is.
const growsUnmounted = "ext4"

// mayGrow: the log decided a larger size, and nothing of what was there is lost. A
// device that lost its end is never made larger: that would put zeros where data was.
func (d *desired) mayGrow(have *observed) bool {
	return d.growing && have.Exists && have.Size < d.size && have.Size >= have.known
}

// growFilesystem makes a filesystem as large as its device, once for each size of it.
// What it says of its own size is not asked: filesystems round down, and one whose
// growth was killed may claim what it does not have.
func growFilesystem(want *desired, have *observed, kind string) step {
	if !want.grows || want.grant.readOnly || want.grant.fs.Type != kind || have.grownTo == have.deviceSize() {
		return step{}
	}
	return step{kind: stepGrowFS}
}

// identify gives a clone an identity of its own before its first mount, and has that
// committed. It is never formatted (S15).
func identify(want *desired, have *observed) step {
	switch {
	case have.content.Found == want.grant.fs:
		return step{kind: stepReportFormatted}
	case have.content.Found.Type != want.grant.fs.Type:
		return refuse(fsm.Precondition, "%s of volume %s holds %s, not the %s of its source",
			have.Path, want.volume, describe(have.content), want.grant.fs.Type)
	case !want.grows:
		return refuse(fsm.Precondition, "volume %s is a clone, and this host cannot give its filesystem an identity", want.volume)
	}
	return step{kind: stepIdentity}
}

// grow makes the image larger, and its device.
func (j *job) grow(ctx context.Context) error {
	backend, err := j.snapshotBackend(j.v)
	if err != nil {
		return err
	}
	if err := backend.Grow(ctx, j.v.id, j.want.size); err != nil {
		return err
	}
	if j.v.journal.Size == 0 {
		return nil
	}
	j.v.journal.Size = j.want.size
	return j.save(j.v, false)
}

// growFilesystem may be repeated: what was grown in part goes on from there.
func (j *job) growFilesystem(ctx context.Context, have *observed, fsType, path string) error {
	if err := j.Grower.GrowFilesystem(ctx, have.Device, fsType, path); err != nil {
		return err
	}
	j.v.journal.GrownTo = have.deviceSize()
	return j.save(j.v, false)
}

// snapshotBackend is that of the volume's pool, which must be able to do more than
// make and remove.
func (e *Executor) snapshotBackend(v *volume) (SnapshotBackend, error) {
	b, err := e.backend(v)
	if err != nil {
		return nil, err
	}
	backend, ok := b.(SnapshotBackend)
	if r, replicated := b.(*replicaView); replicated && r.canCopy() != nil {
		ok = false
	}
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "the pool of volume %s cannot copy nor grow", v.id)
	}
	return backend, nil
}

// ExpandRequest asks to make a staged volume's filesystem as large as its device.
type ExpandRequest struct {
	Volume     fsm.VolumeID
	Path       string         // where it is staged or bound
	Size       int64          // bytes that are needed at least; 0: those of the device
	Capability fsm.Capability // the zero Capability: not said
}

// ExpandNode makes the filesystem on a staged volume as large as the device, and says
// how many bytes the device has. It is done again in vain. NotFound: the volume is not
// at the path. Busy: the controllers have decided a size that this host has not made
// yet. OutOfRange: more is asked for than was decided. Precondition: the filesystem
// cannot be grown while it is mounted here; staging it again grows it.
func (e *Executor) ExpandNode(ctx context.Context, req ExpandRequest) (int64, error) {
	if !req.Volume.Valid() || !e.knows(req.Volume) {
		return 0, fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	}
	key := fmt.Sprintf("expand %d %v %s", req.Size, req.Capability, req.Path)
	err := e.serve(ctx, req.Volume, key, func(ctx context.Context, v *volume, _ *call) error {
		return e.expand(ctx, v, &req)
	})
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v, known := e.volumes[req.Volume]
	if !known || v.expanded == 0 { // it was taken down and forgotten since
		return 0, fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	}
	return v.expanded, nil
}

func (e *Executor) expand(ctx context.Context, v *volume, req *ExpandRequest) error {
	j := &job{Executor: e, v: v, want: &desired{volume: v.id}}
	have, err := e.observe(ctx, v, j.want)
	if err != nil {
		return err
	}
	held := v.journal.Staging
	switch {
	case !have.Attached() || held == nil || !e.isAt(&have, held, req.Path):
		return fsm.Reject(fsm.NotFound, "volume %s is not at %s", v.id, req.Path)
	case held.Block != req.Capability.Block && req.Capability != (fsm.Capability{}):
		return fsm.Reject(fsm.Invalid, "volume %s is not staged for %s", v.id, req.Capability)
	}
	w, err := e.wishOf(ctx, v)
	if err != nil {
		return err
	}
	switch {
	case req.Size > w.Size:
		return fsm.Reject(fsm.OutOfRange, "volume %s has %d bytes, and no controller has decided to make them %d", v.id, w.Size, req.Size)
	case have.deviceSize() < w.Size:
		return fsm.Reject(fsm.Busy, "volume %s has %d bytes, and is just being grown to %d", v.id, have.deviceSize(), w.Size)
	case !held.Block:
		err = j.expandFilesystem(ctx, &have, w.Format.FSType, held.Path)
	}
	if err == nil {
		e.mu.Lock()
		v.expanded = have.deviceSize()
		e.mu.Unlock()
	}
	return err
}

// isAt tells whether the volume is staged or bound at the path.
func (e *Executor) isAt(have *observed, held *staging, path string) bool {
	real := e.real(path)
	if e.real(held.Path) == real {
		return held.Block || have.staged
	}
	for _, bound := range have.bound {
		if e.real(bound) == real {
			return true
		}
	}
	return false
}

// expandFilesystem grows a mounted filesystem, between the points of the step.
func (j *job) expandFilesystem(ctx context.Context, have *observed, fsType, path string) error {
	if j.Grower == nil {
		return fsm.Reject(fsm.Precondition, "volume %s: this host cannot grow filesystems", j.v.id)
	}
	if have.grownTo == have.deviceSize() {
		return nil
	}
	j.hit("grow-filesystem.before")
	err := j.growFilesystem(ctx, have, fsType, path)
	j.hit("grow-filesystem.after")
	return wrap(j.v, stepGrowFS, err)
}
