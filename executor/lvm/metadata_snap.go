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

// releaseTimeout bounds the release of the metadata snapshot.
const releaseTimeout = 30 * time.Second

// runThinTool runs one of the thin tools, which only read. It may be killed.
func (t *tools) runThinTool(ctx context.Context, out io.Writer, tool string, args ...string) error {
	_, err := t.runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: mapTimeout, Stdout: out})
	return classifyError(err)
}

// sendMessage sends the pool one device-mapper message.
func (t *tools) sendMessage(ctx context.Context, pool, text string) error {
	_, err := t.runner.Run(ctx, run.Command{Tool: "dmsetup", Args: []string{"message", pool, "0", text}})
	return classifyError(err)
}

// withMetadataSnap calls read with the device of the pool's metadata while a metadata snapshot is
// reserved, so that they can be read although the pool is in use. A pool has one at a time; it is
// released also when the caller's context ends.
func (p *Pool) withMetadataSnap(ctx context.Context, pool string, read func(device string) error) (err error) {
	select {
	case p.metadataSnapLock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata snapshot: %w", ctx.Err())
	}
	defer func() { <-p.metadataSnapLock }()
	if err := p.tools.sendMessage(ctx, pool, "reserve_metadata_snap"); err != nil {
		if wasKilled(err) { // it may have been reserved nevertheless
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

// wasKilled reports whether a command was started and killed, because its context ended or at its
// own deadline. One that exited by itself reported its result.
func wasKilled(err error) bool {
	var failed *run.Error
	return errors.As(err, &failed) && (failed.TimedOut || failed.Unwrap() != nil)
}

// releaseMetadataSnap releases the metadata snapshot. None reserved: done.
func (p *Pool) releaseMetadataSnap(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := p.tools.sendMessage(ctx, pool, "release_metadata_snap"); err != nil && !errors.Is(err, errNoMetadataSnap) {
		return fmt.Errorf("release the metadata snapshot of pool %s: %w", p.name(), err)
	}
	return nil
}

// releaseStaleMetadataSnap releases what an earlier process reserved: no other program uses this
// pool, and while a metadata snapshot is held, freed blocks stay allocated.
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
