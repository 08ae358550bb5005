package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestS12_AThinPoolIsAdoptedOnceAndIsAbsentWithoutItsTag(t *testing.T) {
	cfg := makeThinPool(t)
	_, err := Open(t.Context(), cfg)
	require.ErrorContains(t, err, "was it ever made a pool")
	id, err := Init(t.Context(), cfg)
	require.NoError(t, err)
	again, err := Init(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, id, again, "asked twice")

	cfg.KnownID = newID()
	other, err := Open(t.Context(), cfg)
	require.NoError(t, err, "a pool that the host has recorded may be absent")
	require.Contains(t, other.Facts(t.Context()).Detail, "it is pool "+string(id))
	require.ErrorContains(t, other.Create(t.Context(), backendtest.NewID(), 16<<20), "it is pool")

	cfg.KnownID, cfg.VG = id, "no-such-group"
	gone, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, gone.Facts(t.Context()).Detail, "there is no volume group no-such-group")
	d, err := gone.Observe(t.Context(), backendtest.NewID())
	require.NoError(t, err)
	require.Equal(t, executor.Device{Absent: true}, d)
	_, err = Init(t.Context(), cfg)
	require.ErrorContains(t, err, "vgcreate")
}

func TestS12_APoolThatDoesNotZeroTakesNoNewVolumes(t *testing.T) {
	cfg := makeThinPool(t, "-L", "32M", "--poolmetadatasize", "4M", "--zero", "n")
	_, err := Init(t.Context(), cfg)
	require.ErrorContains(t, err, "lvchange --zero y")
	command(t, "lvm", "lvchange", "--zero", "y", testVG+"/"+cfg.ThinPool)
	_, err = Init(t.Context(), cfg)
	require.NoError(t, err)
	p, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	source := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), source, 16<<20))
	state, err := p.states.refresh(t.Context())
	require.NoError(t, err)
	require.True(t, state.errorWhenFull, "it fails when it is full from the first use on")
	for setting, way := range map[string][2]string{"--zero": {"n", "y"}, "--errorwhenfull": {"n", "y"}} {
		command(t, "lvm", "lvchange", setting, way[0], p.name())
		require.Equal(t, fsm.Precondition, reason(p.Create(t.Context(), backendtest.NewID(), 16<<20)), setting)
		require.Equal(t, fsm.Precondition, reason(p.TakeSnapshot(t.Context(), source, backendtest.NewSnapshotID(), nil)), setting)
		command(t, "lvm", "lvchange", setting, way[1], p.name())
		require.NoError(t, p.Create(t.Context(), backendtest.NewID(), 16<<20))
	}
}

func TestAMissingThinPoolIsMade(t *testing.T) {
	needDisk(t)
	cfg := Config{VG: testVG, ThinPool: "made"}
	unmade, err := newPool(t.Context(), cfg)
	require.NoError(t, err)
	before, _, err := unmade.tools.groupFree(t.Context(), cfg.VG)
	require.NoError(t, err)
	id, err := Init(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { removePool(t, cfg) })
	p, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, id, p.ID())
	facts := p.Facts(t.Context())
	require.False(t, facts.Absent)
	require.Greater(t, facts.Capacity, before/100*85)
	require.Less(t, facts.Capacity, before/100*90)
	require.Equal(t, facts.Capacity, facts.Free)
	require.NoError(t, p.Create(t.Context(), backendtest.NewID(), 16<<20))
}

