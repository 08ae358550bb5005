package drbd

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Verify starts comparing the two replicas. Blocks that differ are marked out of sync and copied
// at the next connection.
func (r *Replicator) Verify(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.withKernel(ctx, id, "verify", func(s *step, d procDevice) error {
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
	return r.steps.withKernel(ctx, id, "invalidate", func(s *step, d procDevice) error {
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
	if size := s.runner.kernel.deviceSize(d.minor); size > 0 && d.outOfSync >= size {
		return nil
	}
	return s.run(ctx, "invalidate")
}
