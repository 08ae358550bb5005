package drbd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Deadlines. A step that sets a role waits for the handler, which retries without end (S6).
const (
	queryTimeout = 10 * time.Second
	stepTimeout  = 30 * time.Second
)

// stepRunner starts the steps: one at a time for each resource, with what the kernel says of it
// before.
type stepRunner struct {
	config *Config
	kernel *kernelState
	files  *resourceFiles
	slots  *commandSlots
}

// begin starts a step on a resource that is configured. Its end method ends it.
func (r *stepRunner) begin(id fsm.VolumeID, action string) (*step, error) {
	if !id.Valid() {
		return nil, fsm.Reject(fsm.NotFound, "%s: %q is no volume", action, id)
	}
	minor, found, err := r.files.minor(id)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fsm.Reject(fsm.Precondition, "%s %s: it is not configured", action, id)
	}
	if err := r.slots.claim(id, action); err != nil {
		return nil, err
	}
	return &step{runner: r, id: id, action: action, minor: minor}, nil
}

// with runs f as one step, with what the kernel said of the device before it.
func (r *stepRunner) with(ctx context.Context, id fsm.VolumeID, action string, f func(*step, procDevice, bool) error) error {
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

// withKernel is with for a step that needs the resource in the kernel.
func (r *stepRunner) withKernel(ctx context.Context, id fsm.VolumeID, action string, f func(*step, procDevice) error) error {
	return r.with(ctx, id, action, func(s *step, d procDevice, inKernel bool) error {
		if !inKernel {
			return s.reject(fsm.Precondition, "it is not in the kernel")
		}
		return f(s, d)
	})
}

// step is one change of one resource. While it runs no other is started, and none either while its
// killed command is stuck in the kernel: a command behind it would wait as well, and take effect
// later, when it is no longer wanted.
type step struct {
	runner *stepRunner
	id     fsm.VolumeID
	action string
	minor  uint32
}

func (s *step) end() { s.runner.slots.release(s.id) }

// adm runs drbdadm on the resource. Options precede the command's name.
func (s *step) adm(ctx context.Context, args ...string) error {
	return s.runTool(ctx, "drbdadm", append(args, string(s.id))...)
}

func (s *step) runTool(ctx context.Context, tool string, args ...string) error {
	_, err := s.runner.config.runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: stepTimeout})
	var failed *run.Error
	if errors.As(err, &failed) && failed.Stuck() != nil {
		s.runner.slots.markStuck(s.id, failed.Stuck())
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
	t, err := s.runner.kernel.readProc()
	if err != nil {
		return procDevice{}, false, err
	}
	return s.runner.kernel.findDevice(ctx, t, s.id, s.minor)
}

func (s *step) reject(reason fsm.Reason, text string) error {
	return fsm.Reject(reason, "%s %s: %s", s.action, s.id, text)
}
