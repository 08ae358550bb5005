package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// expandedBeforeMount is the filesystem that is grown before it is mounted; the other kind
// can only be grown while it is.
const expandedBeforeMount = "ext4"

// mayExpand: the log decided a larger size, and nothing of what was there is lost. A
// device that lost its end is never made larger: that would put zeros where data was.
func (d *volumeSpec) mayExpand(have *observedVolume) bool {
	return d.expanding && have.Exists && have.Size < d.size && have.Size >= have.recordedSize
}

// growFilesystem makes a filesystem as large as its device, once for each size of it.
// What it says of its own size is not asked: filesystems round down, and one whose
// growth was killed may claim what it does not have.
func nextExpandFilesystem(want *volumeSpec, have *observedVolume, kind string) step {
	if !want.canExpandFilesystem || want.grant.readOnly || want.grant.fs.Type != kind || have.filesystemFor == have.deviceSize() {
		return step{}
	}
	return step{kind: stepExpandFilesystem}
}

// nextChangeUUID gives a clone an identity of its own before its first mount, and has that
// committed. It is never formatted (S15).
func nextChangeUUID(want *volumeSpec, have *observedVolume) step {
	switch {
	case have.content.Found == want.grant.fs:
		return step{kind: stepReportFormatted}
	case have.content.Found.Type != want.grant.fs.Type:
		return refuse(fsm.Precondition, "%s of volume %s holds %s, not the %s of its source",
			have.Path, want.volume, describeContent(have.content), want.grant.fs.Type)
	case !want.canExpandFilesystem:
		return refuse(fsm.Precondition, "volume %s is a clone, and this host cannot give its filesystem an identity", want.volume)
	}
	return step{kind: stepChangeUUID}
}

// expandDevice makes the image larger, and its device.
func (j *job) expandDevice(ctx context.Context) error {
	backend, err := j.poolSet.snapshotBackend(j.v)
	if err != nil {
		return err
	}
	if err := backend.Expand(ctx, j.v.id, j.want.size); err != nil {
		return err
	}
	if j.v.record.Size == 0 {
		return nil
	}
	j.v.record.Size = j.want.size
	return j.records.saveRecord(j.v, false)
}

// growFilesystem may be repeated: what was grown in part goes on from there.
func (j *job) expandFilesystem(ctx context.Context, have *observedVolume, fsType, path string) error {
	if err := j.FilesystemTools.ExpandFilesystem(ctx, have.Device, fsType, path); err != nil {
		return err
	}
	j.v.record.FilesystemFor = have.deviceSize()
	return j.records.saveRecord(j.v, false)
}

// snapshotBackend is that of the volume's pool, which must be able to do more than
// make and remove.
func (p *poolSet) snapshotBackend(v *volume) (SnapshotBackend, error) {
	b, err := p.backend(v)
	if err != nil {
		return nil, err
	}
	backend, ok := b.(SnapshotBackend)
	if r, isReplica := b.(*replicaBackend); isReplica && r.checkSnapshotPool() != nil {
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

// Expand makes the filesystem on a staged volume as large as the device, and says
// how many bytes the device has. It is done again in vain. NotFound: the volume is not
// at the path. Busy: the controllers have decided a size that this host has not made
// yet. OutOfRange: more is asked for than was decided. Precondition: the filesystem
// cannot be grown while it is mounted here; staging it again grows it.
func (e *Executor) Expand(ctx context.Context, req ExpandRequest) (int64, error) {
	if !req.Volume.Valid() || !e.isKnown(req.Volume) {
		return 0, fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	}
	key := fmt.Sprintf("expand %d %v %s", req.Size, req.Capability, req.Path)
	err := e.calls.serveCall(ctx, req.Volume, key, func(ctx context.Context, v *volume, _ *call) error {
		return e.expander.expandVolume(ctx, v, &req)
	})
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v, known := e.volumes[req.Volume]
	if !known || v.expandedSize == 0 { // it was taken down and forgotten since
		return 0, fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	}
	return v.expandedSize, nil
}

func (x *expander) expandVolume(ctx context.Context, v *volume, req *ExpandRequest) error {
	j := &job{volumeWorker: x.volumeWorker, v: v, want: &volumeSpec{volume: v.id}}
	have, err := x.observer.observeVolume(ctx, v, j.want)
	if err != nil {
		return err
	}
	staged := v.record.Staging
	switch {
	case !have.Active() || staged == nil || !x.observer.isAt(&have, staged, req.Path):
		return fsm.Reject(fsm.NotFound, "volume %s is not at %s", v.id, req.Path)
	case staged.Block != req.Capability.Block && req.Capability != (fsm.Capability{}):
		return fsm.Reject(fsm.Invalid, "volume %s is not staged for %s", v.id, req.Capability)
	}
	w, err := x.desiredOf(ctx, v)
	if err != nil {
		return err
	}
	switch {
	case req.Size > w.Size:
		return fsm.Reject(fsm.OutOfRange, "volume %s has %d bytes, and no controller has decided to make them %d", v.id, w.Size, req.Size)
	case have.deviceSize() < w.Size:
		return fsm.Reject(fsm.Busy, "volume %s has %d bytes, and is just being grown to %d", v.id, have.deviceSize(), w.Size)
	case !staged.Block:
		err = j.expandMountedFilesystem(ctx, &have, w.Format.FSType, staged.Path)
	}
	if err == nil {
		x.mu.Lock()
		v.expandedSize = have.deviceSize()
		x.mu.Unlock()
	}
	return err
}

// isAt tells whether the volume is staged or bound at the path.
func (o *observer) isAt(have *observedVolume, staged *stagingRecord, path string) bool {
	realPath := o.realPath(path)
	if o.realPath(staged.Path) == realPath {
		return staged.Block || have.staged
	}
	for _, bound := range have.boundTargets {
		if o.realPath(bound) == realPath {
			return true
		}
	}
	return false
}

// expandMountedFilesystem grows a mounted filesystem, between the points of the step.
func (j *job) expandMountedFilesystem(ctx context.Context, have *observedVolume, fsType, path string) error {
	if j.FilesystemTools == nil {
		return fsm.Reject(fsm.Precondition, "volume %s: this host cannot grow filesystems", j.v.id)
	}
	if have.filesystemFor == have.deviceSize() {
		return nil
	}
	j.hitFaultPoint("grow-filesystem.before")
	err := j.expandFilesystem(ctx, have, fsType, path)
	j.hitFaultPoint("grow-filesystem.after")
	return wrapStep(j.v, stepExpandFilesystem, err)
}
