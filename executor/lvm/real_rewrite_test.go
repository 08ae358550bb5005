package lvm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// dyingRunner runs commands until the process that they belong to dies: before a command that changes
// something, or before that is acknowledged.
type dyingRunner struct {
	Runner
	left  int  // changes until then
	after bool // the last one is done
	dead  bool
}

var errDead = errors.New("the process is dead")

func (r *dyingRunner) Run(ctx context.Context, c run.Command) ([]byte, error) {
	if r.dead {
		return nil, errDead
	}
	if c.Tool != "lvm" || !slices.Contains([]string{"lvcreate", "lvchange", "lvrename", "lvremove", "lvreduce"}, c.Args[0]) {
		return r.Runner.Run(ctx, c)
	}
	if r.left--; r.left >= 0 {
		return r.Runner.Run(ctx, c)
	}
	if r.dead = true; r.after {
		_, _ = r.Runner.Run(ctx, c)
	}
	return nil, errDead
}

// crashAtEveryChange calls act in processes that die at each command that changes something, until
// one does not, and check after each. In the short form it is each third command.
func crashAtEveryChange(t *testing.T, p *Pool, act func(p *Pool) error, check func(p *Pool, finished bool)) {
	t.Helper()
	step := 1
	if testing.Short() {
		step = 3
	}
	for n := 0; ; n += step {
		for _, after := range []bool{false, true} {
			dying := reopen(t, p)
			r := &dyingRunner{Runner: run.New(), left: n, after: after}
			dying.tools.runner = r
			err := act(dying)
			require.Equal(t, r.dead, err != nil, "change %d, after %v: %v", n, after, err)
			check(reopen(t, p), !r.dead)
			if !r.dead {
				require.Positive(t, n, "it died before")
				return
			}
		}
	}
}

// The old image or the reverted one has the volume's name, whole, wherever the process dies; and the
// next call completes what is left.
func TestARevertThatDiesAtAnyCommandIsCompleted(t *testing.T) {
	p := newTestPool(t)
	id, snapshot := backendtest.NewID(), backendtest.NewSnapshotID()
	const size = 5<<20 + 4096
	require.NoError(t, p.Create(t.Context(), id, size))
	overwriteVolume(t, p, id, 0x11, size)
	require.NoError(t, p.TakeSnapshot(t.Context(), id, snapshot, nil))
	reverted, old := bytes.Repeat([]byte{0x11}, size), bytes.Repeat([]byte{0x22}, size)
	seen := map[byte]int{}
	change := func() { overwriteVolume(t, p, id, 0x22, size) }
	change()
	crashAtEveryChange(t, p, func(p *Pool) error { return p.Revert(t.Context(), id, snapshot) }, func(next *Pool, finished bool) {
		d, err := next.Observe(t.Context(), id)
		require.NoError(t, err)
		require.True(t, d.Exists)
		require.EqualValues(t, size, d.Size)
		requireOneImage(t, next, id)
		have := read(t, next, id)
		seen[have[0]]++
		require.True(t, bytes.Equal(reverted, have) || !finished && bytes.Equal(old, have), "whole, the old or the new one")
		require.NoError(t, next.Revert(t.Context(), id, snapshot))
		require.True(t, bytes.Equal(reverted, read(t, next, id)))
		require.Equal(t, []string{string(id), string(snapshot)}, content(t, next), "nothing is left")
		require.True(t, bytes.Equal(reverted, readSnapshot(t, next, snapshot)))
		change()
	})
	require.Positive(t, seen[0x11])
	require.Positive(t, seen[0x22])
	requireTags(t, p, id, tagOurs, tagFrom+string(snapshot), tagReady, sizeTag(size))
}

func overwriteVolume(t *testing.T, p *Pool, id fsm.VolumeID, with byte, size int) {
	t.Helper()
	p = reopen(t, p) // another process may have changed the pool
	d, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.EqualValues(t, size, d.Size)
	overwriteWith(t, d.Path, with, size)
	require.NoError(t, p.Deactivate(t.Context(), id))
}

// requireOneImage: what an interrupted Revert left is listed as the volume's, and one of it is the image.
func requireOneImage(t *testing.T, p *Pool, id fsm.VolumeID) {
	t.Helper()
	items, err := p.Inventory(t.Context())
	require.NoError(t, err)
	images := 0
	for _, item := range items {
		if item.Snapshot == "" {
			require.Equal(t, id, item.Volume, item.Path)
		}
		if item.Kind == executor.KindImage {
			images++
		}
	}
	require.Equal(t, 1, images)
}

func requireTags(t *testing.T, p *Pool, id fsm.VolumeID, want ...string) {
	t.Helper()
	state, err := p.states.refresh(t.Context())
	require.NoError(t, err)
	lv := state.volumes[string(id)]
	require.ElementsMatch(t, want, lv.tags)
}

// An undone conversion: the content stays, DRBD's metadata behind it go, wherever the process dies. The short form has the one
// that also takes extents off, which is every command of the other and more.
func TestAShrinkThatDiesAtAnyCommandIsCompleted(t *testing.T) {
	for discards, tail := range map[string]int64{"passdown": 9 << 20, "ignore": 36<<10 + 4096} { // beyond the last extent, and within it
		if testing.Short() && discards == "ignore" {
			continue
		}
		t.Run(discards, func(t *testing.T) {
			cfg := makeThinPool(t, "-L", "256M", "--poolmetadatasize", "4M", "--discards", discards)
			_, err := Init(t.Context(), cfg)
			require.NoError(t, err)
			p, err := Open(t.Context(), cfg)
			require.NoError(t, err)
			const size = 8<<20 + 4096
			testShrinkThatDies(t, p, size, size+tail)
		})
	}
}

func testShrinkThatDies(t *testing.T, p *Pool, size, all int64) {
	id, made := backendtest.NewID(), backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), made, size))
	require.NoError(t, p.Create(t.Context(), id, all))
	want := bytes.Repeat([]byte{0x33}, int(size))
	fill := func() { overwriteVolume(t, p, id, 0x33, int(all)) }
	fill()
	crashAtEveryChange(t, p, func(p *Pool) error { return p.Shrink(t.Context(), id, size) }, func(next *Pool, _ bool) {
		require.True(t, bytes.Equal(want, read(t, next, id)[:size]), "what stays is as it was")
		require.NoError(t, next.Shrink(t.Context(), id, size))
		require.True(t, bytes.Equal(want, read(t, next, id)))
		state, err := next.states.refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, state.volumes[string(made)].size, state.volumes[string(id)].size, "as Create makes it")
		requireTags(t, next, id, tagOurs, tagReady, sizeTag(size))
		require.NoError(t, next.Expand(t.Context(), id, all))
		require.True(t, bytes.Equal(append(bytes.Clone(want), make([]byte, all-size)...), read(t, next, id)), "zero behind it")
		fill()
	})
	for _, gone := range []fsm.VolumeID{id, made} {
		require.NoError(t, p.Remove(t.Context(), gone))
	}
}
