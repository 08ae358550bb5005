package lvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// releaseTimeout bounds the giving back of the metadata snapshot.
const releaseTimeout = 30 * time.Second

// thin runs one of the thin tools, which only read. It may be killed.
func (t *tools) runThinTool(ctx context.Context, out io.Writer, tool string, args ...string) error {
	_, err := t.runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: mapTimeout, Stdout: out})
	return classifyError(err)
}

// message sends the pool one message.
func (t *tools) sendMessage(ctx context.Context, pool, text string) error {
	_, err := t.runner.Run(ctx, run.Command{Tool: "dmsetup", Args: []string{"message", pool, "0", text}})
	return classifyError(err)
}

// withMetadataSnap calls read with the device of the pool's metadata while its snapshot is
// reserved, so that it can be read although the pool is in use. There is one snapshot
// for all; it is given back whatever happens to the caller.
func (p *Pool) withMetadataSnap(ctx context.Context, pool string, read func(device string) error) (err error) {
	select {
	case p.metadataSnapLock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata snapshot: %w", ctx.Err())
	}
	defer func() { <-p.metadataSnapLock }()
	if err := p.tools.sendMessage(ctx, pool, "reserve_metadata_snap"); err != nil {
		if wasKilled(err) { // it may have been reserved all the same
			err = errors.Join(err, p.releaseMetadataSnap(ctx, pool))
		}
		if errors.Is(err, errDMInUse) {
			return fsm.Reject(fsm.Busy, "somebody else has reserved the metadata snapshot of pool %s", p.name())
		}
		return fmt.Errorf("reserve the metadata snapshot of pool %s: %w", p.name(), err)
	}
	defer func() { err = errors.Join(err, p.releaseMetadataSnap(ctx, pool)) }()
	return read("/dev/mapper/" + dmName(p.VG, p.ThinPool+"_tmeta"))
}

// wasKilled tells whether a command ran and was killed, be it for its caller or at its
// own deadline. One that ended by itself says what it did.
func wasKilled(err error) bool {
	var failed *run.Error
	return errors.As(err, &failed) && (failed.TimedOut || failed.Unwrap() != nil)
}

// releaseMetadataSnap gives the metadata snapshot back. None held: done.
func (p *Pool) releaseMetadataSnap(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := p.tools.sendMessage(ctx, pool, "release_metadata_snap"); err != nil && !errors.Is(err, errNoMetadataSnap) {
		return fmt.Errorf("release the metadata snapshot of pool %s: %w", p.name(), err)
	}
	return nil
}

// releaseStaleMetadataSnap gives back what an earlier process reserved: the pool is ours, and while
// a snapshot is held, blocks that are freed are not free.
func (p *Pool) releaseStaleMetadataSnap(ctx context.Context, pool string) error {
	select {
	case p.metadataSnapLock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata snapshot: %w", ctx.Err())
	}
	defer func() { <-p.metadataSnapLock }()
	if _, u, err := p.poolDevice(); err != nil || !u.metadataSnapHeld {
		return err
	}
	return p.releaseMetadataSnap(ctx, pool)
}