func TestAVolumeIsExactlyAsLargeAsAsked(t *testing.T) {
	p := newTestPool(t)
	id, clone, snapshot := backendtest.NewID(), backendtest.NewID(), backendtest.NewSnapshotID()
	size := int64(5<<20 + 4096)
	require.NoError(t, p.Create(t.Context(), id, size))
	_, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.Len(t, read(t, p, id), int(size))
	for _, grown := range []int64{5<<20 + 8192, 9<<20 + 512} {
		require.NoError(t, p.Expand(t.Context(), id, grown))
		require.Len(t, read(t, p, id), int(grown), "while it is attached")
	}
	require.NoError(t, p.TakeSnapshot(t.Context(), id, snapshot, nil))
	require.NoError(t, p.CreateFrom(t.Context(), clone, 17<<20+512, fsm.Source{Snapshot: snapshot}, 0, nil))
	require.Len(t, read(t, p, clone), 17<<20+512)
	require.Equal(t, fsm.Invalid, reason(p.Create(t.Context(), backendtest.NewID(), 1000)))
}

// A copy of a replica's device does not inherit DRBD's metadata, whether the pool passes discards
// on or ignores them. In the short form it ignores them, as one whose device has none: the suite's pools pass them on.
func TestACopyReadsZeroBehindTheSourcesContent(t *testing.T) {
	for _, discards := range []string{"passdown", "ignore"} {
		if testing.Short() && discards == "passdown" {
			continue
		}
		t.Run(discards, func(t *testing.T) {
			cfg := makeThinPool(t, "-L", "128M", "--poolmetadatasize", "4M", "--discards", discards)
			_, err := Init(t.Context(), cfg)
			require.NoError(t, err)
			p, err := Open(t.Context(), cfg)
			require.NoError(t, err)
			const size = 8<<20 + 4096
			id, clone, snapshot := backendtest.NewID(), backendtest.NewID(), backendtest.NewSnapshotID()
			require.NoError(t, p.Create(t.Context(), id, size+36<<10+4096))
			d, err := p.Activate(t.Context(), id, false)
			require.NoError(t, err)
			overwrite(t, d.Path, int(d.Size))
			require.NoError(t, p.TakeSnapshot(t.Context(), id, snapshot, nil))
			want := read(t, p, id)
			require.NoError(t, p.CreateFrom(t.Context(), clone, size, fsm.Source{Snapshot: snapshot}, size, nil))
			require.Equal(t, fsm.OutOfRange, reason(p.CreateFrom(t.Context(), backendtest.NewID(), size-4096, fsm.Source{Snapshot: snapshot}, size, nil)))
			again := reopen(t, p)
			require.True(t, bytes.Equal(want[:size], read(t, again, clone)))
			require.NoError(t, again.Expand(t.Context(), clone, 16<<20))
			grown := read(t, again, clone)
			require.True(t, bytes.Equal(append(want[:size:size], make([]byte, 16<<20-size)...), grown))
			require.True(t, bytes.Equal(want, readSnapshot(t, p, snapshot)), "the snapshot is not changed")
		})
	}
}

// overwrite leaves no byte of a device zero. It is done by this process: when that is
// killed, nobody has the device open any more.
func overwrite(t *testing.T, path string, size int) {
	t.Helper()
	overwriteWith(t, path, 0xa5, size)
}

func overwriteWith(t *testing.T, path string, with byte, size int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{with}, size), 0)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
}

// A process that was killed between the steps of a growth is finished by the next.
func TestAnInterruptedGrowthIsFinished(t *testing.T) {
	p := newTestPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 8<<20))
	_, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, p.volumes.extend(t.Context(), string(id), 16<<20))
	require.Len(t, read(t, p, id), 8<<20, "its tag says what it is")
	require.NoError(t, p.Expand(t.Context(), id, 16<<20))
	require.Len(t, read(t, p, id), 16<<20)
	require.NoError(t, p.runChange(t.Context(), "lvchange", "--deltag", sizeTag(16<<20), "--addtag", sizeTag(12<<20), testVG+"/"+string(id)))
	require.NoError(t, p.runChange(t.Context(), "lvchange", "--deltag", sizeTag(12<<20), "--addtag", sizeTag(16<<20), testVG+"/"+string(id)))
	require.NoError(t, p.Deactivate(t.Context(), id))
	_, err = p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.Len(t, read(t, p, id), 16<<20)
}

