package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// stepLimit bounds how many steps one work takes; more means that the host does
// not stay as it is made.
const stepLimit = 64

// errOtherSession says that a grant was read in a session that is over (S2).
var errOtherSession = errors.New("the session in which the volume was granted is over")

// job is one work on a volume: what is wanted, and for whom.
type job struct {
	*Executor
	v     *volume
	want  *desired
	call  *call    // nil in the background
	flags []string // mount flags of the call; never written anywhere
	steps int      // that were done
	// at is the epoch of the wish that is acted on, with the incarnation's id; zero for calls.
	at            fsm.Epoch
	incarnationID []byte
	// epoch is that of the publication whose intent a call withdraws; else zero.
	epoch fsm.Epoch
}

// drive does step after step until next has none: what a step achieved is learned
// by observing, never assumed. A refusal of next is returned as it is.
func (j *job) drive(ctx context.Context) error {
	j.want.grows, j.want.throttles = j.Grower != nil, j.Throttle != nil
	for range stepLimit {
		have, err := j.observe(ctx, j.v, j.want)
		if err != nil {
			return err
		}
		s := next(j.want, &have)
		j.v.limiting = j.aboutLimits(s, &have)
		switch {
		case s.kind == stepNone:
			return nil
		case s.kind == stepRefuse:
			return s.refusal
		}
		if err := j.do(ctx, s, &have); err != nil {
			return wrap(j.v, s.kind, err)
		}
	}
	return fmt.Errorf("volume %s is not as it should be after %d steps", j.v.id, stepLimit)
}

// aboutLimits tells whether the step, or the refusal of one, is about new limits.
func (j *job) aboutLimits(s step, have *observed) bool {
	return s.kind == stepThrottle ||
		s.kind == stepRefuse && j.want.grant == nil && have.Size >= j.want.size && limit(j.want, have).kind == stepRefuse
}

// do does one step between two fault points, and measures it.
func (j *job) do(ctx context.Context, s step, have *observed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.mayDo(s); err != nil {
		return err
	}
	began := time.Now()
	j.hit(string(s.kind) + ".before")
	err := j.perform(ctx, s, have)
	j.hit(string(s.kind) + ".after")
	j.steps++
	j.metrics.step(s.kind, began, err)
	if err != nil {
		j.logger(j.v).Warn("step failed", "step", s.kind, "error", err)
	} else {
		j.logger(j.v).Debug("step done", "step", s.kind, "path", s.path, "took", time.Since(began))
	}
	return err
}

// mayDo: what gives a volume out needs a grant of this session (S2); what a wish
// asks for is recorded as acted on first (S14).
func (j *job) mayDo(s step) error {
	if g := j.want.grant; g != nil && !j.inSession(g.session) {
		return errOtherSession
	}
	if j.call != nil || j.at.IsZero() {
		return nil
	}
	return j.seen.reach(j.at, j.incarnationID)
}

func (j *job) perform(ctx context.Context, s step, have *observed) error {
	backend, err := j.backend(j.v)
	if err != nil {
		return err
	}
	switch s.kind {
	case stepCreate:
		return backend.Create(ctx, j.v.id, j.want.size)
	case stepRemove:
		return backend.Remove(ctx, j.v.id)
	case stepCopy:
		return j.copySource(ctx)
	case stepGrow:
		return j.grow(ctx)
	case stepThrottle:
		return j.throttle(ctx, have)
	case stepAttach:
		if have.replica != nil {
			return j.attachPrimary(ctx)
		}
		_, err := backend.Attach(ctx, j.v.id, j.want.grant.block && j.want.grant.readOnly)
		return err
	case stepDetach:
		if err := j.unthrottle(ctx, have); err != nil {
			return err
		}
		return backend.Detach(ctx, j.v.id)
	case stepRecord:
		return j.record()
	case stepUnbind:
		return j.unbind(ctx, s.path, have)
	case stepUnmount:
		return j.Mounter.Unmount(ctx, have.Device, j.stagingPath())
	}
	return j.give(ctx, s, have)
}

