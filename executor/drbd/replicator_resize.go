package drbd

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Resize expands a primary, connected or alone, and checks the result: the tool also exits with 0 when
// one of the backing devices did not grow. Alone it is given the size: all that its own backing device
// can hold may be more than a later peer's can, and the kernel would refuse that peer.
func (r *Replicator) Resize(ctx context.Context, id fsm.VolumeID, size int64, alone bool) error {
	return r.steps.withKernel(ctx, id, "resize", func(s *step, d procDevice) error {
		switch {
		case r.kernel.deviceSize(s.minor) >= size:
			return nil
		case !d.primary():
			return s.reject(fsm.Precondition, kernelRejections[131].text)
		case alone && d.connected():
			return s.reject(fsm.Precondition, "it has a peer, which must grow with it")
		case !alone && !d.connected():
			return s.reject(fsm.Precondition, kernelRejections[-15].text)
		}
		if err := s.run(ctx, resizeArgs(size, alone)...); err != nil {
			return err
		}
		if current := r.awaitSize(ctx, s.minor, size); current < size {
			return fsm.Reject(fsm.Precondition, "resize %s: it has %d bytes, not %d: a device below one of the replicas has no room for more", id, current, size)
		}
		return nil
	})
}

// resizeArgs are drbdadm's. That of 8.4 takes these options before the command only.
func resizeArgs(size int64, alone bool) []string {
	if !alone {
		return []string{"resize"}
	}
	if size = roundUp(size); size%bitmapWordBytes == 0 {
		size += blockBytes // BackingSize made room for it
	}
	return []string{"--", "--assume-peer-has-space", fmt.Sprintf("--size=%ds", size/sectorBytes), "resize"}
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
	for r.kernel.deviceSize(minor) < size {
		select {
		case <-ctx.Done():
			return r.kernel.deviceSize(minor)
		case <-tick.C:
		}
	}
	return size
}
