package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// PublishRequest asks to bind a staged volume to a target path.
type PublishRequest struct {
	Volume      fsm.VolumeID
	Epoch       fsm.Epoch // of the publication that the caller means (S3)
	StagingPath string    // absolute
	TargetPath  string    // absolute; its parent folder exists
	ReadOnly    bool
	Capability  fsm.Capability
	Flags       []string // mount flags in clear: never logged nor stored
	// Group is the group id, in decimal, that may read and write everything on the
	// filesystem; empty: all is left as it is. It says nothing where nothing is written.
	Group string
	// Fingerprint is equal when all arguments are that must be when the call is repeated.
	Fingerprint string
}

// Publish records the intent in the log, which decides whether there may be this
// target, binds the volume, and returns when the log knows that it is. Asked again, it
// observes that nothing is to be done. A refusal leaves no target behind.
func (e *Executor) Publish(ctx context.Context, req PublishRequest) error {
	if req.ReadOnly || req.Capability.Block {
		req.Group = ""
	}
	key := fmt.Sprintf("publish %s %s %s %s", req.Epoch, req.Fingerprint, req.Group, req.TargetPath)
	return e.serve(ctx, req.Volume, key, func(ctx context.Context, v *volume, c *call) error {
		return e.publish(ctx, v, c, &req)
	})
}

func (e *Executor) publish(ctx context.Context, v *volume, c *call, req *PublishRequest) error {
	if err := e.Mounter.Check(req.TargetPath, req.Capability.FSType, req.Flags); err != nil {
		return err
	}
	switch held := v.journal.Staging; {
	case req.StagingPath == "":
		return fsm.Reject(fsm.Precondition, "volume %s: no staging path was given", v.id)
	case req.Epoch.Compare(v.journal.Epoch) < 0:
		return fsm.Reject(fsm.StaleEpoch, "volume %s was published to this host at epoch %s since epoch %s", v.id, v.journal.Epoch, req.Epoch)
	case held != nil && e.real(held.Path) != e.real(req.StagingPath):
		return fsm.Reject(fsm.Precondition, "volume %s is staged at %s, not at %s", v.id, held.Path, req.StagingPath)
	}
	if err := e.ofOneGroup(v, req); err != nil {
		return err
	}
	if err := e.drain(ctx, v, c, drainLimit); err != nil {
		return err
	}
	for range grantLimit {
		err := e.publishOnce(ctx, v, c, req)
		if !errors.Is(err, errOtherSession) {
			return err
		}
	}
	return fsm.Reject(fsm.Busy, "volume %s: the session with the controllers keeps changing", v.id)
}

// ofOneGroup: a file has one group, so all that is written through on this host at a
// time is one group's. A target without a group asks for none.
func (e *Executor) ofOneGroup(v *volume, req *PublishRequest) error {
	for _, held := range v.journal.Targets {
		switch same := e.real(held.Path) == e.real(req.TargetPath); {
		case held.Group == req.Group:
		case same:
			return fsm.Reject(fsm.Incompatible, "volume %s is published at %s with another volume_mount_group", v.id, held.Path)
		case held.Group != "" && req.Group != "":
			return fsm.Reject(fsm.Precondition, "volume %s is published at %s for group %s, and its files cannot be another group's at the same time: unpublish it there first, or use the same group", v.id, held.Path, held.Group)
		}
	}
	return nil
}

// publishOnce has one grant, and does what it is for. What is known to be refused is
// refused before anything is recorded.
func (e *Executor) publishOnce(ctx context.Context, v *volume, c *call, req *PublishRequest) error {
	release, err := e.claim(v, req.TargetPath)
	if err != nil {
		return err
	}
	defer release()
	if v.journal.target(req.TargetPath) == nil {
		if err := e.Mounter.CheckTarget(req.TargetPath, req.Capability.Block); err != nil {
			return err
		}
	}
	g, err := e.proposeTarget(ctx, v, c, req)
	if err != nil {
		return err
	}
	if held := v.journal.Staging; held != nil {
		g.path, g.block = held.Path, held.Block
	}
	want := &desired{volume: v.id, grant: g, bind: &target{Path: req.TargetPath, ReadOnly: req.ReadOnly || g.readOnly, Group: req.Group}}
	j := &job{Executor: e, v: v, want: want, call: c, flags: req.Flags}
	err = j.drive(ctx)
	if err == nil {
		return e.reportBound(ctx, v, c, g, req.TargetPath)
	}
	var rej *fsm.Rejection
	if errors.As(err, &rej) {
		e.withdraw(ctx, v, c, g, req.TargetPath)
	}
	return err
}

// reportBound has it committed that the target is bound, once.
func (e *Executor) reportBound(ctx context.Context, v *volume, c *call, g *grant, path string) error {
	f := fact{name: factBound, path: path, epoch: g.epoch}
	if e.knownBound(v, g, f) {
		return nil
	}
	e.hit("report-bound.before")
	err := e.reportFact(ctx, v, c, f, &fsmpb.Observation{Fact: &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: path}}})
	e.hit("report-bound.after")
	return err
}

// knownBound: the log took it from this process, or a wish from after the grant says so.
func (e *Executor) knownBound(v *volume, g *grant, f fact) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := v.known[f]; known {
		return true
	}
	p := v.publicationSince(g)
	for i := 0; p != nil && i < len(p.Targets); i++ {
		if t := &p.Targets[i]; t.Path == f.path && t.Done {
			return true
		}
	}
	return false
}

// proposeTarget records the intent and reads the grant.
func (e *Executor) proposeTarget(ctx context.Context, v *volume, c *call, req *PublishRequest) (*grant, error) {
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
	e.hit("propose-target.before")
	outcome, err := e.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_PublishTarget{PublishTarget: &fsmpb.PublishTarget{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot,
		Epoch: epochProto(req.Epoch), TargetPath: req.TargetPath, ReadOnly: req.ReadOnly, Capability: capability,
		Fingerprint: fingerprintBytes(req.Fingerprint), Sequence: number,
	}}})
	e.hit("propose-target.after")
	if err != nil {
		return nil, err
	}
	g, at, err := e.granted(session, outcome)
	if err != nil {
		return nil, err
	}
	v.journal.Floor = at
	return g, nil
}

// Unpublish ends one target, with or without the quorum (S28), and removes the
// path. Where the volume is not bound and never was, nothing is touched.
func (e *Executor) Unpublish(ctx context.Context, id fsm.VolumeID, path string) error {
	if !id.Valid() || !e.knows(id) {
		return nil
	}
	return e.serve(ctx, id, "unpublish "+path, func(ctx context.Context, v *volume, c *call) error {
		return e.unpublish(ctx, v, c, path)
	})
}

func (e *Executor) unpublish(ctx context.Context, v *volume, c *call, path string) error {
	name, ok := e.targetAt(v, path)
	if !ok {
		return nil
	}
	j := &job{Executor: e, v: v, want: &desired{volume: v.id, drop: []string{name}}, call: c}
	return j.drive(ctx)
}

// targetAt is the target at the path, by the name that the records use.
func (e *Executor) targetAt(v *volume, path string) (string, bool) {
	p := e.pathsOf(v, nil)
	name, ok := p.targets[e.real(path)]
	return name, ok
}
