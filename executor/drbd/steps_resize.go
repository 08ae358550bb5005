package drbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Resize expands a connected primary to size bytes and checks the result: the tool also exits with
// 0 when one of the backing devices did not grow.
func (r *Replicator) Resize(ctx context.Context, id fsm.VolumeID, size int64) error {
	return r.withKernelStep(ctx, id, "resize", func(s *step, d procDevice) error {
		switch {
		case r.deviceSize(s.minor) >= size:
			return nil
		case !d.primary():
			return s.reject(fsm.Precondition, kernelRejections[131].text)
		case !d.connected():
			return s.reject(fsm.Precondition, kernelRejections[-15].text)
		}
		if err := s.run(ctx, "resize"); err != nil {
			return err
		}
		if current := r.awaitSize(ctx, s.minor, size); current < size {
			return fsm.Reject(fsm.Precondition, "resize %s: it has %d bytes, not %d: a device below one of the replicas has no room for more", id, current, size)
		}
		return nil
	})
}

// The kernel asks the peer for its size only after the command has exited.
const (
	resizeTimeout      = 5 * time.Second
	resizePollInterval = 20 * time.Millisecond
)

// awaitSize waits until the device has so many bytes, or for resizeTimeout at most; it returns the
// size in bytes.
func (r *Replicator) awaitSize(ctx context.Context, minor uint32, size int64) int64 {
	ctx, cancel := context.WithTimeout(ctx, r.resizeTimeout)
	defer cancel()
	tick := time.NewTicker(resizePollInterval)
	defer tick.Stop()
	for r.deviceSize(minor) < size {
		select {
		case <-ctx.Done():
			return r.deviceSize(minor)
		case <-tick.C:
		}
	}
	return size
}

// Verify starts comparing the two replicas. Blocks that differ are marked out of sync and copied
// at the next connection.
func (r *Replicator) Verify(ctx context.Context, id fsm.VolumeID) error {
	return r.withKernelStep(ctx, id, "verify", func(s *step, d procDevice) error {
		switch connectionState(d) {
		case fsmpb.ConnectionState_CONNECTION_STATE_VERIFYING:
			return nil
		case fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
			return s.reject(fsm.Busy, kernelRejections[-8].text)
		case fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED:
			return s.run(ctx, "verify")
		default:
			return s.reject(fsm.Precondition, kernelRejections[-15].text)
		}
	})
}

// Invalidate discards this replica's content: it is synchronised completely from its peer. A
// replica without a connection must be Inconsistent already: then only its bitmap is discarded,
// and the next connection copies all.
func (r *Replicator) Invalidate(ctx context.Context, id fsm.VolumeID) error {
	return r.withKernelStep(ctx, id, "invalidate", func(s *step, d procDevice) error {
		switch {
		case connectionState(d) == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
			return nil
		case d.primary():
			return s.reject(fsm.Precondition, kernelRejections[123].text)
		case d.standAlone() && d.disk == "Inconsistent":
			return s.markAllOutOfSync(ctx, d)
		case !d.connected():
			return s.reject(fsm.Precondition, kernelRejections[-15].text)
		case d.peerDisk != "UpToDate":
			return s.reject(fsm.Precondition, "its peer's disk is not up to date")
		}
		return s.run(ctx, "invalidate")
	})
}

// markAllOutOfSync marks every block of a StandAlone disk as out of sync.
func (s *step) markAllOutOfSync(ctx context.Context, d procDevice) error {
	if size := s.r.deviceSize(d.minor); size > 0 && d.outOfSync >= size {
		return nil
	}
	return s.run(ctx, "invalidate")
}

// Adjust sets the kernel's options to those of the file. A connection to another address than the
// file's is ended with force; Connect creates the new one.
func (r *Replicator) Adjust(ctx context.Context, id fsm.VolumeID) error {
	return r.withStep(ctx, id, "adjust", func(s *step, d procDevice, inKernel bool) error {
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

var (
	peerAddressPattern  = regexp.MustCompile(`(?s)_remote_host\s*\{\s*address\s+(ipv[46]) ([^;\s]+);`)
	localAddressPattern = regexp.MustCompile(`(?s)_this_host\s*\{\s*address\s+(ipv[46]) ([^;\s]+);`)
)

// addresses are those of the kernel's connection, empty when it has none.
func (r *Replicator) addresses(ctx context.Context, id fsm.VolumeID) (local, peer string, err error) {
	out, err := r.query(ctx, "drbdsetup", "show", string(id))
	if err != nil {
		return "", "", fmt.Errorf("ask the kernel for the addresses of %s: %w", id, err)
	}
	l, p := localAddressPattern.FindStringSubmatch(string(out)), peerAddressPattern.FindStringSubmatch(string(out))
	if l == nil || p == nil {
		return "", "", nil
	}
	return l[1] + ":" + l[2], p[1] + ":" + p[2], nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
