package lvm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/run"
)

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
	require.Equal(t, 2, countMessages(f, "release_metadata_snap"), "what another program reserved is not released")
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
		t.Fatal("it waits for the metadata although its context has ended")
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
