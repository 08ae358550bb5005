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

// Deadlines. A step that sets a role waits for the handler, which retries without end (S6).
const (
	queryTimeout = 10 * time.Second
	stepTimeout  = 30 * time.Second
)

// step is one change of one resource. While it runs no other is started, and none either while its
// killed command is stuck in the kernel: a command behind it would wait as well, and take effect
// later, when it is no longer wanted.
type step struct {
	r      *Replicator
	id     fsm.VolumeID
	action string
	minor  uint32
}

// begin starts a step on a resource that is configured. Its end method ends it.
func (r *Replicator) begin(id fsm.VolumeID, action string) (*step, error) {
	if !id.Valid() {
		return nil, fsm.Reject(fsm.NotFound, "%s: %q is no volume", action, id)
	}
	minor, found, err := r.configuredMinor(id)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fsm.Reject(fsm.Precondition, "%s %s: it is not configured", action, id)
	}
	if err := r.claim(id, action); err != nil {
		return nil, err
	}
	return &step{r: r, id: id, action: action, minor: minor}, nil
}

func (r *Replicator) claim(id fsm.VolumeID, action string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, taken := r.running[id]
	if taken || r.isStuck(id) {
		return fmt.Errorf("%s %s: %w", action, id, executor.ErrReplicatorBusy)
	}
	r.running[id] = struct{}{}
	return nil
}

// isStuck reports whether a killed command still waits in the kernel.
func (r *Replicator) isStuck(id fsm.VolumeID) bool {
	exited, found := r.stuckCommands[id]
	if !found {
		return false
	}
	select {
	case <-exited:
		delete(r.stuckCommands, id)
		return false
	default:
		return true
	}
}

func (s *step) end() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.running, s.id)
}

// adm runs drbdadm on the resource. Options precede the command's name.
func (s *step) adm(ctx context.Context, args ...string) error {
	return s.runTool(ctx, "drbdadm", append(args, string(s.id))...)
}

func (s *step) runTool(ctx context.Context, tool string, args ...string) error {
	_, err := s.r.config.runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: stepTimeout})
	var failed *run.Error
	if errors.As(err, &failed) && failed.Stuck() != nil {
		s.r.mu.Lock()
		s.r.stuckCommands[s.id] = failed.Stuck()
		s.r.mu.Unlock()
	}
	return err
}

// run is adm with its failure classified.
func (s *step) run(ctx context.Context, args ...string) error {
	return classifyError(s.action, s.id, s.adm(ctx, args...))
}

// device returns what the kernel says of the resource now. A minor that belongs to another
// resource is an error: it must not be touched.
func (s *step) device(ctx context.Context) (procDevice, bool, error) {
	t, err := s.r.readProc()
	if err != nil {
		return procDevice{}, false, err
	}
	return s.r.findDevice(ctx, t, s.id, s.minor)
}

func (s *step) reject(reason fsm.Reason, text string) error {
	return fsm.Reject(reason, "%s %s: %s", s.action, s.id, text)
}

// query runs a command that changes nothing.
func (r *Replicator) query(ctx context.Context, tool string, args ...string) ([]byte, error) {
	out, err := r.config.runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: queryTimeout})
	var failed *run.Error
	if errors.As(err, &failed) && failed.Stuck() == nil && !failed.TimedOut && failed.Unwrap() == nil {
		return nil, &Error{Tool: tool, Code: failed.Code, Text: sanitizeOutput(failed.Output)}
	}
	return out, err
}

// withStep runs f as one step, with what the kernel said of the device before it.
func (r *Replicator) withStep(ctx context.Context, id fsm.VolumeID, action string, f func(*step, procDevice, bool) error) error {
	s, err := r.begin(id, action)
	if err != nil {
		return err
	}
	defer s.end()
	d, inKernel, err := s.device(ctx)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, id, err)
	}
	return f(s, d, inKernel)
}

// withKernelStep is withStep for a step that needs the resource in the kernel.
func (r *Replicator) withKernelStep(ctx context.Context, id fsm.VolumeID, action string, f func(*step, procDevice) error) error {
	return r.withStep(ctx, id, action, func(s *step, d procDevice, inKernel bool) error {
		if !inKernel {
			return s.reject(fsm.Precondition, "it is not in the kernel")
		}
		return f(s, d)
	})
}
