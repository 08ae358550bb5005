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

// metadataSnap is the metadata snapshot of the pool: only through it can the metadata of a pool in
// use be read. A pool has one at a time.
type metadataSnap struct {
	*thinPool
	held chan struct{} // while it is reserved
}

func newMetadataSnap(p *thinPool) *metadataSnap { return &metadataSnap{p, make(chan struct{}, 1)} }

// with calls read with the device of the pool's metadata while the metadata snapshot is reserved. It
// is released also when the caller's context ends.
func (m *metadataSnap) with(ctx context.Context, pool string, read func(device string) error) (err error) {
	select {
	case m.held <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata snapshot: %w", ctx.Err())
	}
	defer func() { <-m.held }()
	if err := m.tools.sendMessage(ctx, pool, "reserve_metadata_snap"); err != nil {
		if wasKilled(err) { // it may have been reserved nevertheless
			err = errors.Join(err, m.release(ctx, pool))
		}
		if errors.Is(err, errDMInUse) {
			return fsm.Reject(fsm.Busy, "somebody else has reserved the metadata snapshot of pool %s", m.name())
		}
		return fmt.Errorf("reserve the metadata snapshot of pool %s: %w", m.name(), err)
	}
	defer func() { err = errors.Join(err, m.release(ctx, pool)) }()
	return read("/dev/mapper/" + dmName(m.VG, m.ThinPool+"_tmeta"))
}

// wasKilled reports whether a command was started and killed, because its context ended or at its
// own deadline. One that exited by itself reported its result.
func wasKilled(err error) bool {
	var failed *run.Error
	return errors.As(err, &failed) && (failed.TimedOut || failed.Unwrap() != nil)
}

// release releases the metadata snapshot. It is no error when none is reserved.
func (m *metadataSnap) release(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := m.tools.sendMessage(ctx, pool, "release_metadata_snap"); err != nil && !errors.Is(err, errNoMetadataSnap) {
		return fmt.Errorf("release the metadata snapshot of pool %s: %w", m.name(), err)
	}
	return nil
}

// releaseStale releases what an earlier process reserved: no other program uses this pool, and
// while a metadata snapshot is reserved, freed blocks stay allocated.
func (m *metadataSnap) releaseStale(ctx context.Context, pool string) error {
	select {
	case m.held <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata snapshot: %w", ctx.Err())
	}
	defer func() { <-m.held }()
	if _, usage, err := m.poolDevice(); err != nil || !usage.metadataSnapHeld {
		return err
	}
	return m.release(ctx, pool)
}