// LVM opens a thin device that it lost as if it were new, with the old data.
func TestAThinDeviceThatLVMLostIsNotTakenForANewVolume(t *testing.T) {
	p := newTestPool(t)
	first, id := backendtest.NewID(), backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), first, 16<<20))
	makeOrphan(t, p, 2)
	for range 2 {
		err := p.Create(t.Context(), id, 16<<20) // this process found no orphans before
		require.ErrorIs(t, err, errOrphan)
		d, err := p.Observe(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, executor.Device{Unfinished: true}, d, "it is no volume")
		require.ErrorIs(t, p.Remove(t.Context(), id), errOrphan, "and it is not removed: its data may be needed")
	}
	command(t, "lvm", "lvremove", "-f", "-y", testVG+"/"+string(id)) // an operator looked

	makeOrphan(t, p, 2)
	p = reopen(t, p)
	for range 2 {
		require.ErrorContains(t, p.Create(t.Context(), id, 16<<20), "devices 2;")
		require.ErrorContains(t, p.TakeSnapshot(t.Context(), first, backendtest.NewSnapshotID(), nil), "devices 2;")
		d, err := p.Observe(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, executor.Device{}, d, "nothing was made")
	}
	pool, _, err := p.poolDevice()
	require.NoError(t, err)
	command(t, "dmsetup", "message", pool, "0", "delete 2")
	require.NoError(t, p.Create(t.Context(), id, 16<<20))
}

// makeOrphan makes a thin device that LVM does not know, with data.
func makeOrphan(t *testing.T, p *Pool, id int) {
	t.Helper()
	pool, _, err := p.poolDevice()
	require.NoError(t, err)
	command(t, "dmsetup", "message", pool, "0", fmt.Sprintf("create_thin %d", id))
	command(t, "dmsetup", "create", "--noudevrules", "--noudevsync", "orphan", "--table", fmt.Sprintf("0 32768 thin /dev/mapper/%s %d", pool, id))
	command(t, "dd", "if=/dev/urandom", "of=/dev/mapper/orphan", "bs=64k", "count=3", "conv=fsync")
	command(t, "dmsetup", "remove", "--noudevrules", "--noudevsync", "orphan")
}

func TestOthersVolumesAreNotTouched(t *testing.T) {
	p := newTestPool(t)
	id := backendtest.NewID()
	command(t, "lvm", "lvcreate", "-qq", "-y", "-V", "16m", "-T", p.name(), "-n", string(id)) // ours by name only
	command(t, "lvm", "lvcreate", "-qq", "-y", "-V", "16m", "-T", p.name(), "-n", "theirs")
	p.states.invalidate()
	for range 2 {
		_, err := p.Observe(t.Context(), id)
		require.Equal(t, fsm.Precondition, reason(err))
		require.Equal(t, fsm.Precondition, reason(p.Create(t.Context(), id, 16<<20)))
		require.Equal(t, fsm.Precondition, reason(p.Remove(t.Context(), id)))
		_, err = p.Activate(t.Context(), id, false)
		require.Equal(t, fsm.Precondition, reason(err))
	}
	items, err := p.Inventory(t.Context())
	require.NoError(t, err)
	require.Empty(t, items)
	require.Equal(t, []string{string(id), "theirs"}, content(t, p))
	require.NoError(t, p.Create(t.Context(), backendtest.NewID(), 16<<20), "they are no orphans")
}

