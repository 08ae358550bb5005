package agent_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// reflinkDir is a directory on an xfs that shares blocks; it is removed when the test ends.
func reflinkDir(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices and mounts need root")
	}
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		t.Skip("mkfs.xfs is not installed")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	disk, at := filepath.Join(dir, "xfs.img"), filepath.Join(dir, "mnt")
	require.NoError(t, os.WriteFile(disk, nil, 0o600))
	require.NoError(t, os.Truncate(disk, 4<<30))
	require.NoError(t, os.Mkdir(at, 0o700))
	require.NoError(t, exec.Command("mkfs.xfs", "-q", "-m", "reflink=1", disk).Run())
	require.NoError(t, exec.Command("mount", "-o", "loop", disk, at).Run())
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return exec.Command("umount", at).Run() == nil }, time.Minute, 10*time.Millisecond)
	})
	return filepath.Join(at, "pool")
}

// realVolume is a real host with one staged volume and data in it.
type realVolume struct {
	*realHost
	t          *testing.T
	capability fsm.Capability
	id         fsm.VolumeID
	stage      executor.StageRequest
}

func newRealVolume(t *testing.T, pool string, capability fsm.Capability) *realVolume {
	h := newRealHostOn(t, pool)
	h.start(nil)
	s := &realVolume{realHost: h, t: t, capability: capability}
	s.id, s.stage = s.volumeAt("staging")
	s.put(s.stage, "kept", content("kept before the cut"))
	return s
}

// content is half a MiB that begins with a text.
func content(text string) []byte {
	return append([]byte(text), bytes.Repeat([]byte(text[:1]), 512<<10)...)
}

// volumeAt is another volume, staged.
func (s *realVolume) volumeAt(name string) (fsm.VolumeID, executor.StageRequest) {
	s.t.Helper()
	id := backendtest.NewID()
	s.create(id, s.capability)
	return id, s.stageAt(id, name)
}

func (s *realVolume) stageAt(id fsm.VolumeID, name string) executor.StageRequest {
	s.t.Helper()
	path := filepath.Join(s.dir, "kubelet", name)
	require.NoError(s.t, os.MkdirAll(path, 0o755))
	req := executor.StageRequest{Volume: id, Epoch: s.publishVolume(id, s.capability), Path: path, Capability: s.capability}
	for range 2 {
		s.mustStage(req)
	}
	return req
}

// put writes a file, or the beginning of a raw device, and syncs it.
func (s *realVolume) put(at executor.StageRequest, name string, data []byte) {
	s.t.Helper()
	f, err := os.OpenFile(s.file(at, name), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(s.t, err)
	defer f.Close()
	_, err = f.WriteAt(data, 0)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Sync())
}

func (s *realVolume) get(at executor.StageRequest, name string, n int) []byte {
	s.t.Helper()
	f, err := os.Open(s.file(at, name))
	require.NoError(s.t, err)
	defer f.Close()
	data := make([]byte, n)
	_, err = f.ReadAt(data, 0)
	require.NoError(s.t, err)
	return data
}

// file is the path of the volume's data: for a raw volume its device node.
func (s *realVolume) file(at executor.StageRequest, name string) string {
	if !s.capability.Block {
		return filepath.Join(at.Path, name)
	}
	found, err := s.e.Inventory(s.t.Context())
	require.NoError(s.t, err)
	for _, item := range found.Items {
		if item.Kind == executor.KindDevice && item.Volume == at.Volume {
			return item.Path
		}
	}
	s.t.Fatalf("volume %s has no device", at.Volume)
	return ""
}

// unstage ends the use of the volume.
func (s *realVolume) unstage(at executor.StageRequest) {
	s.t.Helper()
	s.mustUnstage(at.Volume, at.Path)
	require.NoError(s.t, s.unpublishVolume(at.Volume))
}

func (s *realVolume) deleteAll(ids ...fsm.VolumeID) {
	s.t.Helper()
	for _, id := range ids {
		require.NoError(s.t, s.deleteVolume(id))
	}
	s.eventually(func() bool {
		for _, id := range ids {
			if _, known := s.volume(id); known {
				return false
			}
		}
		return true
	}, "the volumes are gone")
}

// writer writes blocks with rising numbers to a file, each synced, until it is stopped.
func (s *realVolume) writer(name string) (written *atomic.Int64, stop func()) {
	written, end, done := &atomic.Int64{}, make(chan struct{}), make(chan struct{})
	f, err := os.OpenFile(s.file(s.stage, name), os.O_RDWR|os.O_CREATE|os.O_SYNC, 0o600)
	require.NoError(s.t, err)
	go func() {
		defer close(done)
		defer f.Close()
		for i := int64(0); ; i++ {
			select {
			case <-end:
				return
			default:
			}
			if _, err := f.WriteAt(fmt.Appendf(nil, "%08d", i), i%1024*8); err != nil {
				s.t.Error(err)
				return
			}
			written.Store(i + 1)
		}
	}()
	return written, func() { close(end); <-done }
}

// kinds are the capabilities that a volume is tested with.
var kinds = map[string]fsm.Capability{
	"ext4": {Mode: writer, FSType: "ext4"},
	"xfs":  {Mode: writer, FSType: "xfs"},
	"raw":  {Mode: writer, Block: true},
}

// forEachPoolKind runs a test with every kind of volume, on pools that share blocks and that copy.
func forEachPoolKind(t *testing.T, test func(t *testing.T, s *realVolume)) {
	for kind, capability := range kinds {
		for pool, where := range map[string]func(testing.TB) string{
			"shared": reflinkDir, "copied": func(testing.TB) string { return "" },
		} {
			if capability.Block && pool == "copied" {
				continue // refused while it is published for writing (S19)
			}
			t.Run(kind+" "+pool, func(t *testing.T) {
				t.Parallel()
				test(t, newRealVolume(t, where(t), capability))
			})
		}
	}
}

