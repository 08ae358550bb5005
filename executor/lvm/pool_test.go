package lvm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestPoolUsageDecidesWhetherItAcceptsNewVolumes(t *testing.T) {
	for name, tc := range map[string]struct {
		status string
		says   string // of the refusal; empty: it takes new volumes
		absent bool
	}{
		"as captured":             {status: goodStatus},
		"at both thresholds":      {status: "thin-pool 4 819/1024 1945/2048 - rw no_discard_passdown error_if_no_space - 256"},
		"above that of metadata":  {status: "thin-pool 4 820/1024 10/2048 - rw no_discard_passdown error_if_no_space - 256", says: "its metadata is used to more than 80 %"},
		"above that of data":      {status: "thin-pool 4 115/1024 1946/2048 - rw no_discard_passdown error_if_no_space - 256", says: "its data space is used to more than 95 %"},
		"out of data":             {status: string(readTestdata(t, "status-out-of-data.txt")), says: "its data space is full"},
		"read-only":               {status: "thin-pool 4 1024/1024 10/2048 - ro no_discard_passdown error_if_no_space - 256", says: "it is ro"},
		"in need of a check":      {status: "thin-pool 4 115/1024 10/2048 - ro no_discard_passdown error_if_no_space needs_check 256", says: "needs a check"},
		"given up":                {status: "thin-pool Fail", says: "gave it up", absent: true},
		"not active":              {status: "linear ", says: "not active", absent: true},
		"somebody reads its maps": {status: string(readTestdata(t, "status-held.txt"))},
		"a status of nonsense":    {status: "thin-pool 4 x/1024 10/2048 - rw a b c d", says: "read the pool's status", absent: true},
		"a status cut short":      {status: "thin-pool 4 115/1024", says: "too short", absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newFakePool(t)
			if _, ours, ok := strings.Cut(tc.status, " thin-pool "); ok {
				tc.status = "thin-pool " + ours
			}
			f.outputs = map[string]string{"vg--a-pool": tc.status}
			p.prepared = true
			for range 2 {
				facts := p.Facts(t.Context())
				require.Equal(t, tc.absent, facts.Absent)
				require.Equal(t, testPoolID, facts.ID)
				ratio, known := p.MetadataRatio()
				require.Equal(t, !tc.absent, known)
				if known {
					require.InDelta(t, metadataOf(tc.status), ratio, 1e-9)
				}
				state := testState(t)
				state.transaction = transactionOf(tc.status)
				err := p.volumes.checkAcceptsNew(t.Context(), state)
				if tc.says == "" {
					require.Positive(t, facts.Free)
					require.Less(t, facts.Free, facts.Capacity)
					require.NoError(t, err)
					continue
				}
				require.Zero(t, facts.Free)
				require.Contains(t, facts.Detail, tc.says)
				require.ErrorContains(t, err, tc.says)
			}
		})
	}
}

func metadataOf(status string) float64 {
	var n uint64
	var used, total float64
	_, _ = fmt.Sscanf(status, "thin-pool %d %g/%g", &n, &used, &total)
	return used / total
}

func transactionOf(status string) uint64 {
	var n uint64
	_, _ = fmt.Sscanf(status, "thin-pool %d", &n)
	return n
}

func TestS12_NothingIsCreatedInAnotherPool(t *testing.T) {
	for name, spoil := range map[string]func(*Pool, *fakeHost){
		"without the tag":        func(_ *Pool, f *fakeHost) { f.lvs = []byte(strings.ReplaceAll(string(f.lvs), tagPool, "pool=")) },
		"with another tag":       func(p *Pool, _ *fakeHost) { p.id = newID() },
		"the pool is gone":       func(_ *Pool, f *fakeHost) { f.lvs = []byte(`{"report":[{"lv":[]}]}`) },
		"the group is gone":      func(_ *Pool, f *fakeHost) { f.failures["lvm lvs"] = errNoGroup },
		"a copy with its tag":    func(p *Pool, _ *fakeHost) { p.firstUUID = "another" },
		"it cannot be activated": func(_ *Pool, f *fakeHost) { f.outputs = nil; f.failures["lvm lvchange"] = errors.New("check failed") },
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newFakePool(t)
			spoil(p, f)
			f.devices[p.layerName(testVolumeID)] = &dmDevice{major: 254, minor: 7}
			for range 2 {
				require.True(t, p.Facts(t.Context()).Absent)
				require.True(t, isAbsent(p.Create(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", 1<<20)))
				require.True(t, isAbsent(p.CreateFrom(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", 1<<30, fsm.Source{Snapshot: testSnapshotID}, 0, nil)))
				require.True(t, isAbsent(p.TakeSnapshot(t.Context(), testVolumeID, "hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", nil)))
				require.True(t, isAbsent(p.Remove(t.Context(), testVolumeID)))
				require.True(t, isAbsent(p.Expand(t.Context(), testVolumeID, 1<<30)))
				d, err := p.Observe(t.Context(), testVolumeID)
				require.NoError(t, err)
				require.True(t, d.Active(), "its device is reported all the same")
			}
			for _, change := range f.changes() {
				require.Equal(t, "lvchange", change, "nothing but the attempt to activate it")
			}
		})
	}
}

// A command that was killed at its deadline may have had a volume suspended.
func TestDevicesLeftSuspendedAreResumed(t *testing.T) {
	p, f := newFakePool(t)
	f.failures["lvm lvcreate"] = &run.Error{Tool: "lvm", Code: -1, TimedOut: true}
	volume, above := dmName("vg-a", string(testVolumeID)), p.layerName(testVolumeID)
	require.Error(t, p.TakeSnapshot(t.Context(), testVolumeID, "hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", nil))
	for _, name := range []string{above, volume} {
		f.devices[name] = &dmDevice{suspended: true}
	}
	f.commands = nil
	require.NoError(t, p.TakeSnapshot(t.Context(), testVolumeID, testSnapshotID, nil))
	var resumed []string
	for _, line := range f.commands {
		if strings.HasPrefix(line, "dmsetup resume ") {
			resumed = append(resumed, line[strings.LastIndexByte(line, ' ')+1:])
		}
	}
	require.Equal(t, []string{volume, above}, resumed, "the lower one first")
}

func TestCommandsRunToTheirEndWithoutTheirCaller(t *testing.T) {
	p, f := newFakePool(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.tools.runChange(ctx, changeTimeout, "lvcreate"))
	require.NoError(t, p.volumes.metadata.release(ctx, "pool"), "the metadata snapshot is always released")
	require.Error(t, p.Create(ctx, "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", 1<<20))
	require.Equal(t, []string{"lvcreate"}, f.changes(), "but no new one is started")
}
