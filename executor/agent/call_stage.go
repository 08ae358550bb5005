package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// drainTimeout is how long a bring-up waits for the outbox to be acknowledged first.
	drainTimeout = 5 * time.Second
	// maxGrants is how often one call gets a new grant because its session ended.
	maxGrants = 5
)

// Stage proposes the intent, which the state machine grants or rejects, brings the volume up,
// and returns when that is committed. A repetition observes that nothing is to be done. A mount
// under an older publication is taken down first (S3).
func (a *Agent) Stage(ctx context.Context, req executor.StageRequest) error {
	key := fmt.Sprintf("stage %s %v %s", req.Epoch, req.Capability, req.Path)
	return a.calls.serveCall(ctx, req.Volume, key, func(ctx context.Context, v *volume, c *call) error {
		return a.stager.stage(ctx, v, c, &req)
	})
}

func (s *stager) stage(ctx context.Context, v *volume, c *call, req *executor.StageRequest) error {
	if err := s.Mounter.CheckMount(req.Path, req.Capability.FSType, req.Flags); err != nil {
		return err
	}
	if _, err := s.actingSession(); err != nil {
		return err
	}
	if s.isEncrypted(v) && (len(req.Keys) == 0 || req.Keys[0].IsZero()) {
		return errNoPassphrase(v.id) // before an intent is recorded
	}
	if err := s.clearOlder(ctx, v, c, req.Epoch); err != nil {
		return err
	}
	for range maxGrants {
		err := s.stageOnce(ctx, v, c, req)
		if !errors.Is(err, errSessionChanged) {
			return err
		}
	}
	return fsm.Reject(fsm.Busy, "volume %s: the session with the controllers keeps changing", v.id)
}

// clearOlder prepares a bring-up under an epoch: the call's epoch must not be an older one
// (S2), what is left of an older one is taken down (S3), and every teardown is acknowledged
// by the log (S16).
func (s *stager) clearOlder(ctx context.Context, v *volume, c *call, epoch fsm.Epoch) error {
	staged := v.record.Staging
	if epoch.Compare(v.record.Epoch) < 0 {
		return fsm.Reject(fsm.StaleEpoch, "volume %s: its publication at epoch %s is over, since it was published to this host again at epoch %s", v.id, epoch, v.record.Epoch)
	}
	if staged != nil && staged.Epoch.Compare(epoch) < 0 {
		if err := s.takeDownOlder(ctx, v, epoch); err != nil {
			return err
		}
	} else if s.hasTeardown(v) {
		if err := s.volumeWorker.converge(ctx, v); err != nil {
			return err
		}
	}
	return s.outbox.drain(ctx, v, c, drainTimeout)
}

// takeDownOlder takes down what an earlier publication left, once desired state shows that
// that publication is over: the caller's word alone is not enough.
func (s *stager) takeDownOlder(ctx context.Context, v *volume, epoch fsm.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, s.CatchUpTimeout)
	defer cancel()
	err := s.awaitDesired(ctx, v, func(d *fsm.DesiredVolume) bool {
		return d != nil && d.Publication != nil && d.Publication.Epoch.Compare(epoch) >= 0
	})
	if err != nil {
		return fsm.Reject(fsm.StaleEpoch, "volume %s is not known to be published to this host at epoch %s", v.id, epoch)
	}
	if err := s.volumeWorker.converge(ctx, v); err != nil {
		return err
	}
	if v.record.Staging != nil && v.record.Staging.Epoch.Compare(epoch) < 0 {
		return fsm.Reject(fsm.Busy, "volume %s is still staged from the publication of epoch %s", v.id, v.record.Staging.Epoch)
	}
	return nil
}

func (s *stager) hasTeardown(v *volume) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return v.desired != nil && v.desired.Teardown != nil
}

// stageOnce gets one grant and uses it.
func (s *stager) stageOnce(ctx context.Context, v *volume, c *call, req *executor.StageRequest) error {
	g, err := s.proposeStage(ctx, v, c, req)
	if err != nil {
		return err
	}
	d, err := s.desiredOf(ctx, v)
	if err != nil {
		return err
	}
	want := &plan.VolumeSpec{Volume: v.id, Size: d.Size, Grant: g, Limits: &d.Limits, Expanding: d.Operation != 0, Replicated: d.Replication != nil}
	j := &job{volumeWorker: s.volumeWorker, v: v, want: want, call: c, flags: req.Flags, keys: req.Keys}
	if err := j.checkKeys(); err != nil {
		return err
	}
	if s.Throttle == nil && d.Limits != (fsm.Limits{}) {
		err := j.tolerateLimitsError(fsm.Reject(fsm.Precondition, "this host has no control groups that bound I/O"))
		if err != nil {
			return err
		}
	}
	if err := j.drive(ctx); err != nil {
		return err
	}
	return s.reportStaged(ctx, v, c, g)
}

// proposeStage proposes the intent to stage and returns the grant.
func (s *stager) proposeStage(ctx context.Context, v *volume, c *call, req *executor.StageRequest) (*plan.Grant, error) {
	session, err := s.actingSession()
	if err != nil {
		return nil, err
	}
	capability, err := req.Capability.Proto()
	if err != nil {
		return nil, err
	}
	number, err := s.records.reserveSequence(v)
	if err != nil {
		return nil, err
	}
	s.hitFaultPoint("propose-stage.before")
	cmd := &fsmpb.StageVolume{
		VolumeId: string(v.id), NodeId: string(s.Node), HostId: string(s.Host.ID), BootId: s.Host.BootID,
		Epoch: req.Epoch.Proto(), StagingPath: req.Path, Capability: capability,
		FsUuid: uuid.NewString(), Sequence: number,
	}
	if s.mayBeEncrypted(v) {
		cmd.LuksUuid = uuid.NewString()
	}
	outcome, err := s.proposer.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_StageVolume{StageVolume: cmd}})
	s.hitFaultPoint("propose-stage.after")
	if err != nil {
		return nil, err
	}
	g, at, err := s.proposer.grantOf(session, outcome)
	if err != nil {
		return nil, err
	}
	g.Path, v.record.Floor = req.Path, at
	return g, nil
}

// reportStaged has the staged volume committed, once.
func (s *stager) reportStaged(ctx context.Context, v *volume, c *call, g *plan.Grant) error {
	f := plan.Fact{Name: plan.FactStaged, Path: g.Path, Epoch: g.Epoch}
	if s.stagedCommitted(v, g, f) {
		return nil
	}
	s.hitFaultPoint("report-staged.before")
	err := s.volumeReports.reportFactAndWait(ctx, v, c, f, &fsmpb.Observation{Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: g.Path}}})
	s.hitFaultPoint("report-staged.after")
	return err
}

// stagedCommitted reports whether the log has the volume as staged: it acknowledged this
// process's report, or desired state from after the grant shows it.
func (s *stager) stagedCommitted(v *volume, g *plan.Grant, f plan.Fact) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := v.committed[f]; known {
		return true
	}
	p := v.publicationAfterGrant(g)
	return p != nil && p.Staging != nil && p.Staging.Done && p.Staging.Path == g.Path && p.Staging.Boot == s.Host.BootID
}

// publicationAfterGrant is the grant's publication in desired state from after the grant, nil
// when there is none. The caller holds table.mu and the volume's lock.
func (v *volume) publicationAfterGrant(g *plan.Grant) *fsm.Publication {
	if v.desired == nil || v.desired.Publication == nil || v.desiredAt.Compare(v.record.Floor) < 0 || v.desired.Publication.Epoch != g.Epoch {
		return nil
	}
	return v.desired.Publication
}
