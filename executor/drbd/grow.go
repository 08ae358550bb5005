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

// Resize lets a connected primary grow, and looks that it did: the tool ends well
// also when one of the devices below did not grow.
func (r *Replicator) Resize(ctx context.Context, id fsm.VolumeID, size int64) error {
	return r.withKnown(ctx, id, "resize", func(s *step, d device) error {
		switch {
		case r.deviceSize(s.minor) >= size:
			return nil
		case !d.primary():
			return s.reject(fsm.Precondition, answers[131].text)
		case !d.connected():
			return s.reject(fsm.Precondition, answers[-15].text)
		}
		if err := s.do(ctx, "resize"); err != nil {
			return err
		}
		if have := r.awaitSize(ctx, s.minor, size); have < size {
			return fsm.Reject(fsm.Precondition, "resize %s: it has %d bytes, not %d: a device below one of the replicas has no room for more", id, have, size)
		}
		return nil
	})
}

// The kernel asks the peer for its size after the command has ended.
const (
	growTimeout = 5 * time.Second
	growLook    = 20 * time.Millisecond
)

// awaitSize is the device's size once it has so many bytes, or when it does not get them.
func (r *Replicator) awaitSize(ctx context.Context, minor uint32, size int64) int64 {
	ctx, cancel := context.WithTimeout(ctx, r.growTimeout)
	defer cancel()
	tick := time.NewTicker(growLook)
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

// Verify begins to compare the two replicas. What differs counts as out of sync and
// is copied at the next connection.
func (r *Replicator) Verify(ctx context.Context, id fsm.VolumeID) error {
	return r.withKnown(ctx, id, "verify", func(s *step, d device) error {
		switch connectionState(d) {
		case fsmpb.ConnectionState_CONNECTION_STATE_VERIFYING:
			return nil
		case fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
			return s.reject(fsm.Busy, answers[-8].text)
		case fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED:
			return s.do(ctx, "verify")
		default:
			return s.reject(fsm.Precondition, answers[-15].text)
		}
	})
}

// Invalidate gives this replica's content up: it is synchronised wholly from its peer.
// One that has no peer yet must be Inconsistent already: then nothing is given up but what
// the bitmap says of it, and the next connection copies all.
func (r *Replicator) Invalidate(ctx context.Context, id fsm.VolumeID) error {
	return r.withKnown(ctx, id, "invalidate", func(s *step, d device) error {
		switch {
		case connectionState(d) == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
			return nil
		case d.primary():
			return s.reject(fsm.Precondition, answers[123].text)
		case d.standAlone() && d.disk == "Inconsistent":
			return s.distrust(ctx, d)
		case !d.connected():
			return s.reject(fsm.Precondition, answers[-15].text)
		case d.peerDisk != "UpToDate":
			return s.reject(fsm.Precondition, "its peer's disk is not up to date")
		}
		return s.do(ctx, "invalidate")
	})
}

// distrust marks every block of a disk that stands alone as out of sync.
func (s *step) distrust(ctx context.Context, d device) error {
	if size := s.r.deviceSize(d.minor); size > 0 && d.outOfSync >= size {
		return nil
	}
	return s.do(ctx, "invalidate")
}

// Adjust makes the kernel's options those of the file. A connection to another
// address than the file's is ended with force; Connect makes the new one.
func (r *Replicator) Adjust(ctx context.Context, id fsm.VolumeID) error {
	return r.with(ctx, id, "adjust", func(s *step, d device, known bool) error {
		if !known {
			return nil
		}
		if d.attached() {
			if err := s.do(ctx, "disk-options"); err != nil {
				return err
			}
		}
		if d.standAlone() {
			return nil
		}
		err := s.adm(ctx, "net-options")
		if said(err, noConnection) {
			return s.leave(ctx)
		}
		return refusal(s.doing, id, err)
	})
}

var (
	shownPeer  = regexp.MustCompile(`(?s)_remote_host\s*\{\s*address\s+(ipv[46]) ([^;\s]+);`)
	shownLocal = regexp.MustCompile(`(?s)_this_host\s*\{\s*address\s+(ipv[46]) ([^;\s]+);`)
)

// addresses are those of the connection that the kernel has, empty when it has none.
func (r *Replicator) addresses(ctx context.Context, id fsm.VolumeID) (local, peer string, err error) {
	out, err := r.look(ctx, "drbdsetup", "show", string(id))
	if err != nil {
		return "", "", fmt.Errorf("ask the kernel for the addresses of %s: %w", id, err)
	}
	l, p := shownLocal.FindStringSubmatch(string(out)), shownPeer.FindStringSubmatch(string(out))
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
