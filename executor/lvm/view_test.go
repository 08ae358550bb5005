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
	someVolume     = fsm.VolumeID("hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c10")
	someUnfinished = fsm.VolumeID("hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c12")
	someSnapshot   = fsm.SnapshotID("hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c11")
	somePool       = fsm.PoolID("hp-0d9f8c3e-5d0f-4f3b-9a53-0c6c0a1b2c3d")
)

// capturedFiles are in the program, which also runs in guests.
//
//go:embed testdata
var capturedFiles embed.FS

// captured is what a tool printed in a guest.
func captured(t testing.TB, name string) []byte {
	t.Helper()
	text, err := capturedFiles.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return text
}

func someView(t testing.TB) *view {
	t.Helper()
	v, err := parseView(captured(t, "lvs.json"), "pool")
	require.NoError(t, err)
	return v
}

func TestWhatLVMSaysIsRead(t *testing.T) {
	v := someView(t)
	require.Equal(t, "pool", v.pool.name)
	require.EqualValues(t, 4<<20, v.extent)
	require.EqualValues(t, 64<<10, v.chunk)
	require.True(t, v.zero)
	require.True(t, v.errors)
	require.EqualValues(t, 4, v.transaction)
	require.Len(t, v.volumes, 4, "also others'")
	id, err := v.identity()
	require.NoError(t, err)
	require.Equal(t, somePool, id)
	lv := v.volumes[string(someVolume)]
	require.EqualValues(t, 20<<20, lv.size)
	require.EqualValues(t, 2, lv.thin)

	for name, tc := range map[string]struct {
		id     string
		want   executor.Device
		reason fsm.Reason
	}{
		"a volume is as large as its tag says":  {id: string(someVolume), want: executor.Device{Exists: true, Size: 16781312}},
		"a snapshot likewise":                   {id: string(someSnapshot), want: executor.Device{Exists: true, Size: 16781312}},
		"one without the last tag is no volume": {id: string(someUnfinished), want: executor.Device{Unfinished: true}},
		"one that is not there":                 {id: "hf-none"},
		"one of others is not ours":             {id: "theirs", reason: fsm.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				var d executor.Device
				require.Equal(t, tc.reason, reason(v.describe(tc.id, &d)))
				require.Equal(t, tc.want, d)
			}
		})
	}
}

func TestAPoolThatIsNotThereOrDoesNotZero(t *testing.T) {
	v, err := parseView(captured(t, "lvs-no-pool.json"), "pool")
	require.NoError(t, err)
	_, err = v.identity()
	require.ErrorContains(t, err, "no such thin pool")
	v, err = parseView(captured(t, "lvs-zero-n.json"), "other")
	require.NoError(t, err)
	require.False(t, v.zero)
	require.False(t, v.errors)
	_, err = v.identity()
	require.ErrorContains(t, err, "no tag")
	free, extent, err := parseGroup(captured(t, "vgs.json"))
	require.NoError(t, err)
	require.EqualValues(t, 1254096896, free)
	require.EqualValues(t, 4<<20, extent)
}

func TestReportsThatCannotBeReadAreErrors(t *testing.T) {
	for _, report := range []string{
		"", "{", `{"report":[{"lv":[{"lv_name":"x","pool_lv":"pool","lv_size":"many"}]}]}`,
		`{"report":[{"lv":[{"lv_name":"x","pool_lv":"pool","lv_size":"-1","thin_id":"1"}]}]}`,
	} {
		_, err := parseView([]byte(report), "pool")
		require.Error(t, err, report)
		_, _, err = parseGroup([]byte(report))
		require.Error(t, err, report)
	}
	for _, tags := range [][]string{nil, {"holdfast-size="}, {"holdfast-size=0"}, {"holdfast-size=-5"}, {"holdfast-size=1001"}} {
		lv := volume{name: "x", size: 1000, tags: tags}
		_, err := lv.nominal()
		require.Equal(t, fsm.Precondition, reason(err), tags)
	}
	v := view{pool: volume{name: "pool", tags: []string{tagPool + "x"}}}
	_, err := v.identity()
	require.ErrorContains(t, err, "is no pool's id")
}

func TestOneCommandAnswersAllUntilSomethingChanges(t *testing.T) {
	var asked atomic.Int32
	failure := error(nil)
	views := newViews(func(context.Context) (*view, error) {
		asked.Add(1)
		return &view{}, failure
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = views.recent(t.Context()) })
	}
	all.Wait()
	require.EqualValues(t, 1, asked.Load())
	views.forget()
	for range 2 {
		_, err := views.recent(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, asked.Load())
	}
	for n := range int32(2) {
		_, err := views.fresh(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3+n, asked.Load())
	}
	failure = errNoGroup
	views.forget()
	for range 2 {
		_, err := views.recent(t.Context())
		require.ErrorIs(t, err, errNoGroup, "that there is no group is an answer")
	}
	require.EqualValues(t, 5, asked.Load())
	failure = errors.New("no answer")
	views.forget()
	for range 2 {
		_, err := views.recent(t.Context())
		require.ErrorContains(t, err, "no answer")
	}
	require.EqualValues(t, 7, asked.Load(), "a failure is none")
}

func TestWhatWasJustChangedNeedNotBeAskedFor(t *testing.T) {
	p, f := newFake(t)
	p.prepared = true
	for range 2 {
		require.NoError(t, p.Remove(t.Context(), someVolume))
	}
	asked := len(f.done)
	for range 2 {
		d, err := p.Observe(t.Context(), someVolume)
		require.NoError(t, err)
		require.False(t, d.Exists, "although the fake's LVM still says so")
	}
	require.Len(t, f.done, asked)
	v := someView(t)
	more := v.with(volume{name: "new"})
	require.Contains(t, more.volumes, "new")
	require.NotContains(t, v.volumes, "new")
	require.Len(t, more.without("new").volumes, len(v.volumes))
}

// What was asked before a change and answered after it is not what is there.
func TestAnAnswerFromBeforeAChangeIsNotKept(t *testing.T) {
	var views *views
	asked := 0
	views = newViews(func(context.Context) (*view, error) {
		if asked++; asked == 1 {
			views.forget() // somebody changes something meanwhile
		}
		return &view{}, nil
	})
	for range 2 {
		_, err := views.recent(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 2, asked)
}