// What an earlier process left: a reserved metadata snapshot, a suspended device.
func TestRecoveryAfterAKilledProcess(t *testing.T) {
	p := newTestPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 16<<20))
	d, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	pool, _, err := p.poolDevice()
	require.NoError(t, err)
	command(t, "dmsetup", "message", pool, "0", "reserve_metadata_snap")
	command(t, "dmsetup", "suspend", "--noudevsync", dmName(testVG, string(id)))
	p = reopen(t, p)
	_, usage, err := p.poolDevice()
	require.NoError(t, err)
	require.False(t, usage.metadataSnapHeld)
	require.NoError(t, syncWrite(t, d.Path, 0, 1<<20))

	snapshot := backendtest.NewSnapshotID()
	require.NoError(t, p.TakeSnapshot(t.Context(), id, snapshot, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), ctx} {
		_ = p.Map(ctx, snapshot, 0, func(executor.Extent) bool { return false })
		require.Eventually(t, func() bool {
			_, usage, err := p.poolDevice()
			return err == nil && !usage.metadataSnapHeld
		}, time.Minute, 10*time.Millisecond, "always released")
	}
	command(t, "dmsetup", "message", pool, "0", "reserve_metadata_snap")
	p.maps.runs = newMapRunCache()
	require.ErrorContains(t, p.Map(t.Context(), snapshot, 0, nil), "somebody else has reserved")
	command(t, "dmsetup", "message", pool, "0", "release_metadata_snap")
}

// A boot activates what LVM knows, and puts nothing on top of it (S2).
func TestS2_AnActiveVolumeIsNotAttached(t *testing.T) {
	p := newTestPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 16<<20))
	command(t, "lvm", "lvchange", "-an", testVG+"/"+string(id))
	command(t, "lvm", "vgchange", "-ay", testVG)
	require.Error(t, exec.Command("dmsetup", "status", dmName(testVG, string(id))).Run(), "it is skipped at boot")
	require.NoError(t, p.activateLV(t.Context(), string(id)))
	d, err := p.Observe(t.Context(), id)
	require.NoError(t, err)
	require.True(t, d.Exists)
	require.False(t, d.Active())
	require.NoError(t, p.Remove(t.Context(), id))
}

func TestAnOperatorsCommandsLeaveTheDeviceOnTop(t *testing.T) {
	p := newTestPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 16<<20))
	want, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	for _, args := range [][]string{
		{"vgchange", "-ay", testVG}, {"lvchange", "--refresh", p.name()}, {"lvchange", "--refresh", testVG + "/" + string(id)},
		{"lvextend", "-L", "+8M", p.name()}, {"lvcreate", "-y", "-s", "-n", "by-hand", testVG + "/" + string(id)}, {"vgck", testVG},
	} {
		command(t, "lvm", args...)
		d, err := p.Observe(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, d, args)
	}
	for _, args := range [][]string{{"lvchange", "-an", testVG + "/" + string(id)}, {"lvremove", "-f", "-y", testVG + "/" + string(id)}, {"vgchange", "-an", testVG}} {
		require.Error(t, exec.Command("lvm", args...).Run(), args)
		require.NoError(t, syncWrite(t, want.Path, 0, 1<<20), args)
	}
	require.NoError(t, p.Deactivate(t.Context(), id))
}

// A volume's content is hostile: a volume group on it must not become the host's.
func TestAGuestsVolumeGroupIsNotScanned(t *testing.T) {
	p := newTestPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 64<<20))
	open := `devices/global_filter=["a|.*|"] devices/scan_lvs=1`
	command(t, "lvm", "vgcreate", "--config", open, "guest", "/dev/mapper/"+dmName(testVG, string(id)))
	for _, attached := range []bool{false, true} {
		if attached {
			_, err := p.Activate(t.Context(), id, false)
			require.NoError(t, err)
		}
		require.Contains(t, command(t, "lvm", "vgs", "--config", open), "guest", "a command without our settings finds it")
		require.NotContains(t, command(t, "lvm", "vgs", "--config", p.tools.config), "guest", "our commands do not scan it")
		require.NotContains(t, command(t, "lvm", "vgs", "--config", `devices/global_filter=["a|.*|"]`), "guest", "nor do the host's")
		require.NotContains(t, command(t, "lvm", "vgs", "--config", p.tools.config+" devices/scan_lvs=1"), "guest", "nor would ours if they scanned volumes")
	}
	require.NoError(t, p.Deactivate(t.Context(), id))
	require.NoError(t, p.Remove(t.Context(), id))
}

