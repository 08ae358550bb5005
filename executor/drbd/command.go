package drbd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Deadlines. A step that sets a role waits for the handler, which asks for ever (S6).
const (
	lookTimeout = 10 * time.Second
	stepTimeout = 30 * time.Second
)

// step is one change to one resource. While it runs no other is started, and after
// its command was killed but hangs in the kernel none is either: a command behind it
// would wait as well, and do later what nobody wants any more.
type step struct {
	r     *Replicator
	id    fsm.VolumeID
	doing string
	minor uint32
}

// begin starts a step on a resource that is configured. End ends it.
func (r *Replicator) begin(id fsm.VolumeID, doing string) (*step, error) {
	if !id.Valid() {
		return nil, fsm.Reject(fsm.NotFound, "%s: %q is no volume", doing, id)
	}
	minor, found, err := r.configuredMinor(id)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fsm.Reject(fsm.Precondition, "%s %s: it is not configured", doing, id)
	}
	if err := r.claim(id, doing); err != nil {
		return nil, err
	}
	return &step{r: r, id: id, doing: doing, minor: minor}, nil
}

func (r *Replicator) claim(id fsm.VolumeID, doing string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, taken := r.busy[id]
	if taken || r.stuck(id) {
		return fmt.Errorf("%s %s: %w", doing, id, executor.ErrReplicatorBusy)
	}
	r.busy[id] = struct{}{}
	return nil
}

// stuck tells whether a killed command still waits in the kernel.
func (r *Replicator) stuck(id fsm.VolumeID) bool {
	gone, waits := r.parked[id]
	if !waits {
		return false
	}
	select {
	case <-gone:
		delete(r.parked, id)
		return false
	default:
		return true
	}
}

func (s *step) end() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.busy, s.id)
}

// adm runs drbdadm on the resource. Options come before the command's name.
func (s *step) adm(ctx context.Context, args ...string) error {
	return s.tool(ctx, "drbdadm", append(args, string(s.id))...)
}

func (s *step) tool(ctx context.Context, tool string, args ...string) error {
	_, err := s.r.config.run.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: stepTimeout})
	var failed *run.Error
	if errors.As(err, &failed) && failed.Parked() != nil {
		s.r.mu.Lock()
		s.r.parked[s.id] = failed.Parked()
		s.r.mu.Unlock()
	}
	return err
}

// do is adm with its failure told.
func (s *step) do(ctx context.Context, args ...string) error {
	return refusal(s.doing, s.id, s.adm(ctx, args...))
}

// device is what the kernel says of the resource now. A minor that another resource
// has is an error: nothing may be done to it.
func (s *step) device(ctx context.Context) (device, bool, error) {
	t, err := s.r.readTable()
	if err != nil {
		return device{}, false, err
	}
	return s.r.deviceOf(ctx, t, s.id, s.minor)
}

func (s *step) reject(reason fsm.Reason, text string) error {
	return fsm.Reject(reason, "%s %s: %s", s.doing, s.id, text)
}

// look runs a command that changes nothing.
func (r *Replicator) look(ctx context.Context, tool string, args ...string) ([]byte, error) {
	out, err := r.config.run.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: lookTimeout})
	var failed *run.Error
	if errors.As(err, &failed) && failed.Parked() == nil && !failed.TimedOut && failed.Unwrap() == nil {
		return nil, &Error{Tool: tool, Code: failed.Code, Text: spoken(failed.Output)}
	}
	return out, err
}

// with runs one step whose work is f, given what the kernel says before it.
func (r *Replicator) with(ctx context.Context, id fsm.VolumeID, doing string, f func(*step, device, bool) error) error {
	s, err := r.begin(id, doing)
	if err != nil {
		return err
	}
	defer s.end()
	d, known, err := s.device(ctx)
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, id, err)
	}
	return f(s, d, known)
}

// withKnown is with for a step that needs the resource in the kernel.
func (r *Replicator) withKnown(ctx context.Context, id fsm.VolumeID, doing string, f func(*step, device) error) error {
	return r.with(ctx, id, doing, func(s *step, d device, known bool) error {
		if !known {
			return s.reject(fsm.Precondition, "it is not in the kernel")
		}
		return f(s, d)
	})
}
