package lvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// diskVariable names a disk that these tests may overwrite. jepsen/lab sets it in a
// guest of its own; it is set nowhere else.
const diskVariable = "HOLDFAST_LVM_TEST_DISK"

const testVG = "hf-test"

var (
	makeGroup sync.Once
	pools     atomic.Int64
)

// needDisk makes the volume group on the disk, once for all tests.
func needDisk(t testing.TB) {
	t.Helper()
	disk := os.Getenv(diskVariable)
	if disk == "" {
		t.Skipf("thin pools need a kernel with device-mapper and a disk that may be overwritten: run `make lab`, which sets %s in a guest", diskVariable)
	}
	makeGroup.Do(func() {
		require.NoError(t, exec.Command("modprobe", "dm_thin_pool").Run())
		command(t, "lvm", "pvcreate", "-ff", "-y", disk)
		command(t, "lvm", "vgcreate", testVG, disk)
	})
}

// command runs a host command by hand, as an operator does.
func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, args, out)
	return string(out)
}

// makeThinPool makes a thin pool by hand and has it removed at the end.
func makeThinPool(t testing.TB, args ...string) Config {
	t.Helper()
	needDisk(t)
	cfg := Config{VG: testVG, ThinPool: fmt.Sprintf("pool-%d", pools.Add(1))}
	if len(args) == 0 {
		args = []string{"-L", "128M", "--poolmetadatasize", "4M"}
	}
	command(t, "lvm", append([]string{"lvcreate", "-qq", "-y", "--chunksize", "64k", "-T", testVG + "/" + cfg.ThinPool}, args...)...)
	t.Cleanup(func() { removePool(t, cfg) })
	return cfg
}

// removePool takes the pool down with all that is on and in it.
func removePool(t testing.TB, cfg Config) {
	p, err := newPool(context.Background(), cfg)
	require.NoError(t, err)
	state, err := p.states.refresh(context.Background())
	require.NoError(t, err)
	for name := range state.volumes {
		_ = exec.Command("dmsetup", "remove", dmName(testVG, name, layerSuffix)).Run()
	}
	command(t, "lvm", "lvremove", "-qq", "-ff", "-y", testVG+"/"+cfg.ThinPool)
}

// newTestPool is a pool of its own for a test.
func newTestPool(t testing.TB, args ...string) *Pool {
	t.Helper()
	cfg := makeThinPool(t, args...)
	_, err := Init(t.Context(), cfg)
	require.NoError(t, err)
	p, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	return p
}

// reopen is the pool as another process finds it.
func reopen(t testing.TB, p *Pool) *Pool {
	t.Helper()
	cfg := p.Config
	cfg.KnownID, cfg.Runner = p.ID(), run.New()
	again, err := Open(context.Background(), cfg)
	require.NoError(t, err)
	return again
}

func TestPoolPassesTheSuite(t *testing.T) {
	needDisk(t)
	shared := &sharedPool{pool: newTestPool(t)}
	backendtest.RunBackendSuite(t, func(t *testing.T) backendtest.Harness { return harness(t, shared.take(t)) })
}

func TestSnapshots(t *testing.T) {
	needDisk(t)
	shared := &sharedPool{pool: newTestPool(t)}
	backendtest.RunSnapshotSuite(t, func(t *testing.T) backendtest.SnapshotHarness { return snapshotHarness(t, shared.take(t)) })
}

// sharedPool is one pool for the tests of a suite: to make and remove one takes a guest as long as most of them take.
type sharedPool struct {
	pool   *Pool
	failed bool
}

// take is the pool as a new process finds it, empty. After a test that failed, each has a pool of its own: what that one left
// is not what the next is about.
func (s *sharedPool) take(t *testing.T) *Pool {
	t.Helper()
	if s.failed {
		return newTestPool(t)
	}
	t.Cleanup(func() {
		if s.failed = t.Failed(); !s.failed {
			emptyPool(t, s.pool)
		}
	})
	return reopen(t, s.pool)
}

// emptyPool removes all that is on and in a pool.
func emptyPool(t testing.TB, p *Pool) {
	t.Helper()
	state, err := p.states.refresh(context.Background())
	require.NoError(t, err)
	remove := []string{"lvremove", "-qq", "-ff", "-y"}
	for name := range state.volumes {
		_ = exec.Command("dmsetup", "remove", dmName(testVG, name, layerSuffix)).Run() // most have no device
		remove = append(remove, testVG+"/"+name)
	}
	if len(state.volumes) > 0 {
		command(t, "lvm", remove...)
	}
}