// give does the steps that a grant is for.
func (j *job) give(ctx context.Context, s step, have *observed) error {
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
			j.v.journal.GrownTo = have.deviceSize()
		}
		return err
	case stepIdentity:
		j.v.content = Content{} // whatever becomes of it
		return j.Grower.NewIdentity(ctx, have.Device, g.fs)
	case stepGrowFS:
		path := ""
		if have.staged {
			path = g.path
		}
		return j.growFilesystem(ctx, have, g.fs.Type, path)
	case stepReportFormatted:
		return j.reportFormatted(ctx)
	case stepMount:
		return j.Mounter.Mount(ctx, have.Device, MountOptions{Path: g.path, FSType: g.fs.Type, ReadOnly: g.readOnly, Flags: j.flags})
	case stepBind:
		return j.Mounter.Bind(ctx, have.Device, BindOptions{
			Staging: g.path, Path: s.path, Node: g.block, ReadOnly: j.want.bind.ReadOnly, FSType: g.fs.Type, Flags: j.flags, Group: j.want.bind.Group,
		})
	}
	return fmt.Errorf("there is no step %q", s.kind)
}

// stagingPath is where the volume is staged, or where the log says it is.
func (j *job) stagingPath() string {
	if held := j.v.journal.Staging; held != nil {
		return held.Path
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if w := j.v.wish; w != nil && w.Publication != nil && w.Publication.Staging != nil {
		return w.Publication.Staging.Path
	}
	return ""
}

// record puts what is about to be given out on disk.
func (j *job) record() error {
	r, g := &j.v.journal.record, j.want.grant
	if j.want.bind != nil {
		r.Targets = append(r.withoutTarget(j.want.bind.Path), *j.want.bind)
		return j.save(j.v, true)
	}
	r.Staging = &staging{Epoch: g.epoch, Path: g.path, Block: g.block}
	if g.epoch.Compare(r.Epoch) > 0 {
		r.Epoch = g.epoch
	}
	if r.Size = max(r.Size, j.want.size); g.formatting {
		r.Formatting = g.fs.UUID
	}
	j.mu.Lock()
	if j.v.wish != nil {
		r.Pool = j.v.wish.Pool
	}
	id := j.session.incarnationID
	j.mu.Unlock()
	if err := j.save(j.v, true); err != nil {
		return err
	}
	j.seen.raise(r.Floor, id)
	return nil
}

// reportFormatted has the format committed before the first mount (S15).
func (j *job) reportFormatted(ctx context.Context) error {
	number, err := j.sequence(j.v)
	if err != nil {
		return err
	}
	g := j.want.grant
	_, err = j.report(ctx, j.call, &fsmpb.Observation{
		VolumeId: string(j.v.id), Epoch: epochProto(g.epoch), Sequence: number,
		Fact: &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: g.fs.Type, FsUuid: g.fs.UUID}},
	})
	if err == nil {
		g.formatting, g.cloned, j.v.formatted = false, false, false
	}
	return err
}

// publishedAt is the epoch that what is up here belongs to.
func (j *job) publishedAt() fsm.Epoch {
	if !j.epoch.IsZero() {
		return j.epoch
	}
	if held := j.v.journal.Staging; held != nil {
		return held.Epoch
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if w := j.v.wish; w != nil && w.Publication != nil {
		return w.Publication.Epoch
	}
	return fsm.Epoch{}
}

// down takes everything of the volume down and writes into the outbox that it is.
func (j *job) down(ctx context.Context) error {
	for i := range j.v.journal.Targets {
		j.want.drop = append(j.want.drop, j.v.journal.Targets[i].Path)
	}
	if err := j.dropTargets(ctx); err != nil {
		return err
	}
	j.want.down = true
	if err := j.drive(ctx); err != nil {
		return err
	}
	j.hit("down.done")
	held := j.v.journal.Staging
	if held == nil {
		return nil
	}
	j.v.journal.Staging, j.v.journal.Targets = nil, nil
	return j.owe(j.v, owed{Epoch: held.Epoch})
}

// dropTargets ends the targets in want.drop, whatever else is wanted.
func (j *job) dropTargets(ctx context.Context) error {
	want := *j.want
	j.want.down, j.want.verb, j.want.grant = false, 0, nil
	err := j.drive(ctx)
	j.want.down, j.want.verb, j.want.grant = want.down, want.verb, want.grant
	return err
}
