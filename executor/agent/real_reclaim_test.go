package agent_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// deletedBytes is how much the tests of real filesystems write and delete.
const deletedBytes = 12 << 20

// writeAndDelete writes files and deletes them.
func (s *realVolume) writeAndDelete() {
	s.t.Helper()
	data := make([]byte, deletedBytes/4)
	_, _ = rand.Read(data)
	for i := range 4 {
		path := filepath.Join(s.stage.Path, fmt.Sprint(i))
		require.NoError(s.t, os.WriteFile(path, data, 0o600))
	}
	s.syncAt(s.stage)
	for i := range 4 {
		require.NoError(s.t, os.Remove(filepath.Join(s.stage.Path, fmt.Sprint(i))))
	}
}

// syncAt writes out the filesystem where it is staged.
func (s *realVolume) syncAt(at executor.StageRequest) {
	f, err := os.Open(at.Path)
	require.NoError(s.t, err)
	defer f.Close()
	require.NoError(s.t, unix.Syncfs(int(f.Fd())))
}

// reclaimed reclaims until nothing more comes back: a filesystem frees what was deleted in the background.
func (s *realVolume) reclaimed() (first executor.SpaceUsage, back int64) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var used executor.SpaceUsage
		s.retry("reclaim", func() (err error) {
			used, err = s.e.ReclaimSpace(s.t.Context(), executor.ReclaimRequest{Volume: s.id, Path: s.stage.Path, Capability: s.capability})
			return err
		})
		require.True(s.t, used.Known)
		if !first.Known {
			first = used
		}
		if back = first.Before - used.After; back >= deletedBytes*95/100 || time.Now().After(deadline) {
			return first, back
		}
	}
}

// ADD-RS-NodeReclaimSpace-02, -03, -04, S61: of what was deleted, 95 % at least is back in the pool, as the
// image's own blocks say, and what lies beside it is untouched.
func TestS61_RealFilesystemsGiveBackWhatWasDeleted(t *testing.T) {
	for kind, capability := range map[string]fsm.Capability{"ext4": kinds["ext4"], "xfs": kinds["xfs"]} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newRealVolume(t, "", capability)
			s.writeAndDelete()
			before, back := s.reclaimed()
			require.GreaterOrEqual(t, before.Before, int64(deletedBytes), "it was allocated")
			require.GreaterOrEqual(t, back, int64(deletedBytes*95/100))
			used, err := s.e.ReclaimSpace(t.Context(), executor.ReclaimRequest{Volume: s.id, Path: s.stage.Path})
			require.NoError(t, err)
			require.InDelta(t, used.Before, used.After, 1<<20, "there is nothing more to give back")
			require.Equal(t, content("kept before the cut"), s.get(s.stage, "kept", len(content("kept before the cut"))))
			s.mustUnstage(s.id, s.stage.Path)
			s.mustStage(s.stage)
			require.Equal(t, content("kept before the cut"), s.get(s.stage, "kept", len(content("kept before the cut"))), "nor is what is on the disk")
		})
	}
}

// S61: snapshots that are taken and a growth that is decided while space is reclaimed have all that was
// there, and so has the volume.
func TestS61_RealSnapshotsAndGrowthGoOnBesideReclaim(t *testing.T) {
	s := newRealVolume(t, reflinkDir(t), kinds["ext4"])
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			default:
				_, err := s.e.ReclaimSpace(s.t.Context(), executor.ReclaimRequest{Volume: s.id, Path: s.stage.Path})
				if reason := reasonOf(err); err != nil && reason != fsm.Busy {
					s.t.Errorf("reclaim: %v", err)
					return
				}
			}
		}
	}()
	defer func() { close(end); <-done }()
	size := s.volumeSize()
	for i := range 3 {
		s.writeAndDelete()
		snapshot := s.startSnapshot(s.id)
		s.eventually(func() bool { return s.isSnapshotReady(snapshot) }, "it is taken beside it")
		(&testHost{testCluster: s.testCluster}).expandVolume(s.id, size+int64(i+1)<<20)
		s.eventually(func() bool { return s.noOperation(s.id) }, "it grows beside it")
		require.NoError(t, s.deleteSnapshot(snapshot))
	}
	require.Equal(t, content("kept before the cut"), s.get(s.stage, "kept", len(content("kept before the cut"))))
}

// ADD-RS-ControllerReclaimSpace-02, -04, S61: a real filesystem that nobody uses gives back what was deleted, and
// neither a mount nor a device of it is left.
func TestS61_RealUnpublishedFilesystemsGiveBackWhatWasDeleted(t *testing.T) {
	for kind, capability := range map[string]fsm.Capability{"ext4": kinds["ext4"], "xfs": kinds["xfs"]} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newRealVolume(t, "", capability)
			s.writeAndDelete()
			s.mustUnstage(s.id, s.stage.Path)
			s.eventually(func() bool { return s.publication(s.id).Staging == nil }, "the log knows")
			require.NoError(t, s.unpublishVolume(s.id))
			w := &testHost{testCluster: s.testCluster}
			r, rej := w.awaitReclaim(s.id, s.beginReclaim(s.id))
			require.Nil(t, rej)
			require.True(t, r.Known)
			require.GreaterOrEqual(t, r.Before-r.After, int64(deletedBytes*95/100))
			s.eventually(func() bool { return len(s.kernelLeftovers()) == 0 }, "no device and no mount is left")
			at := s.stageAt(s.id, "staging")
			require.Equal(t, content("kept before the cut"), s.get(at, "kept", len(content("kept before the cut"))))
		})
	}
}
