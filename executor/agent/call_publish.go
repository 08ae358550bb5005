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
)

// PublishTarget proposes the intent, which the state machine grants or rejects, binds the
// volume, and returns when the bind is committed. A repetition observes that nothing is to be
// done. A refusal leaves no target behind.
func (a *Agent) PublishTarget(ctx context.Context, req executor.PublishTargetRequest) error {
	if req.ReadOnly || req.Capability.Block {
		req.MountGroup = ""
	}
	key := fmt.Sprintf("publish %s %s %s %s", req.Epoch, req.Fingerprint, req.MountGroup, req.TargetPath)
	return a.calls.serveCall(ctx, req.Volume, key, func(ctx context.Context, v *volume, c *call) error {
		return a.binder.publishTarget(ctx, v, c, &req)
	})
}

func (b *targetBinder) publishTarget(ctx context.Context, v *volume, c *call, req *executor.PublishTargetRequest) error {
	if err := b.Mounter.CheckMount(req.TargetPath, req.Capability.FSType, req.Flags); err != nil {
		return err
	}
	switch staged := v.record.Staging; {
	case req.StagingPath == "":
		return fsm.Reject(fsm.Precondition, "volume %s: no staging path was given", v.id)
	case req.Epoch.Compare(v.record.Epoch) < 0:
		return fsm.Reject(fsm.StaleEpoch, "volume %s: its publication at epoch %s is over, since it was published to this host again at epoch %s", v.id, req.Epoch, v.record.Epoch)
	case staged != nil && b.realPath(staged.Path) != b.realPath(req.StagingPath):
		return fsm.Reject(fsm.Precondition, "volume %s is staged at %s, not at %s", v.id, staged.Path, req.StagingPath)
	}
	if err := b.checkMountGroup(v, req); err != nil {
		return err
	}
	if err := b.outbox.drain(ctx, v, c, drainTimeout); err != nil {
		return err
	}
	for range maxGrants {
		err := b.publishTargetOnce(ctx, v, c, req)
		if !errors.Is(err, errSessionChanged) {
			return err
		}
	}
	return fsm.Reject(fsm.Busy, "volume %s: the session with the controllers keeps changing", v.id)
}

// checkMountGroup refuses a second mount group: a file has one group, so at any time all
// writable targets on this host are of one. A target without a group is compatible with any.
func (b *targetBinder) checkMountGroup(v *volume, req *executor.PublishTargetRequest) error {
	for _, bound := range v.record.Targets {
		switch same := b.realPath(bound.Path) == b.realPath(req.TargetPath); {
		case bound.MountGroup == req.MountGroup:
		case same:
			return fsm.Reject(fsm.Incompatible, "volume %s is published at %s with another volume_mount_group", v.id, bound.Path)
		case bound.MountGroup != "" && req.MountGroup != "":
			return fsm.Reject(fsm.Precondition, "volume %s is published at %s for group %s, and its files cannot be another group's at the same time: unpublish it there first, or use the same group", v.id, bound.Path, bound.MountGroup)
		}
	}
	return nil
}

// publishTargetOnce gets one grant and uses it. What is certain to be refused is refused before
// anything is recorded.
func (b *targetBinder) publishTargetOnce(ctx context.Context, v *volume, c *call, req *executor.PublishTargetRequest) error {
	release, err := b.claimTarget(v, req.TargetPath)
	if err != nil {
		return err
	}
	defer release()
	if v.record.Target(req.TargetPath) == nil {
		if err := b.Mounter.CheckTarget(req.TargetPath, req.Capability.Block); err != nil {
			return err
		}
	}
	g, err := b.proposeTarget(ctx, v, c, req)
	if err != nil {
		return err
	}
	if staged := v.record.Staging; staged != nil {
		g.Path, g.Block = staged.Path, staged.Block
	}
	want := &plan.VolumeSpec{Volume: v.id, Grant: g, Bind: &records.TargetRecord{Path: req.TargetPath, ReadOnly: req.ReadOnly || g.ReadOnly, MountGroup: req.MountGroup}}
	j := &job{volumeWorker: b.volumeWorker, v: v, want: want, call: c, flags: req.Flags}
	err = j.drive(ctx)
	if err == nil {
		return b.reportBound(ctx, v, c, g, req.TargetPath)
	}
	var rej *fsm.Rejection
	if errors.As(err, &rej) {
		b.withdrawTarget(ctx, v, c, g, req.TargetPath)
	}
	return err
}

