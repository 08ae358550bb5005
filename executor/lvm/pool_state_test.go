package lvm

import (
	"context"
	"embed"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	testVolumeID     = fsm.VolumeID("hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c10")
	testUnfinishedID = fsm.VolumeID("hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c12")
	testSnapshotID   = fsm.SnapshotID("hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c11")
	testPoolID       = fsm.PoolID("hp-0d9f8c3e-5d0f-4f3b-9a53-0c6c0a1b2c3d")
)

// capturedFiles are in the program, which also runs in guests.
//
//go:embed testdata
var capturedFiles embed.FS

// readTestdata returns what a tool printed in a guest.
func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	text, err := capturedFiles.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return text
}

func testState(t testing.TB) *poolState {
	t.Helper()
	state, err := parsePoolState(readTestdata(t, "lvs.json"), "pool")
	require.NoError(t, err)
	return state
}

func TestParsePoolState(t *testing.T) {
	state := testState(t)
	require.Equal(t, "pool", state.pool.name)
	require.EqualValues(t, 4<<20, state.extentBytes)
	require.EqualValues(t, 64<<10, state.chunkBytes)
	require.True(t, state.zeroesBlocks)
	require.True(t, state.errorWhenFull)
	require.EqualValues(t, 4, state.transaction)
	require.Len(t, state.volumes, 4, "also others'")
	id, err := state.poolID()
	require.NoError(t, err)
	require.Equal(t, testPoolID, id)
	lv := state.volumes[string(testVolumeID)]
	require.EqualValues(t, 20<<20, lv.size)
	require.EqualValues(t, 2, lv.thinID)

	for name, tc := range map[string]struct {
		id     string
		want   executor.Device
		reason fsm.Reason
	}{
		"a volume is as large as its tag says":  {id: string(testVolumeID), want: executor.Device{Exists: true, Size: 16781312}},
		"a snapshot likewise":                   {id: string(testSnapshotID), want: executor.Device{Exists: true, Size: 16781312}},
		"one without the last tag is no volume": {id: string(testUnfinishedID), want: executor.Device{Unfinished: true}},
		"one that is not there":                 {id: "hf-none"},
		"one of others is not ours":             {id: "theirs", reason: fsm.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				var d executor.Device
				require.Equal(t, tc.reason, reason(state.fillDevice(tc.id, &d)))
				require.Equal(t, tc.want, d)
			}
		})
	}
}

func TestAPoolThatIsNotThereOrDoesNotZero(t *testing.T) {
	state, err := parsePoolState(readTestdata(t, "lvs-no-pool.json"), "pool")
	require.NoError(t, err)
	_, err = state.poolID()
	require.ErrorContains(t, err, "no such thin pool")
	state, err = parsePoolState(readTestdata(t, "lvs-zero-n.json"), "other")
	require.NoError(t, err)
	require.False(t, state.zeroesBlocks)
	require.False(t, state.errorWhenFull)
	_, err = state.poolID()
	require.ErrorContains(t, err, "no tag")
	free, extent, err := parseGroup(readTestdata(t, "vgs.json"))
	require.NoError(t, err)
	require.EqualValues(t, 1254096896, free)
	require.EqualValues(t, 4<<20, extent)
}

func TestReportsThatCannotBeReadAreErrors(t *testing.T) {
	for _, report := range []string{
		"", "{", `{"report":[{"lv":[{"lv_name":"x","pool_lv":"pool","lv_size":"many"}]}]}`,
		`{"report":[{"lv":[{"lv_name":"x","pool_lv":"pool","lv_size":"-1","thin_id":"1"}]}]}`,
	} {
		_, err := parsePoolState([]byte(report), "pool")
		require.Error(t, err, report)
		_, _, err = parseGroup([]byte(report))
		require.Error(t, err, report)
	}
	for _, tags := range [][]string{nil, {"holdfast-size="}, {"holdfast-size=0"}, {"holdfast-size=-5"}, {"holdfast-size=1001"}} {
		lv := logicalVolume{name: "x", size: 1000, tags: tags}
		_, err := lv.taggedSize()
		require.Equal(t, fsm.Precondition, reason(err), tags)
	}
	state := poolState{pool: logicalVolume{name: "pool", tags: []string{tagPool + "x"}}}
	_, err := state.poolID()
	require.ErrorContains(t, err, "is no pool's id")
}

func TestPoolStateIsCachedUntilAChange(t *testing.T) {
	var queries atomic.Int32
	failure := error(nil)
	cache := newStateCache(func(context.Context) (*poolState, error) {
		queries.Add(1)
		return &poolState{}, failure
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = cache.get(t.Context()) })
	}
	all.Wait()
	require.EqualValues(t, 1, queries.Load())
	cache.invalidate()
	for range 2 {
		_, err := cache.get(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, queries.Load())
	}
	for n := range int32(2) {
		_, err := cache.refresh(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3+n, queries.Load())
	}
	failure = errNoGroup
	cache.invalidate()
	for range 2 {
		_, err := cache.get(t.Context())
		require.ErrorIs(t, err, errNoGroup, "that there is no group is cached")
	}
	require.EqualValues(t, 5, queries.Load())
	failure = errors.New("no answer")
	cache.invalidate()
	for range 2 {
		_, err := cache.get(t.Context())
		require.ErrorContains(t, err, "no answer")
	}
	require.EqualValues(t, 7, queries.Load(), "a failure is not cached")
}

func TestOwnChangesUpdateTheCachedState(t *testing.T) {
	p, f := newFakePool(t)
	p.prepared = true
	for range 2 {
		require.NoError(t, p.Remove(t.Context(), testVolumeID))
	}
	queries := len(f.commands)
	for range 2 {
		d, err := p.Observe(t.Context(), testVolumeID)
		require.NoError(t, err)
		require.False(t, d.Exists, "although the fake's LVM still says so")
	}
	require.Len(t, f.commands, queries)
	state := testState(t)
	more := state.with(logicalVolume{name: "new"})
	require.Contains(t, more.volumes, "new")
	require.NotContains(t, state.volumes, "new")
	require.Len(t, more.without("new").volumes, len(state.volumes))
}

// A query that began before a change and ended after it may return the state before the change.
func TestAStateReadBeforeAChangeIsNotCached(t *testing.T) {
	var cache *stateCache
	queries := 0
	cache = newStateCache(func(context.Context) (*poolState, error) {
		if queries++; queries == 1 {
			cache.invalidate() // the pool is changed meanwhile
		}
		return &poolState{}, nil
	})
	for range 2 {
		_, err := cache.get(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 2, queries)
}
