package lvm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// hangTimeout is how long a writer on a full pool may take to get an error, or to write some more:
// less than the minute for which the kernel queues writes by default.
const hangTimeout = 45 * time.Second

// fillData writes random blocks from an offset on, bypassing the page cache, until a write
// fails or it reaches the end. It returns how far it came.
func fillData(t *testing.T, path string, from, to int64) (at int64, err error) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	block, err := unix.Mmap(-1, 0, 256<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	_, err = rand.Read(block)
	require.NoError(t, err)
	done, goesOn := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		for at = from; at < to; at += int64(len(block)) {
			if _, err := f.WriteAt(block, at); err != nil {
				done <- err
				return
			}
			select {
			case goesOn <- struct{}{}:
			default: // nobody looked since the last block
			}
		}
		done <- nil
	}()
	for ended := false; !ended; {
		select {
		case err = <-done:
			ended = true
		case <-goesOn:
		case <-time.After(hangTimeout):
			t.Fatal("a writer on a full pool hangs")
		}
	}
	require.NoError(t, errors.Join(f.Close(), unix.Munmap(block)))
	return at, err
}

// syncWrite writes through the page cache, as most do, and syncs.
func syncWrite(t *testing.T, path string, at, length int64) error {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := f.WriteAt(make([]byte, length), at)
		done <- errors.Join(err, f.Sync(), f.Close())
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(hangTimeout):
		t.Fatal("a writer on a full pool hangs")
		return nil
	}
}

// requireNothingNew checks that nothing new is created in the pool, and that its facts say so.
func requireNothingNew(t *testing.T, p *Pool, source fsm.VolumeID) {
	t.Helper()
	id := backendtest.NewID()
	for range 2 {
		var rej *fsm.Rejection
		require.ErrorAs(t, p.Create(t.Context(), id, 16<<20), &rej)
		require.Equal(t, fsm.NoCapacity, rej.Reason, rej.Error())
		require.ErrorAs(t, p.TakeSnapshot(t.Context(), source, backendtest.NewSnapshotID(), nil), &rej)
		require.Equal(t, fsm.NoCapacity, rej.Reason, rej.Error())
		require.ErrorAs(t, p.CreateFrom(t.Context(), id, 256<<20, fsm.Source{Volume: source}, 0, nil), &rej)
		require.Equal(t, fsm.NoCapacity, rej.Reason, rej.Error())
	}
	facts := p.Facts(t.Context())
	require.False(t, facts.Absent)
	require.Zero(t, facts.Free)
	require.Positive(t, facts.Capacity)
	require.Contains(t, facts.Detail, "takes nothing new")
}

// checkMetadata takes the pool down, has its metadata checked, and brings it back.
func checkMetadata(t *testing.T, p *Pool, id fsm.VolumeID) {
	t.Helper()
	require.NoError(t, p.Deactivate(t.Context(), id))
	state, err := p.states.refresh(t.Context())
	require.NoError(t, err)
	for name := range state.volumes {
		command(t, "lvm", "lvchange", "-an", testVG+"/"+name)
	}
	command(t, "lvm", "lvchange", "-an", p.name())
	command(t, "lvm", "lvchange", "-qq", "-y", "-ay", p.name()+"_tmeta")
	command(t, "thin_check", "--clear-needs-check-flag", "/dev/mapper/"+dmName(testVG, p.ThinPool+"_tmeta"))
	command(t, "lvm", "lvchange", "-an", p.name()+"_tmeta")
	command(t, "lvm", "lvchange", "-ay", p.name())
	_, usage, err := p.poolDevice()
	require.NoError(t, err)
	require.False(t, usage.needsCheck)
}

// Scenario 9, the data: creates are refused in time, writers get errors and do not
// hang, the metadata is consistent, and writers continue when the pool grows.
func TestAPoolThatRunsFullOfData(t *testing.T) {
	p := newTestPool(t, "-L", "64M", "--poolmetadatasize", "4M")
	id, small := backendtest.NewID(), backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 256<<20))
	require.NoError(t, p.Create(t.Context(), small, 16<<20))
	d, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	_, err = fillData(t, d.Path, 0, 62<<20) // 96.9 %
	require.NoError(t, err)
	requireNothingNew(t, p, id)
	_, err = fillData(t, d.Path, 62<<20, 63<<20)
	require.NoError(t, err, "existing volumes have room left")

	began := time.Now()
	at, err := fillData(t, d.Path, 63<<20, 256<<20)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.EqualValues(t, 64<<20, at)
	require.Error(t, syncWrite(t, d.Path, 128<<20, 1<<20))
	t.Logf("the writers got their errors after %s", time.Since(began))
	require.NoError(t, syncWrite(t, d.Path, 0, 1<<20), "allocated blocks can be written to")
	requireNothingNew(t, p, id)
	require.NoError(t, p.Remove(t.Context(), small), "removing works on a full pool")

	command(t, "lvm", "lvextend", "-L", "+64M", p.name())
	require.NoError(t, syncWrite(t, d.Path, 100<<20, 1<<20), "at once after the pool grew")
	require.Positive(t, p.Facts(t.Context()).Free)
	require.NoError(t, p.Create(t.Context(), small, 16<<20))
	checkMetadata(t, p, id)
	d, err = p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, syncWrite(t, d.Path, 64<<20, 1<<20))
}