// reportBound has the bound target committed, once.
func (b *targetBinder) reportBound(ctx context.Context, v *volume, c *call, g *plan.Grant, path string) error {
	f := plan.Fact{Name: plan.FactTargetBound, Path: path, Epoch: g.Epoch}
	if b.targetCommitted(v, g, f) {
		return nil
	}
	b.hitFaultPoint("report-bound.before")
	err := b.volumeReports.reportFactAndWait(ctx, v, c, f, &fsmpb.Observation{Fact: &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: path}}})
	b.hitFaultPoint("report-bound.after")
	return err
}

// targetCommitted reports whether the log has the bound target: it acknowledged this process's
// report, or desired state from after the grant shows it.
func (b *targetBinder) targetCommitted(v *volume, g *plan.Grant, f plan.Fact) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := v.committed[f]; known {
		return true
	}
	p := v.publicationAfterGrant(g)
	for i := 0; p != nil && i < len(p.Targets); i++ {
		if t := &p.Targets[i]; t.Path == f.Path && t.Done {
			return true
		}
	}
	return false
}

// proposeTarget proposes the intent to bind and returns the grant.
func (b *targetBinder) proposeTarget(ctx context.Context, v *volume, c *call, req *executor.PublishTargetRequest) (*plan.Grant, error) {
	session, err := b.actingSession()
	if err != nil {
		return nil, err
	}
	capability, err := req.Capability.Proto()
	if err != nil {
		return nil, err
	}
	number, err := b.records.reserveSequence(v)
	if err != nil {
		return nil, err
	}
	b.hitFaultPoint("propose-target.before")
	outcome, err := b.proposer.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_PublishTarget{PublishTarget: &fsmpb.PublishTarget{
		VolumeId: string(v.id), NodeId: string(b.Node), HostId: string(b.Host.ID), BootId: b.Host.BootID,
		Epoch: req.Epoch.Proto(), TargetPath: req.TargetPath, ReadOnly: req.ReadOnly, Capability: capability,
		Fingerprint: fsm.TargetFingerprint(req.Fingerprint), Sequence: number,
	}}})
	b.hitFaultPoint("propose-target.after")
	if err != nil {
		return nil, err
	}
	g, at, err := b.proposer.grantOf(session, outcome)
	if err != nil {
		return nil, err
	}
	v.record.Floor = at
	return g, nil
}

// UnpublishTarget ends one target, with or without a quorum (S28), and removes the path.
// Where the volume is not bound and never was, the path is not touched.
func (a *Agent) UnpublishTarget(ctx context.Context, id fsm.VolumeID, path string) error {
	if !id.Valid() || !a.isKnown(id) {
		return nil
	}
	return a.calls.serveCall(ctx, id, "unpublish "+path, func(ctx context.Context, v *volume, c *call) error {
		return a.binder.unpublishTarget(ctx, v, c, path)
	})
}

func (b *targetBinder) unpublishTarget(ctx context.Context, v *volume, c *call, path string) error {
	name, ok := b.observer.targetName(v, path)
	if !ok {
		return nil
	}
	j := &job{volumeWorker: b.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: v.id, DropTargets: []string{name}}, call: c}
	return j.drive(ctx)
}

// targetName is the target at the path, under the name that the records use.
func (o *observer) targetName(v *volume, path string) (string, bool) {
	p := o.expectedPaths(v, nil)
	name, ok := p.targets[o.realPath(path)]
	return name, ok
}
