package lvm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fakeHost answers commands from what was captured, and the kernel's questions.
type fakeHost struct {
	lvs      []byte
	thinLS   string // of thin_ls
	outputs  map[string]string
	devices  map[string]*dmDevice
	failures map[string]error // by a command's first two words
	after    func(command string)
	message  func(text string) error // of dmsetup; nil: each is taken
	dumps    map[string]string       // of thin_dump, by the device's id
	block    chan struct{}           // thin_dump says its last line when this is closed; nil: at once

	mu       sync.Mutex
	commands []string
}

func (f *fakeHost) Run(ctx context.Context, c run.Command) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	words := append([]string{c.Tool}, c.Args...)
	key := strings.Join(words[:2], " ")
	f.mu.Lock()
	f.commands = append(f.commands, strings.Join(words, " "))
	f.mu.Unlock()
	if f.after != nil {
		defer f.after(key)
	}
	if err := f.failures[key]; err != nil {
		return nil, err
	}
	switch key {
	case "dmsetup message":
		if f.message != nil {
			return nil, f.message(c.Args[len(c.Args)-1])
		}
	case "lvm lvs":
		_, _ = c.Stdout.Write(f.lvs)
	case "thin_ls -m":
		_, _ = c.Stdout.Write([]byte(f.thinLS))
	case "thin_dump -m":
		return nil, f.dump(ctx, c)
	}
	return nil, nil
}

// dump prints what was captured of a device; the last two lines once they are let go.
func (f *fakeHost) dump(ctx context.Context, c run.Command) error {
	text := f.dumps[c.Args[2]]
	end := strings.Index(text, "  </device>")
	if f.block != nil && end >= 0 {
		_, _ = c.Stdout.Write([]byte(text[:end]))
		text = text[end:]
		select {
		case <-f.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, _ = c.Stdout.Write([]byte(text))
	return nil
}

// count counts the commands that begin like this.
func (f *fakeHost) count(begin string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.commands {
		if strings.HasPrefix(line, begin) {
			n++
		}
	}
	return n
}

func (f *fakeHost) device(name string) (*dmDevice, error) { return f.devices[name], nil }

func (f *fakeHost) status(name string) (target, params string, err error) {
	target, params, _ = strings.Cut(f.outputs[name], " ")
	return target, params, nil
}

// changes are the commands that change something, without their settings.
func (f *fakeHost) changes() []string {
	var all []string
	for _, line := range f.commands {
		words := strings.Fields(line)
		if words[0] == "dmsetup" && words[1] != "message" || words[0] == "lvm" && words[1] != "lvs" && words[1] != "lvmconfig" {
			all = append(all, words[1])
		}
	}
	return all
}

const goodStatus = "thin-pool 4 115/1024 10/2048 - rw no_discard_passdown error_if_no_space - 256"

func newFakePool(t *testing.T) (*Pool, *fakeHost) {
	t.Helper()
	f := &fakeHost{lvs: readTestdata(t, "lvs.json"), thinLS: string(readTestdata(t, "thin_ls.txt")),
		outputs: map[string]string{"vg--a-pool-tpool": goodStatus}, devices: map[string]*dmDevice{}, failures: map[string]error{}}
	p, err := newPool(t.Context(), Config{VG: "vg-a", ThinPool: "pool", KnownID: testPoolID, Runner: f})
	require.NoError(t, err)
	p.kernel = f
	return p, f
}

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
				require.True(t, d.Active(), "its device is seen all the same")
			}
			for _, change := range f.changes() {
				require.Equal(t, "lvchange", change, "nothing but the attempt to activate it")
			}
		})
	}
}

func TestNothingIsCreatedWhileMetadataAndLVMDiffer(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*fakeHost)
		says  string
	}{
		"another transaction": {spoil: func(f *fakeHost) {
			f.outputs["vg--a-pool-tpool"] = strings.Replace(goodStatus, " 4 ", " 5 ", 1)
		}, says: "at transaction 5, LVM's is at 4"},
		"devices that LVM does not know": {spoil: func(f *fakeHost) { f.thinLS += "77 \n78 \n" }, says: "devices 77, 78;"},
		"a list that cannot be read":     {spoil: func(f *fakeHost) { f.thinLS = "all" }, says: `"all" is no device`},
		"a list that fails":              {spoil: func(f *fakeHost) { f.failures["thin_ls -m"] = errors.New("broken") }, says: "broken"},
		"it does not zero":               {spoil: func(f *fakeHost) { f.lvs = []byte(strings.ReplaceAll(string(f.lvs), `"zero":"zero"`, `"zero":""`)) }, says: "--zero y"},
		"it hangs its writers": {spoil: func(f *fakeHost) {
			f.outputs["vg--a-pool-tpool"] = strings.Replace(goodStatus, "error_if", "queue_if", 1)
		}, says: "--errorwhenfull y"},
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newFakePool(t)
			tc.spoil(f)
			for range 2 {
				require.ErrorContains(t, p.Create(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", 1<<20), tc.says)
				require.ErrorContains(t, p.TakeSnapshot(t.Context(), testVolumeID, "hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", nil), tc.says)
			}
			require.Empty(t, f.changes())
			require.Equal(t, countMessages(f, "reserve_metadata_snap"), countMessages(f, "release_metadata_snap"), "what is reserved is released")
		})
	}
}

