package drbd

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CreateMetadata creates the metadata on the backing device. Existing ones are always kept:
// overwriting them would lose what they say of the content.
func (r *Replicator) CreateMetadata(ctx context.Context, id fsm.VolumeID) error {
	return r.withStep(ctx, id, "make the metadata of", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return nil
		}
		backing, err := r.configuredBacking(id)
		if err != nil {
			return err
		}
		current, err := r.storedMetadata(ctx, s.minor, backing)
		if err != nil {
			return classifyError(s.action, id, err)
		}
		if current.found {
			return nil
		}
		// Forced: nobody is there to confirm. The check above made sure that nothing is
		// overwritten.
		return s.run(ctx, "create-md", "--force")
	})
}

// RemakeMetadata creates the metadata again, over existing ones, on a disk that is not attached:
// all its content counts as outdated, and everything is copied from the peer.
func (r *Replicator) RemakeMetadata(ctx context.Context, id fsm.VolumeID) error {
	return r.withStep(ctx, id, "make the metadata anew of", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return s.reject(fsm.InUse, "its disk is attached")
		}
		return s.run(ctx, "create-md", "--force")
	})
}

// Attach creates the resource and its device in the kernel and attaches the disk. drbdadm first
// replays the activity log, and finds metadata that a growth of the backing device left behind.
func (r *Replicator) Attach(ctx context.Context, id fsm.VolumeID) error {
	return r.withStep(ctx, id, "attach", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return nil
		}
		if !inKernel {
			if err := s.run(ctx, "new-resource"); err != nil {
				return err
			}
			if err := s.run(ctx, "new-minor"); err != nil {
				return err
			}
		}
		return s.run(ctx, "attach")
	})
}

// Detach detaches the disk; with force also while writes to it are stuck (S9).
func (r *Replicator) Detach(ctx context.Context, id fsm.VolumeID, force bool) error {
	return r.withStep(ctx, id, "detach", func(s *step, d procDevice, inKernel bool) error {
		switch {
		case !inKernel || !d.attached():
			return nil
		case force:
			return s.run(ctx, "detach", "--force")
		}
		return s.run(ctx, "detach")
	})
}

// Connect starts connecting to the peer. The kernel accepts discard only with a new connection of
// a secondary, so one that waits for its peer is ended first.
func (r *Replicator) Connect(ctx context.Context, id fsm.VolumeID, discard bool) error {
	return r.withKernelStep(ctx, id, "connect", func(s *step, d procDevice) error {
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
	return r.withStep(ctx, id, "disconnect", func(s *step, d procDevice, inKernel bool) error {
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
	local, peer, err := s.r.addresses(ctx, s.id)
	if err != nil || local == "" {
		return err
	}
	return classifyError(s.action, s.id, s.runTool(ctx, "drbdsetup", "disconnect", local, peer, "--force"))
}

// NewUUID creates the first current UUID of a volume whose replicas are connected and just
// created, so that the initial sync copies nothing. It never creates a later one (S8: no force is
// needed for it).
func (r *Replicator) NewUUID(ctx context.Context, id fsm.VolumeID) error {
	return r.withKernelStep(ctx, id, "make the first generation of", func(s *step, d procDevice) error {
		if !d.attached() {
			return s.reject(fsm.Precondition, kernelRejections[-11].text)
		}
		md, err := r.attachedMetadata(ctx, s.minor)
		switch {
		case err != nil:
			return err
		case !md.fresh && diskState(d) == fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
			return nil
		case !md.fresh:
			return s.reject(fsm.Precondition, "its disk held another generation before")
		case d.connection != "Connected" || d.disk != "Inconsistent" || d.peerDisk != "Inconsistent":
			return s.reject(fsm.Precondition, "its two replicas are not connected and just created")
		}
		return s.run(ctx, "--", "--clear-bitmap", "new-current-uuid")
	})
}

// SetPrimary makes the replica primary. When it is not connected the kernel runs the fence-peer
// handler first and waits for it.
func (r *Replicator) SetPrimary(ctx context.Context, id fsm.VolumeID, force bool) error {
	return r.withKernelStep(ctx, id, "set primary", func(s *step, d procDevice) error {
		switch {
		case d.primary():
			return nil
		case force:
			return s.run(ctx, "primary", "--force")
		}
		return s.run(ctx, "primary")
	})
}

// SetSecondary makes the replica secondary; Busy while the device is open.
func (r *Replicator) SetSecondary(ctx context.Context, id fsm.VolumeID) error {
	return r.withStep(ctx, id, "set secondary", func(s *step, d procDevice, inKernel bool) error {
		if !inKernel || !d.primary() {
			return nil
		}
		return s.run(ctx, "secondary")
	})
}

// ResumeIO resumes I/O that the kernel suspended (S9).
func (r *Replicator) ResumeIO(ctx context.Context, id fsm.VolumeID) error {
	return r.withKernelStep(ctx, id, "resume the I/O of", func(s *step, d procDevice) error {
		if !d.suspended {
			return nil
		}
		return s.run(ctx, "resume-io")
	})
}

// Down removes the resource from the kernel. The tool itself would take down a primary whose
// device is not open, and would outdate a connected replica; Down prevents both.
func (r *Replicator) Down(ctx context.Context, id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "take down: %q is no volume", id)
	}
	if err := r.claim(id, "take down"); err != nil {
		return err
	}
	s := &step{r: r, id: id, action: "take down"}
	defer s.end()
	minor, found, err := r.kernelMinor(ctx, id)
	if err != nil || !found {
		return err
	}
	t, err := r.readProc()
	if err != nil {
		return fmt.Errorf("take down %s: %w", id, err)
	}
	var d procDevice
	if minor != 0 { // 0: it has none. No volume has minor 0, but a resource of others may
		d = t.devices[minor]
	}
	if d.primary() {
		return s.reject(fsm.Busy, "it is primary")
	}
	if !d.standAlone() && d.connection != "" {
		if err := s.disconnectByAddress(ctx); err != nil {
			return err
		}
	}
	err = s.runTool(ctx, "drbdsetup", "down", string(id))
	r.forgetOwner(minor)
	return classifyError(s.action, id, err)
}

// disconnectByAddress disconnects with force by the addresses that the kernel has, since the
// resource's file may be gone.
func (s *step) disconnectByAddress(ctx context.Context) error {
	local, peer, err := s.r.addresses(ctx, s.id)
	if err != nil || local == "" {
		return err
	}
	err = s.runTool(ctx, "drbdsetup", "disconnect", local, peer, "--force")
	if hasCode(err, noConnection) {
		return nil
	}
	return classifyError(s.action, s.id, err)
}

// kernelMinor reports whether the kernel has a resource, and returns its minor, 0 if it has none.
func (r *Replicator) kernelMinor(ctx context.Context, id fsm.VolumeID) (minor uint32, found bool, err error) {
	if _, err := r.readProc(); err != nil {
		return 0, false, ignoreMissing(err)
	}
	out, err := r.query(ctx, "drbdsetup", "events2", "--now", string(id))
	if err != nil {
		return 0, false, fmt.Errorf("ask the kernel for %s: %w", id, err)
	}
	for n, owner := range parseMinors(string(out)) {
		if owner == id {
			minor = n
		}
	}
	for _, owner := range parseVolumes(string(out)) {
		found = found || owner == id
	}
	return minor, found, nil
}
