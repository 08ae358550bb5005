package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// errSessionChanged says that a grant was read in a session that has ended (S2).
var errSessionChanged = errors.New("the session in which the volume was granted is over")

func (j *job) perform(ctx context.Context, s plan.Step) error {
	have := j.have
	backend, err := j.poolSet.backend(j.v)
	if err != nil {
		return err
	}
	switch s.Kind {
	case plan.StepCreate:
		return backend.Create(ctx, j.v.id, j.want.Size)
	case plan.StepRemove:
		if err := backend.Remove(ctx, j.v.id); err != nil {
			return err
		}
		j.noteRemoved(j.v, j.at)
		return nil
	case plan.StepImport, plan.StepGiveBack:
		return j.performImport(ctx, s.Kind, backend)
	case plan.StepVerifyImport, plan.StepReplaceMetadata:
		return j.performImportDRBD(ctx, s.Kind, backend)
	case plan.StepCreateFrom:
		return j.createFromSource(ctx)
	case plan.StepExpand:
		return j.expandDevice(ctx)
	case plan.StepThrottle:
		return j.throttle(ctx, have)
	case plan.StepActivate:
		if have.Replica != nil {
			return j.attachPrimary(ctx)
		}
		// Below an encryption the header may be written to; the mapping is what is read-only.
		_, err := backend.Activate(ctx, j.v.id, j.want.Grant.Block && j.want.Grant.ReadOnly && have.Crypt == nil)
		return err
	case plan.StepDeactivate:
		if have.Active() {
			if err := j.unthrottle(ctx, have); err != nil {
				return err
			}
		}
		return backend.Deactivate(ctx, j.v.id)
	case plan.StepCloseMapping:
		return j.closeMapping(ctx, have)
	case plan.StepWipeHeader:
		return j.wipeHeader(ctx)
	case plan.StepWriteRecord:
		return j.writeRecord()
	case plan.StepUnbind:
		return j.unbind(ctx, s.Path, have)
	case plan.StepUnmount:
		return j.Mounter.Unmount(ctx, have.Device, j.stagingPath())
	}
	return j.performGrantedStep(ctx, s, have)
}

// performGrantedStep does the steps that need a grant.
func (j *job) performGrantedStep(ctx context.Context, s plan.Step, have *plan.ObservedVolume) error {
	g := j.want.Grant
	if done, err := j.performCryptStep(ctx, s, have); done {
		return err
	}
	switch s.Kind {
	case plan.StepProbe:
		content, err := j.Mounter.Probe(ctx, have.Path, have.DeviceSize())
		if err != nil && plantedbug.Is(plantedbug.FormatOnDoubt) {
			content, err = executor.Content{Read: true, Empty: true}, nil
		}
		j.v.content = content
		return err
	case plan.StepFormat:
		j.v.content = executor.Content{} // however it ends
		err := j.Mounter.Format(ctx, have.Path, g.FS, !have.Content.Empty)
		if err == nil {
			j.v.content, j.v.formatted = executor.Content{Read: true, Found: g.FS}, true
			j.v.record.FilesystemFor = have.DeviceSize()
		}
		return err
	case plan.StepChangeUUID:
		j.v.content = executor.Content{} // however it ends
		return j.FilesystemTools.ChangeUUID(ctx, have.Device, g.FS)
	case plan.StepExpandFilesystem:
		path := ""
		if have.Staged {
			path = g.Path
		}
		return j.expandFilesystem(ctx, have, g.FS.Type, path)
	case plan.StepReportFormatted:
		return j.reportFormatted(ctx)
	case plan.StepMount:
		return j.Mounter.Mount(ctx, have.Device, executor.MountOptions{Path: g.Path, FSType: g.FS.Type, ReadOnly: g.ReadOnly, Flags: j.flags})
	case plan.StepBind:
		return j.Mounter.Bind(ctx, have.Device, executor.BindOptions{
			StagingPath: g.Path, Path: s.Path, DeviceNode: g.Block, ReadOnly: j.want.Bind.ReadOnly, FSType: g.FS.Type, Flags: j.flags, MountGroup: j.want.Bind.MountGroup,
		})
	}
	return fmt.Errorf("there is no step %q", s.Kind)
}

// stagingPath is where the volume is staged, or is to be staged by the log.
func (j *job) stagingPath() string {
	if staged := j.v.record.Staging; staged != nil {
		return staged.Path
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if d := j.v.desired; d != nil && d.Publication != nil && d.Publication.Staging != nil {
		return d.Publication.Staging.Path
	}
	return ""
}

// writeRecord records what is about to be handed out.
func (j *job) writeRecord() error {
	r, g := &j.v.record.VolumeRecord, j.want.Grant
	if j.want.Bind != nil {
		r.Targets = append(r.WithoutTarget(j.want.Bind.Path), *j.want.Bind)
		return j.records.saveRecord(j.v, true)
	}
	r.Staging = &records.StagingRecord{Epoch: g.Epoch, Path: g.Path, Block: g.Block}
	if g.Epoch.Compare(r.Epoch) > 0 {
		r.Epoch = g.Epoch
	}
	if r.Size = max(r.Size, j.want.Size); g.Formatting {
		r.Formatting = g.FS.UUID
	}
	if r.Encrypted = g.Crypt != nil; r.Encrypted && g.Crypt.Formatting {
		r.FormattingHeader = g.Crypt.UUID
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
	j.acted.Advance(r.Floor, id)
	return nil
}

// reportFormatted has the format committed before the first mount (S15).
func (j *job) reportFormatted(ctx context.Context) error {
	number, err := j.records.reserveSequence(j.v)
	if err != nil {
		return err
	}
	g := j.want.Grant
	_, err = j.reports.reportAndWait(ctx, j.call, &fsmpb.Observation{
		VolumeId: string(j.v.id), Epoch: g.Epoch.Proto(), Sequence: number,
		Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: g.FS.Type, FsUuid: g.FS.UUID}},
	})
	if err == nil {
		g.Formatting, g.Cloned, j.v.formatted = false, false, false
	}
	return err
}

// publicationEpoch is the epoch of the publication under which the volume is up here.
func (j *job) publicationEpoch() fsm.Epoch {
	if !j.epoch.IsZero() {
		return j.epoch
	}
	if staged := j.v.record.Staging; staged != nil {
		return staged.Epoch
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if d := j.v.desired; d != nil && d.Publication != nil {
		return d.Publication.Epoch
	}
	return fsm.Epoch{}
}

// takeDown takes everything of the volume down and puts a record of that into the outbox.
func (j *job) takeDown(ctx context.Context) error {
	for i := range j.v.record.Targets {
		j.want.DropTargets = append(j.want.DropTargets, j.v.record.Targets[i].Path)
	}
	if err := j.dropTargets(ctx); err != nil {
		return err
	}
	j.want.TakeDown = !plantedbug.Is(plantedbug.UnstageForgotten)
	if err := j.drive(ctx); err != nil {
		return err
	}
	j.hitFaultPoint("down.done")
	staged := j.v.record.Staging
	if staged == nil {
		return nil
	}
	j.v.record.Staging, j.v.record.Targets = nil, nil
	return j.outbox.queueTeardowns(j.v, records.PendingTeardown{Epoch: staged.Epoch})
}

// dropTargets ends the targets in want.DropTargets, whatever else is wanted.
func (j *job) dropTargets(ctx context.Context) error {
	want := *j.want
	j.want.TakeDown, j.want.Goal, j.want.Grant = false, 0, nil
	err := j.drive(ctx)
	j.want.TakeDown, j.want.Goal, j.want.Grant = want.TakeDown, want.Goal, want.Grant
	return err
}
