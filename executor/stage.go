package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// drainLimit is how long a bring-up waits for the outbox before it.
	drainLimit = 5 * time.Second
	// grantLimit is how often a call asks anew because its session ended.
	grantLimit = 5
)

// StageRequest asks to bring a volume up at a path.
type StageRequest struct {
	Volume     fsm.VolumeID
	Epoch      fsm.Epoch // of the publication that the caller means (S3)
	Path       string    // absolute
	Capability fsm.Capability
	Flags      []string // mount flags in clear: never logged nor stored
}

// Stage records the intent in the log, which grants it, brings the volume up, and
// returns when the log knows that it is. Asked again, it observes that nothing is
// to be done. A mount of an older publication is taken down first (S3).
func (e *Executor) Stage(ctx context.Context, req StageRequest) error {
	key := fmt.Sprintf("stage %s %v %s", req.Epoch, req.Capability, req.Path)
	return e.serve(ctx, req.Volume, key, func(ctx context.Context, v *volume, c *call) error {
		return e.stage(ctx, v, c, &req)
	})
}

func (e *Executor) stage(ctx context.Context, v *volume, c *call, req *StageRequest) error {
	if err := e.Mounter.Check(req.Path, req.Capability.FSType, req.Flags); err != nil {
		return err
	}
	if _, err := e.mayAct(); err != nil {
		return err
	}
	if err := e.clear(ctx, v, c, req.Epoch); err != nil {
		return err
	}
	for range grantLimit {
		err := e.stageOnce(ctx, v, c, req)
		if !errors.Is(err, errOtherSession) {
			return err
		}
	}
	return fsm.Reject(fsm.Busy, "volume %s: the session with the controllers keeps changing", v.id)
}

// clear makes the way free for a bring-up under an epoch: older epochs are refused
// (S2), what is left of one is taken down (S3), and the log has heard of every
// tear-down (S16).
func (e *Executor) clear(ctx context.Context, v *volume, c *call, epoch fsm.Epoch) error {
	held := v.journal.Staging
	if epoch.Compare(v.journal.Epoch) < 0 {
		return fsm.Reject(fsm.StaleEpoch, "volume %s was published to this host at epoch %s since epoch %s", v.id, v.journal.Epoch, epoch)
	}
	if held != nil && held.Epoch.Compare(epoch) < 0 {
		if err := e.endOlder(ctx, v, epoch); err != nil {
			return err
		}
	} else if e.owesTeardown(v) {
		if err := e.settle(ctx, v); err != nil {
			return err
		}
	}
	return e.drain(ctx, v, c, drainLimit)
}

// endOlder takes down what an earlier publication left, once the log's wish says
// that it is over: the caller's word alone is not enough.
func (e *Executor) endOlder(ctx context.Context, v *volume, epoch fsm.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, e.Patience)
	defer cancel()
	err := e.awaitWish(ctx, v, func(w *fsm.DesiredVolume) bool {
		return w != nil && w.Publication != nil && w.Publication.Epoch.Compare(epoch) >= 0
	})
	if err != nil {
		return fsm.Reject(fsm.StaleEpoch, "volume %s is not known to be published to this host at epoch %s", v.id, epoch)
	}
	if err := e.settle(ctx, v); err != nil {
		return err
	}
	if v.journal.Staging != nil && v.journal.Staging.Epoch.Compare(epoch) < 0 {
		return fsm.Reject(fsm.Busy, "volume %s is still staged from the publication of epoch %s", v.id, v.journal.Staging.Epoch)
	}
	return nil
}

func (e *Executor) owesTeardown(v *volume) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return v.wish != nil && v.wish.Teardown != nil
}

// stageOnce has one grant, and does what it is for.
func (e *Executor) stageOnce(ctx context.Context, v *volume, c *call, req *StageRequest) error {
	g, err := e.proposeStage(ctx, v, c, req)
	if err != nil {
		return err
	}
	w, err := e.wishOf(ctx, v)
	if err != nil {
		return err
	}
	want := &desired{volume: v.id, size: w.Size, grant: g, limits: &w.Limits, growing: w.Operation != 0}
	j := &job{Executor: e, v: v, want: want, call: c, flags: req.Flags}
	if e.Throttle == nil && w.Limits != (fsm.Limits{}) {
		err := j.unbounded(fsm.Reject(fsm.Precondition, "this host has no control groups that bound I/O"))
		if err != nil {
			return err
		}
	}
	if err := j.drive(ctx); err != nil {
		return err
	}
	return e.reportStaged(ctx, v, c, g)
}

// proposeStage records the intent and reads the grant.
func (e *Executor) proposeStage(ctx context.Context, v *volume, c *call, req *StageRequest) (*grant, error) {
	session, err := e.mayAct()
	if err != nil {
		return nil, err
	}
	capability, err := capabilityProto(req.Capability)
	if err != nil {
		return nil, err
	}
	number, err := e.sequence(v)
	if err != nil {
		return nil, err
	}
	e.hit("propose-stage.before")
	outcome, err := e.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_StageVolume{StageVolume: &fsmpb.StageVolume{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot,
		Epoch: epochProto(req.Epoch), StagingPath: req.Path, Capability: capability,
		FsUuid: uuid.NewString(), Sequence: number,
	}}})
	e.hit("propose-stage.after")
	if err != nil {
		return nil, err
	}
	g, at, err := e.granted(session, outcome)
	if err != nil {
		return nil, err
	}
	g.path, v.journal.Floor = req.Path, at
	return g, nil
}

// wishOf is what the volume must be, as soon as the session says it.
func (e *Executor) wishOf(ctx context.Context, v *volume) (*fsm.DesiredVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Patience)
	defer cancel()
	var said *fsm.DesiredVolume // by now it may be taken back again
	err := e.awaitWish(ctx, v, func(w *fsm.DesiredVolume) bool {
		said = w
		return w != nil
	})
	if err != nil {
		return nil, fsm.Reject(fsm.Busy, "volume %s: the controllers have not said yet what it is", v.id)
	}
	return said, nil
}

// reportStaged has it committed that the volume is up, once.
func (e *Executor) reportStaged(ctx context.Context, v *volume, c *call, g *grant) error {
	f := fact{name: factStaged, path: g.path, epoch: g.epoch}
	if e.knownStaged(v, g, f) {
		return nil
	}
	e.hit("report-staged.before")
	err := e.reportFact(ctx, v, c, f, &fsmpb.Observation{Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: g.path}}})
	e.hit("report-staged.after")
	return err
}

// knownStaged: the log took it from this process, or a wish from after the grant says so.
func (e *Executor) knownStaged(v *volume, g *grant, f fact) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := v.known[f]; known {
		return true
	}
	p := v.publicationSince(g)
	return p != nil && p.Staging != nil && p.Staging.Done && p.Staging.Path == g.path && p.Staging.Boot == e.Host.Boot
}

// publicationSince is the grant's, as a wish from after the grant says; nil when there is
// none. The caller holds mu and the lock.
func (v *volume) publicationSince(g *grant) *fsm.Publication {
	if v.wish == nil || v.wish.Publication == nil || v.wishAt.Compare(v.journal.Floor) < 0 || v.wish.Publication.Epoch != g.epoch {
		return nil
	}
	return v.wish.Publication
}
