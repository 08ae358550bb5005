package drbd

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Connect starts connecting to the peer. The kernel accepts discard only with a new connection of
// a secondary, so one that waits for its peer is ended first.
func (r *Replicator) Connect(ctx context.Context, id fsm.VolumeID, discard bool) error {
	return r.steps.withKernel(ctx, id, "connect", func(s *step, d procDevice) error {
		switch {
		case d.connected():
			return nil
		case discard && d.primary():
			return s.reject(fsm.Precondition, kernelRejections[123].text)
		case !d.standAlone() && !discard:
			return nil
		case !d.standAlone():
			if err := s.disconnect(ctx); err != nil {
				return err
			}
		}
		if discard {
			return s.run(ctx, "connect", "--discard-my-data")
		}
		return s.run(ctx, "connect")
	})
}

// Disconnect ends the connection with force: this replica stays UpToDate, and its peer, if it is
// primary, suspends I/O (S8).
func (r *Replicator) Disconnect(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.with(ctx, id, "disconnect", func(s *step, d procDevice, inKernel bool) error {
		if !inKernel || d.standAlone() {
			return nil
		}
		return s.disconnect(ctx)
	})
}

// noConnection is the kernel's error code for addresses that no connection has.
const noConnection = 162

// disconnect ends the connection that the kernel has, also one to a peer that the file no longer
// names.
func (s *step) disconnect(ctx context.Context) error {
	err := s.adm(ctx, "disconnect", "--force")
	if !hasCode(err, noConnection) {
		return classifyError(s.action, s.id, err)
	}
	local, peer, err := s.runner.kernel.addresses(ctx, s.id)
	if err != nil || local == "" {
		return err
	}
	return classifyError(s.action, s.id, s.runTool(ctx, "drbdsetup", "disconnect", local, peer, "--force"))
}

// disconnectByAddress disconnects with force by the addresses that the kernel has, since the
// resource's file may be gone.
func (s *step) disconnectByAddress(ctx context.Context) error {
	local, peer, err := s.runner.kernel.addresses(ctx, s.id)
	if err != nil || local == "" {
		return err
	}
	err = s.runTool(ctx, "drbdsetup", "disconnect", local, peer, "--force")
	if hasCode(err, noConnection) {
		return nil
	}
	return classifyError(s.action, s.id, err)
}
