package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// errSessionChanged says that a grant was read in a session that is over (S2).
var errSessionChanged = errors.New("the session in which the volume was granted is over")

// job is one work on a volume: what is wanted, and for whom.
type job struct {
	*volumeWorker
	v     *volume
	want  *volumeSpec
	have  *observedVolume // when the step was chosen
	call  *call           // nil in the background
	flags []string        // mount flags of the call; never written anywhere
	steps int             // that were done
	// at is the epoch of the wish that is acted on, with the incarnation's id; zero for calls.
	at            fsm.Epoch
	incarnationID []byte
	// epoch is that of the publication whose intent a call withdraws; else zero.
	epoch fsm.Epoch
}

// drive brings the volume to where want says.
func (j *job) drive(ctx context.Context) error {
	j.want.canExpandFilesystem, j.want.canThrottle = j.FilesystemTools != nil, j.Throttle != nil
	return j.env.drive(ctx, j)
}

func (j *job) choose(ctx context.Context) (step, error) {
	have, err := j.observer.observeVolume(ctx, j.v, j.want)
	if err != nil {
		return step{}, err
	}
	j.have = &have
	s := nextVolumeStep(j.want, &have)
	j.v.limitsStep = j.isLimitsStep(s, &have)
	return s, nil
}

// isLimitsStep tells whether the step, or the refusal of one, is about new limits.
func (j *job) isLimitsStep(s step, have *observedVolume) bool {
	return s.kind == stepThrottle ||
		s.kind == stepRefuse && j.want.grant == nil && have.Size >= j.want.size && nextLimits(j.want, have).kind == stepRefuse
}

// authorize: what gives a volume out needs a grant of this session (S2); what a wish
// asks for is recorded as acted on first (S14).
func (j *job) authorize(step) error {
	if g := j.want.grant; g != nil && !j.sessionHolds(g.session) {
		return errSessionChanged
	}
	if j.call != nil || j.at.IsZero() {
		return nil
	}
	return j.acted.persist(j.at, j.incarnationID)
}

func (j *job) did(s step, began time.Time, err error) {
	j.steps++
	if err != nil {
		j.logger(j.v).Warn("step failed", "step", s.kind, "error", err)
	} else {
		j.logger(j.v).Debug("step done", "step", s.kind, "path", s.path, "took", time.Since(began))
	}
}

func (j *job) wrap(kind stepKind, err error) error { return wrapStep(j.v, kind, err) }

func (j *job) restless() error {
	return fmt.Errorf("volume %s is not as it should be after %d steps", j.v.id, maxSteps)
}

func (j *job) perform(ctx context.Context, s step) error {
	have := j.have
	backend, err := j.poolSet.backend(j.v)
	if err != nil {
		return err
	}
	switch s.kind {
	case stepCreate:
		return backend.Create(ctx, j.v.id, j.want.size)
	case stepRemove:
		return backend.Remove(ctx, j.v.id)
	case stepCreateFrom:
		return j.createFromSource(ctx)
	case stepExpand:
		return j.expandDevice(ctx)
	case stepThrottle:
		return j.throttle(ctx, have)
	case stepActivate:
		if have.replica != nil {
			return j.attachPrimary(ctx)
		}
		_, err := backend.Activate(ctx, j.v.id, j.want.grant.block && j.want.grant.readOnly)
		return err
	case stepDeactivate:
		if err := j.unthrottle(ctx, have); err != nil {
			return err
		}
		return backend.Deactivate(ctx, j.v.id)
	case stepWriteRecord:
		return j.writeRecord()
	case stepUnbind:
		return j.unbind(ctx, s.path, have)
	case stepUnmount:
		return j.Mounter.Unmount(ctx, have.Device, j.stagingPath())
	}
	return j.performGrantedStep(ctx, s, have)
}

