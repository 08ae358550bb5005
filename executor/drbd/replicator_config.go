package drbd

import (
	"context"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Configure writes the resource's file atomically and readable by root only, since it holds the
// secret.
func (r *Replicator) Configure(_ context.Context, res executor.ResourceConfig) error {
	text, err := r.files.render(res, r.kernel.version())
	if err != nil {
		return err
	}
	return r.files.write(res.Volume, text)
}

// RemoveConfig removes the resource's file, and DRBD's record of where the metadata of its minor
// last were: the tools would look for them there on the next device with that minor.
func (r *Replicator) RemoveConfig(ctx context.Context, id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "forget: %q is no volume", id)
	}
	minor, configured, err := r.files.minor(id)
	if err != nil {
		return err
	}
	_, found, err := r.kernel.minor(ctx, id)
	switch {
	case err != nil:
		return err
	case found:
		return fsm.Reject(fsm.Busy, "forget %s: the kernel has it", id)
	case !configured:
		return nil
	}
	if err := durablefile.Remove(filepath.Join(r.config.State, "drbd-minor-"+minorString(minor)+".lkbd")); err != nil {
		return err
	}
	return durablefile.Remove(r.files.path(id))
}

// Adjust sets the kernel's options to those of the file. A connection to another address than the
// file's is ended with force; Connect creates the new one.
func (r *Replicator) Adjust(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.with(ctx, id, "adjust", func(s *step, d procDevice, inKernel bool) error {
		if !inKernel {
			return nil
		}
		if d.attached() {
			if err := s.run(ctx, "disk-options"); err != nil {
				return err
			}
		}
		if d.standAlone() {
			return nil
		}
		err := s.adm(ctx, "net-options")
		if hasCode(err, noConnection) {
			return s.disconnectByAddress(ctx)
		}
		return classifyError(s.action, id, err)
	})
}