// What is cached of a volume that was just created is what LVM reports of it.
func TestCachedStateOfANewVolumeMatchesLVM(t *testing.T) {
	p := newTestPool(t)
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 5<<20+4096))
	known, err := p.recentState(t.Context())
	require.NoError(t, err)
	asked, err := p.states.refresh(t.Context())
	require.NoError(t, err)
	mine, lvms := known.volumes[string(id)], asked.volumes[string(id)]
	require.Equal(t, lvms.size, mine.size)
	require.ElementsMatch(t, lvms.tags, mine.tags)
	require.Equal(t, layerUUID(asked.groupUUID, lvms.uuid), layerUUID(known.groupUUID, mine.uuid))
}

// killedVariable is set for a process of the next test that works until it is killed.
const killedVariable = "HOLDFAST_LVM_TEST_VICTIM"

// S14, S19: whatever step the process was killed in, each volume is afterwards ready or marked
// unfinished, and the next process continues. The short form kills one process: those that die at each command of a list are
// the tests of reverts and of shrinking.
func TestAProcessKilledAtAnyMomentLeavesNothingHalfDone(t *testing.T) {
	if victim := os.Getenv(killedVariable); victim != "" {
		work(t, victim)
		return
	}
	p := newTestPool(t)
	id, clone, snapshot := backendtest.NewID(), backendtest.NewID(), backendtest.NewSnapshotID()
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		victim := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
		victim.Env = append(os.Environ(), killedVariable+"="+strings.Join([]string{p.ThinPool, string(id), string(clone), string(snapshot)}, " "))
		require.NoError(t, victim.Start())
		time.Sleep(time.Second + time.Duration(round)*900*time.Millisecond) // when it is killed, not for what
		require.NoError(t, victim.Process.Kill())
		_ = victim.Wait()
		next := reopen(t, p)
		require.NoError(t, next.Create(t.Context(), id, 16<<20))
		d, err := next.Activate(t.Context(), id, false)
		require.NoError(t, err)
		overwrite(t, d.Path, 16<<20)
		require.NoError(t, next.TakeSnapshot(t.Context(), id, snapshot, nil))
		require.NoError(t, next.CreateFrom(t.Context(), clone, 32<<20, fsm.Source{Snapshot: snapshot}, 12<<20, nil))
		require.True(t, bytes.Equal(make([]byte, 20<<20), read(t, next, clone)[12<<20:]), "recreated, or completed")
		for _, volume := range []fsm.VolumeID{id, clone} {
			require.NoError(t, next.Deactivate(t.Context(), volume))
			require.NoError(t, next.Remove(t.Context(), volume))
		}
		require.NoError(t, next.RemoveSnapshot(t.Context(), snapshot))
		require.Empty(t, content(t, next))
	}
}

// work makes and removes until it is killed.
func work(t *testing.T, victim string) {
	names := strings.Fields(victim)
	p, err := Open(t.Context(), Config{VG: testVG, ThinPool: names[0]})
	require.NoError(t, err)
	id, clone, snapshot := fsm.VolumeID(names[1]), fsm.VolumeID(names[2]), fsm.SnapshotID(names[3])
	for {
		require.NoError(t, p.Create(t.Context(), id, 16<<20))
		d, err := p.Activate(t.Context(), id, false)
		require.NoError(t, err)
		overwrite(t, d.Path, 16<<20)
		require.NoError(t, p.TakeSnapshot(t.Context(), id, snapshot, nil))
		require.NoError(t, p.CreateFrom(t.Context(), clone, 32<<20, fsm.Source{Snapshot: snapshot}, 12<<20, nil))
		require.NoError(t, p.Deactivate(t.Context(), id))
		require.NoError(t, p.Remove(t.Context(), clone))
		require.NoError(t, p.RemoveSnapshot(t.Context(), snapshot))
		require.NoError(t, p.Remove(t.Context(), id))
	}
}