// A killed command may have reserved the metadata snapshot: no other code would release it.
func TestAStaleMetadataSnapshotIsReleased(t *testing.T) {
	p, f := newFakePool(t)
	killed := true
	f.message = func(text string) error {
		if text == "reserve_metadata_snap" && killed {
			return &run.Error{Tool: "dmsetup", Code: -1, TimedOut: true}
		}
		return nil
	}
	read := func(string) error { return nil }
	require.Error(t, p.volumes.metadata.with(t.Context(), "vg--a-pool-tpool", read))
	require.Equal(t, 1, countMessages(f, "release_metadata_snap"))
	killed = false
	require.NoError(t, p.volumes.metadata.with(t.Context(), "vg--a-pool-tpool", read))
	f.message = func(string) error { return &run.Error{Tool: "dmsetup", Code: 1, Output: "Device or resource busy"} }
	require.Error(t, p.volumes.metadata.with(t.Context(), "vg--a-pool-tpool", read))
	ctx, cancel := context.WithCancel(t.Context())
	f.after = func(string) { cancel() }
	require.Error(t, p.volumes.metadata.with(ctx, "vg--a-pool-tpool", read))
	require.Equal(t, 2, countMessages(f, "release_metadata_snap"), "what somebody else reserved is his")
}

// Reading the metadata may take minutes; a caller that cannot wait for it does not block the
// others meanwhile.
func TestOpenWaitsNoLongerThanItsCaller(t *testing.T) {
	p, _ := newFakePool(t)
	p.volumes.metadata.held <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Expand(ctx, testVolumeID, 1<<30) }()
	require.Eventually(t, func() bool { return len(p.lock.held) == 1 }, time.Minute, time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(time.Minute):
		t.Fatal("it waits for the metadata although its caller is gone")
	}
	require.Empty(t, p.lock.held)
}

func countMessages(f *fakeHost, message string) (n int) {
	for _, line := range f.commands {
		if strings.HasSuffix(line, " "+message) {
			n++
		}
	}
	return n
}

// A new volume that has blocks is one that LVM lost, and stays what it is.
func TestANewVolumeWithDataIsNotMarkedReady(t *testing.T) {
	p, f := newFakePool(t)
	id := fsm.VolumeID("hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99")
	f.outputs[dmName("vg-a", string(id))] = "thin 384 383"
	require.ErrorIs(t, p.Create(t.Context(), id, 1<<20), errOrphan)
	require.Equal(t, []string{"lvcreate"}, f.changes(), "neither finished nor removed")
	f.outputs[dmName("vg-a", string(testUnfinishedID))] = "thin 384 383"
	f.devices[dmName("vg-a", string(testUnfinishedID))] = &dmDevice{}
	require.ErrorIs(t, p.Remove(t.Context(), testUnfinishedID), errOrphan)
	require.NotContains(t, f.changes(), "lvremove")
}

func TestS19_ACancelledSnapshotIsRemovedAndNeverReady(t *testing.T) {
	p, f := newFakePool(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.after = func(command string) {
		if command == "lvm lvcreate" {
			cancel() // the freeze ends while LVM works
		}
	}
	err := p.TakeSnapshot(ctx, testVolumeID, "hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"lvcreate", "lvremove"}, f.changes())
}

func TestExistingVolumesAreAdoptedWithoutACommand(t *testing.T) {
	p, f := newFakePool(t)
	for range 2 {
		require.NoError(t, p.Create(t.Context(), testVolumeID, 16781312))
		require.Equal(t, fsm.Incompatible, reason(p.Create(t.Context(), testVolumeID, 16<<20)))
		require.NoError(t, p.TakeSnapshot(t.Context(), testVolumeID, testSnapshotID, nil))
		require.NoError(t, p.TakeSnapshot(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", testSnapshotID, nil), "also when its source is gone")
		require.NoError(t, p.Expand(t.Context(), testVolumeID, 1<<20))
	}
	require.Empty(t, f.changes())
}

func TestAnAttachedVolumeIsNotRemoved(t *testing.T) {
	p, f := newFakePool(t)
	f.devices[p.layerName(testVolumeID)] = &dmDevice{major: 254, minor: 7, open: 1}
	for range 2 {
		require.Equal(t, fsm.InUse, reason(p.Remove(t.Context(), testVolumeID)))
		require.Equal(t, fsm.Busy, reason(p.Deactivate(t.Context(), testVolumeID)))
	}
	require.Empty(t, f.changes())
}

func TestLVMRefusalsBecomeRejections(t *testing.T) {
	full := &run.Error{Tool: "lvm", Code: 5, Output: "Cannot create new thin volume, free space in thin pool vg-a/pool reached threshold."}
	p, f := newFakePool(t)
	f.failures["lvm lvcreate"] = full
	require.Equal(t, fsm.NoCapacity, reason(p.Create(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", 1<<20)))
	f.failures["lvm lvremove"] = &run.Error{Tool: "lvm", Code: 5, Output: "Logical volume vg-a/x is used by another device."}
	require.Equal(t, fsm.InUse, reason(p.Remove(t.Context(), testVolumeID)))
	f.failures["lvm lvremove"] = &run.Error{Tool: "lvm", Code: 5, Output: `Failed to find logical volume "vg-a/x"`}
	require.NoError(t, p.Remove(t.Context(), testVolumeID), "gone is gone")
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
	require.NoError(t, p.volumes.metadata.release(ctx, "pool"), "the metadata snapshot is always given back")
	require.Error(t, p.Create(ctx, "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", 1<<20))
	require.Equal(t, []string{"lvcreate"}, f.changes(), "but none is begun")
}