// performGrantedStep does the steps that a grant is for.
func (j *job) performGrantedStep(ctx context.Context, s step, have *observedVolume) error {
	g := j.want.grant
	switch s.kind {
	case stepProbe:
		content, err := j.Mounter.Probe(ctx, have.Path, have.deviceSize())
		j.v.content = content
		return err
	case stepFormat:
		j.v.content = Content{} // whatever becomes of it
		err := j.Mounter.Format(ctx, have.Path, g.fs, !have.content.Empty)
		if err == nil {
			j.v.content, j.v.formatted = Content{Read: true, Found: g.fs}, true
			j.v.record.FilesystemFor = have.deviceSize()
		}
		return err
	case stepChangeUUID:
		j.v.content = Content{} // whatever becomes of it
		return j.FilesystemTools.ChangeUUID(ctx, have.Device, g.fs)
	case stepExpandFilesystem:
		path := ""
		if have.staged {
			path = g.path
		}
		return j.expandFilesystem(ctx, have, g.fs.Type, path)
	case stepReportFormatted:
		return j.reportFormatted(ctx)
	case stepMount:
		return j.Mounter.Mount(ctx, have.Device, MountOptions{Path: g.path, FSType: g.fs.Type, ReadOnly: g.readOnly, Flags: j.flags})
	case stepBind:
		return j.Mounter.Bind(ctx, have.Device, BindOptions{
			StagingPath: g.path, Path: s.path, DeviceNode: g.block, ReadOnly: j.want.bind.ReadOnly, FSType: g.fs.Type, Flags: j.flags, MountGroup: j.want.bind.MountGroup,
		})
	}
	return fmt.Errorf("there is no step %q", s.kind)
}

// stagingPath is where the volume is staged, or where the log says it is.
func (j *job) stagingPath() string {
	if staged := j.v.record.Staging; staged != nil {
		return staged.Path
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if w := j.v.desired; w != nil && w.Publication != nil && w.Publication.Staging != nil {
		return w.Publication.Staging.Path
	}
	return ""
}

// record puts what is about to be given out on disk.
func (j *job) writeRecord() error {
	r, g := &j.v.record.volumeRecord, j.want.grant
	if j.want.bind != nil {
		r.Targets = append(r.withoutTarget(j.want.bind.Path), *j.want.bind)
		return j.records.saveRecord(j.v, true)
	}
	r.Staging = &stagingRecord{Epoch: g.epoch, Path: g.path, Block: g.block}
	if g.epoch.Compare(r.Epoch) > 0 {
		r.Epoch = g.epoch
	}
	if r.Size = max(r.Size, j.want.size); g.formatting {
		r.Formatting = g.fs.UUID
	}
	j.mu.Lock()
	if j.v.desired != nil {
		r.Pool = j.v.desired.Pool
	}
	id := j.session.incarnationID
	j.mu.Unlock()
	if err := j.records.saveRecord(j.v, true); err != nil {
		return err
	}
	j.acted.advance(r.Floor, id)
	return nil
}

// reportFormatted has the format committed before the first mount (S15).
func (j *job) reportFormatted(ctx context.Context) error {
	number, err := j.records.reserveSequence(j.v)
	if err != nil {
		return err
	}
	g := j.want.grant
	_, err = j.reports.reportAndWait(ctx, j.call, &fsmpb.Observation{
		VolumeId: string(j.v.id), Epoch: epochProto(g.epoch), Sequence: number,
		Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: g.fs.Type, FsUuid: g.fs.UUID}},
	})
	if err == nil {
		g.formatting, g.cloned, j.v.formatted = false, false, false
	}
	return err
}

// publicationEpoch is the epoch that what is up here belongs to.
func (j *job) publicationEpoch() fsm.Epoch {
	if !j.epoch.IsZero() {
		return j.epoch
	}
	if staged := j.v.record.Staging; staged != nil {
		return staged.Epoch
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if w := j.v.desired; w != nil && w.Publication != nil {
		return w.Publication.Epoch
	}
	return fsm.Epoch{}
}

// down takes everything of the volume down and writes into the outbox that it is.
func (j *job) takeDown(ctx context.Context) error {
	for i := range j.v.record.Targets {
		j.want.dropTargets = append(j.want.dropTargets, j.v.record.Targets[i].Path)
	}
	if err := j.dropTargets(ctx); err != nil {
		return err
	}
	j.want.takeDown = true
	if err := j.drive(ctx); err != nil {
		return err
	}
	j.hitFaultPoint("down.done")
	staged := j.v.record.Staging
	if staged == nil {
		return nil
	}
	j.v.record.Staging, j.v.record.Targets = nil, nil
	return j.outbox.queueTeardowns(j.v, pendingTeardown{Epoch: staged.Epoch})
}

// dropTargets ends the targets in want.drop, whatever else is wanted.
func (j *job) dropTargets(ctx context.Context) error {
	want := *j.want
	j.want.takeDown, j.want.goal, j.want.grant = false, 0, nil
	err := j.drive(ctx)
	j.want.takeDown, j.want.goal, j.want.grant = want.takeDown, want.goal, want.grant
	return err
}