func TestS19_RealSnapshotsAndClonesUnderAWriter(t *testing.T) {
	forEachPoolKind(t, func(t *testing.T, s *realVolume) {
		before, after := content("kept before the cut"), content("AFTER the cut, other")
		if !s.capability.Block {
			written, stop := s.writer("busy")
			s.eventually(func() bool { return written.Load() > 0 }, "it writes")
			defer func() { require.Positive(t, written.Load()) }()
			defer stop()
		}
		snapshot := s.takeSnapshot(s.id)
		s.put(s.stage, "kept", after)
		size := 2 * s.volumeSize()
		of := map[fsm.VolumeID][]byte{}
		ids := []fsm.VolumeID{backendtest.NewID(), backendtest.NewID()}
		for id, source := range map[fsm.VolumeID]fsm.Source{ids[0]: {Snapshot: snapshot}, ids[1]: {Volume: s.id}} {
			if of[id] = before; source.Volume != "" {
				of[id] = after
			}
			require.NoError(t, s.startClone(id, source, size, s.capability))
			s.eventually(func() bool { return s.isReady(id) }, "the clone is ready")
		}
		for _, id := range ids {
			at := s.stageAt(id, "clone-"+string(id)) // beside its source: no duplicate UUID
			require.Equal(t, of[id], s.get(at, "kept", len(of[id])))
			s.isAsLargeAs(at, size)
			defer s.deleteAll(id)
			defer s.unstage(at)
		}
		require.Equal(t, after, s.get(s.stage, "kept", len(after)))
		require.NoError(t, s.deleteSnapshot(snapshot))
		s.eventually(func() bool { return s.snapshot(snapshot).ID == "" }, "the snapshot is gone")
	})
}

func (s *realVolume) volumeSize() int64 {
	v, _ := s.volume(s.id)
	return v.Size
}

// isAsLargeAs: a filesystem has at least nine tenths of the size, a raw device all of it.
func (s *realVolume) isAsLargeAs(at executor.StageRequest, size int64) {
	s.t.Helper()
	if s.capability.Block {
		f, err := os.Open(s.file(at, ""))
		require.NoError(s.t, err)
		defer f.Close()
		end, err := f.Seek(0, 2)
		require.NoError(s.t, err)
		require.Equal(s.t, size, end)
		return
	}
	var st unix.Statfs_t
	require.NoError(s.t, unix.Statfs(at.Path, &st))
	require.Greater(s.t, int64(st.Blocks)*st.Bsize, size/4*3)
}

func TestRealVolumesExpand(t *testing.T) {
	forEachPoolKind(t, func(t *testing.T, s *realVolume) {
		size := 2 * s.volumeSize()
		w := &testHost{testCluster: s.testCluster}
		w.expandVolume(s.id, size)
		s.eventually(func() bool { return s.noOperation(s.id) }, "the device is grown")
		req := executor.ExpandRequest{Volume: s.id, Path: s.stage.Path, Size: size, Capability: s.capability}
		now, err := s.e.Expand(t.Context(), req)
		if reasonOf(err) == fsm.Precondition {
			require.Equal(t, "ext4", s.capability.FSType)
			require.ErrorContains(t, err, "CAP_SYS_RESOURCE")
			s.mustUnstage(s.id, s.stage.Path)
			s.mustStage(s.stage)
			now, err = s.e.Expand(t.Context(), req)
		}
		require.NoError(t, err)
		require.Equal(t, size, now)
		s.isAsLargeAs(s.stage, size)
		require.Equal(t, content("kept before the cut"), s.get(s.stage, "kept", len(content("kept before the cut"))))
	})
}

func TestS19_RealGroupsAreOfOneInstant(t *testing.T) {
	for kind, capability := range map[string]fsm.Capability{"ext4": kinds["ext4"], "xfs": kinds["xfs"]} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newRealVolume(t, reflinkDir(t), capability)
			other, at := s.volumeAt("other")
			for _, volume := range []executor.StageRequest{s.stage, at} {
				s.put(volume, "n", []byte("00000000"))
			}
			end, done := make(chan struct{}), make(chan struct{})
			go func() { // in this order, so that the second is never ahead
				defer close(done)
				for i := 1; ; i++ {
					select {
					case <-end:
						return
					default:
						s.put(s.stage, "n", fmt.Appendf(nil, "%08d", i))
						s.put(at, "n", fmt.Appendf(nil, "%08d", i))
					}
				}
			}()
			defer func() { close(end); <-done }()
			g := newGroup(s.id, other)
			require.NoError(t, s.tryGroup(g))
			s.eventually(func() bool { return s.groupSnapshot(g).Phase == fsm.GroupReady }, "the group is ready")
			var numbers []string
			for _, source := range []fsm.VolumeID{s.id, other} {
				id := backendtest.NewID()
				require.NoError(t, s.startClone(id, fsm.Source{Snapshot: g.members[source]}, 0, capability))
				s.eventually(func() bool { return s.isReady(id) }, "restored")
				clone := s.stageAt(id, "clone-"+string(id))
				defer s.unstage(clone)
				numbers = append(numbers, string(s.get(clone, "n", 8)))
			}
			var first, second int
			_, err := fmt.Sscanf(numbers[0]+numbers[1], "%8d%8d", &first, &second)
			require.NoError(t, err)
			require.Contains(t, []int{first, first - 1}, second, "of one instant: %v", numbers)
		})
	}
}
