package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reclaimRetry is how long an internal reclaim that could not begin waits until it is tried again.
const reclaimRetry = time.Second

// beginReclaim begins to reclaim the space of a volume that nobody uses, where the log desires that (S61). It
// is a call on the volume as any other, without a caller: it needs a grant of its own, and another call
// that is refused because of it ends it. The caller holds the volume's lock.
func (s *spaceWorker) beginReclaim(v *volume, view *plan.VolumeView) {
	if !plan.WantsReclaim(view) {
		return
	}
	s.mu.Lock()
	wait := time.Until(v.reclaimAfter)
	s.mu.Unlock()
	if wait > 0 {
		s.volumeQueue.addAfter(v.id, wait)
		return
	}
	p := *view.Desired.Publication
	c, err := s.calls.beginCall(s.ctx, v.id, "reclaim unpublished "+p.Epoch.String(), func(ctx context.Context, v *volume, c *call) error {
		return s.reclaim(ctx, v, c, &p)
	})
	if err != nil {
		return // it is queued again when what is under way has ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.hasWaiter = false
}

// reclaim brings the volume up without attaching its filesystem to any path, trims it, takes it down and
// reports what came of it. What cannot be reported is taken down in the background.
func (s *spaceWorker) reclaim(ctx context.Context, v *volume, c *call, p *fsm.Publication) error {
	s.mu.Lock()
	v.reclaimAfter = time.Now().Add(reclaimRetry)
	s.mu.Unlock()
	usage, err := s.trimPrivately(ctx, v, c, p)
	if isUnavailable(err) || errors.Is(err, errSessionChanged) || unkillableDone(err) != nil || ctx.Err() != nil {
		return err
	}
	if err := s.reportReclaimed(ctx, v, c, p.Epoch, usage, err); err != nil {
		return err
	}
	s.metrics.observeReclaim(usage, err)
	j := &job{volumeWorker: s.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: v.id}, call: c}
	if err := j.takeDown(ctx); err != nil {
		return err
	}
	return s.outbox.drain(ctx, v, c, drainTimeout)
}

// trimPrivately mounts the filesystem under a grant and trims it.
func (s *spaceWorker) trimPrivately(ctx context.Context, v *volume, c *call, p *fsm.Publication) (executor.SpaceUsage, error) {
	if s.FilesystemTools == nil {
		return executor.SpaceUsage{}, fsm.Reject(fsm.Unsupported, "volume %s: this host cannot trim filesystems", v.id)
	}
	if err := s.stager.clearOlder(ctx, v, c, p.Epoch); err != nil {
		return executor.SpaceUsage{}, err
	}
	g, err := s.stager.proposeStage(ctx, v, c, &executor.StageRequest{Volume: v.id, Epoch: p.Epoch, Path: fsm.ReclaimPath, Capability: p.Capability})
	if err != nil {
		return executor.SpaceUsage{}, err
	}
	d, err := s.desiredOf(ctx, v)
	if err != nil {
		return executor.SpaceUsage{}, err
	}
	want := &plan.VolumeSpec{Volume: v.id, Size: d.Size, Grant: g, Private: true, Replicated: d.Replication != nil}
	j := &job{volumeWorker: s.volumeWorker, v: v, want: want, call: c}
	if err := j.drive(ctx); err != nil {
		return executor.SpaceUsage{}, err
	}
	t := s.reclaimer.newTrim(v, c, j.have)
	if err := t.run(ctx, j.have.Device, executor.TrimOptions{FSType: g.FS.Type, Step: trimStep, Before: t.beforeStep}); err != nil {
		return executor.SpaceUsage{}, err
	}
	return t.ended(ctx)
}

// reportReclaimed has what came of it committed, before the end of the publication is.
func (s *spaceWorker) reportReclaimed(ctx context.Context, v *volume, c *call, epoch fsm.Epoch, usage executor.SpaceUsage, failure error) error {
	f := &fsmpb.Reclaimed{Known: usage.Known, BeforeBytes: usage.Before, AfterBytes: usage.After}
	if failure != nil {
		f.Error = clipText(failure.Error())
	}
	var rej *fsm.Rejection
	if errors.As(failure, &rej) {
		f.Reason = uint32(rej.Reason)
	}
	ob := &fsmpb.Observation{Fact: &fsmpb.Observation_Reclaimed{Reclaimed: f}}
	s.hitFaultPoint("report-reclaimed.before")
	err := s.volumeReports.reportFactAndWait(ctx, v, c, plan.Fact{Name: plan.FactReclaimed, Epoch: epoch}, ob)
	s.hitFaultPoint("report-reclaimed.after")
	return err
}