// sendPoolMessage sends the pool's target a message.
func sendPoolMessage(pool, message string) error {
	buf := make([]byte, dmBufferBytes)
	binary.NativeEndian.PutUint32(buf, 4)
	binary.NativeEndian.PutUint32(buf[dmDataSizeAt:], dmBufferBytes)
	binary.NativeEndian.PutUint32(buf[dmDataStartAt:], dmHeader)
	copy(buf[dmNameAt:], pool)
	copy(buf[dmHeader+8:], message) // struct dm_target_msg begins with the sector
	control, err := os.OpenFile(dmControl, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	const dmTargetMessage = 14
	code := uintptr(3)<<30 | uintptr(dmHeader)<<16 | uintptr(0xfd)<<8 | dmTargetMessage
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), code, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
		return fmt.Errorf("tell %s %q: %w", pool, message, errno)
	}
	return nil
}

// Scenario 9, the metadata. Each thin device takes a block of it.
func TestAPoolThatRunsFullOfMetadata(t *testing.T) {
	p := newTestPool(t, "-L", "128M", "--poolmetadatasize", "4M")
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 256<<20))
	d, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, syncWrite(t, d.Path, 0, 1<<20))
	pool, usage, err := p.poolDevice()
	require.NoError(t, err)
	next := uint64(1000)
	for ; usage.metadataPercent() <= 80; next++ {
		require.NoError(t, sendPoolMessage(pool, fmt.Sprintf("create_thin %d", next)))
		_, usage, err = p.poolDevice()
		require.NoError(t, err)
	}
	requireNothingNew(t, p, id)
	require.NoError(t, syncWrite(t, d.Path, 1<<20, 1<<20), "existing volumes have room left")

	for err == nil {
		err = sendPoolMessage(pool, fmt.Sprintf("create_thin %d", next))
		next++
	}
	t.Logf("at %d devices: %v", next-1000, err)
	began, written := time.Now(), int64(2<<20)
	for err = nil; err == nil && written < 120<<20; written += 1 << 20 {
		err = syncWrite(t, d.Path, written, 1<<20)
	}
	_, usage, uerr := p.poolDevice()
	require.NoError(t, uerr)
	t.Logf("after %s and %d bytes: %v; the pool is %+v", time.Since(began), written, err, usage)
	require.Error(t, err, "a writer that needs metadata gets an error")
	requireNothingNew(t, p, id)

	checkMetadata(t, p, id)
	command(t, "lvm", "lvextend", "--poolmetadatasize", "+8M", p.name())
	for unknown := uint64(1000); unknown < next; unknown++ {
		_ = sendPoolMessage(pool, fmt.Sprintf("delete %d", unknown)) // those that the last transaction made are gone
	}
	d, err = p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, syncWrite(t, d.Path, 100<<20, 1<<20))
	require.NoError(t, p.Create(t.Context(), backendtest.NewID(), 16<<20))
	checkMetadata(t, p, id)
}

// A filesystem's writer on a full pool gets an error too.
func TestAFilesystemOnAFullPoolGetsErrors(t *testing.T) {
	p := newTestPool(t, "-L", "64M", "--poolmetadatasize", "4M")
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 256<<20))
	d, err := p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	command(t, "mkfs.ext4", "-q", d.Path)
	at := t.TempDir()
	command(t, "mount", d.Path, at)
	defer func() { require.NoError(t, unix.Unmount(at, unix.MNT_DETACH)) }()
	done := make(chan error, 1)
	go func() { done <- writeFiles(at) }()
	select {
	case err := <-done:
		t.Logf("the filesystem's writer: %v", err)
		require.Error(t, err)
	case <-time.After(hangTimeout):
		t.Fatal("a filesystem's writer on a full pool hangs")
	}
	require.Equal(t, fsm.Busy, reason(p.Deactivate(context.WithoutCancel(t.Context()), id)))
}

// writeFiles writes and syncs files until a write fails.
func writeFiles(dir string) error {
	data := make([]byte, 1<<20)
	for n := range 200 {
		if _, err := rand.Read(data); err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func reason(err error) fsm.Reason {
	var rej *fsm.Rejection
	if errors.As(err, &rej) {
		return rej.Reason
	}
	return 0
}
