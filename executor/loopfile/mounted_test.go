package loopfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// mountPointOf mounts an attached volume until the test ends.
func mountPointOf(t *testing.T, device string, options ...string) string {
	t.Helper()
	at := t.TempDir()
	out, err := exec.Command("mount", append(options, device, at)...).CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(func() {
		_ = exec.Command("fsfreeze", "--unfreeze", at).Run()
		require.Eventually(t, func() bool {
			return exec.Command("umount", at).Run() == nil || exec.Command("mountpoint", "-q", at).Run() != nil
		}, time.Minute, 20*time.Millisecond)
	})
	return at
}

func testID(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%08d", n)), 2048) }

// writer writes one numbered file after the other until it is stopped. Done is told
// of each that was synced.
func writer(dir string, stop <-chan struct{}, done chan<- int) error {
	defer close(done)
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(n%100)))
		if err != nil {
			return err
		}
		_, err = f.Write(testID(n))
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		done <- n
	}
}

func TestS19_AFrozenSnapshotUnderAWriterIsConsistent(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		for name, sharing := range map[string]bool{"copying": false, "sharing": true} {
			t.Run(fsType+", "+name, func(t *testing.T) {
				needLoops(t)
				dir := t.TempDir()
				if sharing {
					dir = supportsReflink(t)
				}
				snapshotDuringWrites(t, openPoolIn(t, filepath.Join(dir, "pool")), fsType)
			})
		}
	}
}

func snapshotDuringWrites(t *testing.T, p *Pool, fsType string) {
	source, snapshot, clone := backendtest.NewID(), backendtest.NewSnapshotID(), backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), source, fsm.MinXFSSize))
	d, err := p.Activate(t.Context(), source, false)
	require.NoError(t, err)
	require.NoError(t, exec.Command("mkfs."+fsType, "-q", d.Path).Run())
	at := mountPointOf(t, d.Path)
	stop, done, result := make(chan struct{}), make(chan int, 1<<16), make(chan error, 1)
	go func() { result <- writer(at, stop, done) }()
	for <-done < 30 {
	}
	require.NoError(t, exec.Command("fsfreeze", "--freeze", at).Run())
	synced := 30 // all that was told before the freeze must be in the cut
	for len(done) > 0 {
		synced = <-done
	}
	snapshotErr := p.TakeSnapshot(t.Context(), source, snapshot, nil)
	require.NoError(t, exec.Command("fsfreeze", "--unfreeze", at).Run())
	require.NoError(t, snapshotErr)
	for n := range done { // it goes on after the cut
		if n > synced+20 {
			break
		}
	}
	close(stop)
	require.NoError(t, <-result)
	require.NoError(t, p.CreateFrom(t.Context(), clone, 2*fsm.MinXFSSize, fsm.Source{Snapshot: snapshot}, 0, nil))
	c, err := p.Activate(t.Context(), clone, false)
	require.NoError(t, err)
	options := map[string][]string{"ext4": nil, "xfs": {"-o", "nouuid"}}
	requireConsistent(t, mountPointOf(t, c.Path, options[fsType]...), synced)
}

// requireConsistent looks that the files hold all that was synced, and that the newest
// state of each was written at once.
func requireConsistent(t *testing.T, dir string, synced int) {
	t.Helper()
	for n := max(0, synced-99); n <= synced; n++ {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(n%100)))
		require.NoError(t, err)
		next := testID(n + 100)
		if n+100 == synced+1 && !bytes.Equal(got, testID(n)) {
			require.True(t, bytes.HasPrefix(next, got), "the one that was being written at the cut")
			continue
		}
		require.True(t, bytes.Equal(got, testID(n)), "file %d of %d", n, synced)
	}
}