func harness(t *testing.T, p *Pool) backendtest.Harness {
	var before []string
	return backendtest.Harness{
		Backend: p,
		Reopen:  func() executor.Backend { return reopen(t, p) },
		InterruptCreate: func(t *testing.T, id fsm.VolumeID) {
			leaveUnfinished(t, p, string(id))
		},
		SetAbsent: func(t *testing.T, absent bool) {
			if absent {
				before = content(t, p)
			}
			setTag(t, p, !absent)
		},
		RequireUntouched: func(t *testing.T) { require.Equal(t, before, content(t, p)) },
	}
}

// leaveUnfinished leaves what a crash before the last step of a creation leaves.
func leaveUnfinished(t *testing.T, p *Pool, name string) {
	require.NoError(t, p.tools.runChange(t.Context(), changeTimeout, "lvcreate", "-T", p.name(), "-n", name, "-V", "16m", "-ky",
		"--addtag", tagOurs, "--addtag", sizeTag(16<<20)))
	p.states.invalidate()
}

func setTag(t *testing.T, p *Pool, present bool) {
	option := "--deltag"
	if present {
		option = "--addtag"
	}
	require.NoError(t, p.tools.runChange(t.Context(), changeTimeout, "lvchange", option, tagPool+string(p.ID()), p.name()))
	p.states.invalidate()
}

// content lists the pool's logical volumes.
func content(t *testing.T, p *Pool) []string {
	state, err := p.states.refresh(t.Context())
	require.NoError(t, err)
	return slices.Sorted(maps.Keys(state.volumes))
}

func snapshotHarness(t *testing.T, p *Pool) backendtest.SnapshotHarness {
	return backendtest.SnapshotHarness{
		Harness:         harness(t, p),
		Snapshots:       p,
		ReopenSnapshots: func() executor.SnapshotBackend { return reopen(t, p) },
		Write: func(t *testing.T, id fsm.VolumeID, at int64, data []byte) {
			f, err := os.OpenFile(activated(t, p, id).Path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(data, at)
			require.NoError(t, errors.Join(err, f.Close()))
		},
		Discard: func(t *testing.T, id fsm.VolumeID, at, length int64) {
			discard(t, activated(t, p, id).Path, at, length)
		},
		Read:              func(t *testing.T, id fsm.VolumeID) []byte { return read(t, p, id) },
		ReadSnapshot:      func(t *testing.T, id fsm.SnapshotID) []byte { return readSnapshot(t, p, id) },
		InterruptSnapshot: func(t *testing.T, id fsm.SnapshotID) { leaveUnfinished(t, p, string(id)) },
		InterruptRevert:   func(t *testing.T, id fsm.VolumeID) { leaveUnfinished(t, p, string(id)+revertedSuffix) },
	}
}

func activated(t *testing.T, p *Pool, id fsm.VolumeID) executor.Device {
	t.Helper()
	d, err := p.Observe(t.Context(), id)
	require.NoError(t, err)
	require.True(t, d.Active())
	return d
}

func discard(t *testing.T, path string, at, length int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	bounds := [2]uint64{uint64(at), uint64(length)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKDISCARD, uintptr(unsafe.Pointer(&bounds)))
	require.Zero(t, errno)
}

func read(t *testing.T, p *Pool, id fsm.VolumeID) []byte {
	t.Helper()
	d, err := p.Observe(t.Context(), id)
	require.NoError(t, err)
	if !d.Active() {
		d, err = p.Activate(t.Context(), id, true)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Deactivate(t.Context(), id)) }()
	}
	f, err := os.Open(d.Path)
	require.NoError(t, err)
	defer f.Close()
	all := make([]byte, d.Size)
	_, err = io.ReadFull(f, all)
	require.NoError(t, err)
	n, err := f.Read(make([]byte, 1))
	require.True(t, n == 0 && errors.Is(err, io.EOF), "the device is as large as the volume")
	return all
}

func readSnapshot(t *testing.T, p *Pool, id fsm.SnapshotID) []byte {
	t.Helper()
	device, err := p.ObserveSnapshot(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, p.activateLV(t.Context(), string(id)))
	d, err := p.kernel.device(dmName(p.VG, string(id)))
	require.NoError(t, err)
	f, err := os.Open(d.path())
	require.NoError(t, err)
	all := make([]byte, device.Size)
	_, err = io.ReadFull(f, all)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	command(t, "lvm", "lvchange", "-an", testVG+"/"+string(id))
	return all
}
