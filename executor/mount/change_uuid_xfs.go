package mount

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// setXFSUUID runs xfs_db to write the UUID: it creates the log again, then writes the superblocks
// of all allocation groups, the first one first. xfs_db refuses a dirty log: then the kernel
// replays it. If an xfs_db was killed halfway, repairXFS completes the change.
func (m *Mounter) setXFSUUID(ctx context.Context, device string, want uuid.UUID) error {
	for _, clean := range []bool{true, false} {
		if err := m.repairXFS(ctx, device, want); err != nil {
			return err
		}
		if done, err := xfsHasUUID(device, want); done || err != nil {
			return err
		}
		if !clean {
			if err := withDetachedMount(device, "xfs", []fsSetting{{key: "nouuid"}}, func(*os.File) error { return nil }); err != nil {
				return err
			}
		}
		// Its exit code does not cover its commands, so the superblocks are read again.
		if err := m.xfsTool(ctx, "xfs_db", "-x", "-c", "uuid "+want.String(), device); err != nil && !clean {
			return err
		}
	}
	done, err := xfsHasUUID(device, want)
	if err == nil && !done {
		err = errors.New("xfs_db did not write the UUID")
	}
	return err
}

func (m *Mounter) xfsTool(ctx context.Context, tool string, args ...string) error {
	_, err := m.runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: growTimeout})
	return err
}

// repairXFS completes what a killed xfs_db started. Once the first superblock has the UUID, the
// log is created and the other superblocks become copies of the first, as the kernel makes them
// when it grows a filesystem. Before that, the partly written log contains nothing, since it was
// clean, and is discarded. Only xfs_db leaves such a log, and the filesystem is not mounted before
// this is done. repairXFS itself may be killed, too.
func (m *Mounter) repairXFS(ctx context.Context, device string, want uuid.UUID) error {
	ids, err := xfsUUIDs(device)
	switch {
	case err != nil:
		return err
	case ids[0] == want:
		return xfsCopyFirst(device, len(ids))
	case slices.Contains(ids, want):
		return nil // written in an unexpected order: xfs_db writes all of them again
	}
	if begun, err := xfsUUIDPartlyWritten(device, want); !begun || err != nil {
		return err
	}
	if err := xfsZeroLog(device); err != nil { // otherwise xfs_repair would take the UUID from the log
		return err
	}
	return m.xfsTool(ctx, "xfs_repair", "-L", device)
}

// xfsZeroLog zeroes the log from its start, so that a partly zeroed log is recognised as started.
func xfsZeroLog(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	head, zero := make([]byte, superblockLen), make([]byte, 1<<20)
	if _, err = f.ReadAt(head, 0); err != nil {
		return errors.Join(fmt.Errorf("read the superblock: %w", err), f.Close())
	}
	at := xfsLogStart(head)
	end := at + int64(binary.BigEndian.Uint32(head[xfsLogBlocksAt:]))*int64(binary.BigEndian.Uint32(head[xfsBlockAt:]))
	for ; at < end && err == nil; at += int64(len(zero)) {
		_, err = f.WriteAt(zero[:min(int64(len(zero)), end-at)], at)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// xfsCopyFirst copies the first superblock over those of all other groups.
func xfsCopyFirst(device string, groups int) error {
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	head := make([]byte, superblockLen)
	if _, err := f.ReadAt(head, 0); err != nil {
		return errors.Join(fmt.Errorf("read the superblock: %w", err), f.Close())
	}
	sector := head[:min(superblockLen, int(binary.BigEndian.Uint16(head[xfsSectorAt:])))]
	for n := 1; n < groups && err == nil; n++ {
		_, err = f.WriteAt(sector, int64(n)*xfsGroupLen(head))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func xfsGroupLen(head []byte) int64 {
	return int64(binary.BigEndian.Uint32(head[xfsGroupAt:])) * int64(binary.BigEndian.Uint32(head[xfsBlockAt:]))
}

// Offsets in bytes from the start of xfs's superblock and of a log record.
const (
	xfsLogAt       = 48
	xfsLogBlocksAt = 96
	xfsSectorAt    = 102
	xfsFeaturesAt  = 216
	xfsNeedsRepair = 0x10
	xfsGroupLogAt  = 124
	xfsLogUUIDAt   = 304
	xfsLogMagic    = 0xfeedbabe
	xfsLogBlockLen = 512
)

// xfsUUIDPartlyWritten reports whether xfs_db has started to create the log again: it zeroes all
// of it, then writes records with the UUID, from the start on. A log in use has neither. An
// xfs_repair that was killed leaves its own flag, with which nothing can be mounted.
func xfsUUIDPartlyWritten(device string, want uuid.UUID) (bool, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, block := make([]byte, superblockLen), make([]byte, xfsLogBlockLen)
	if _, err := f.ReadAt(head, 0); err != nil {
		return false, fmt.Errorf("read the superblock: %w", err)
	}
	if _, err := f.ReadAt(block, xfsLogStart(head)); err != nil {
		return false, fmt.Errorf("read the log: %w", err)
	}
	zero := bytes.Equal(block, make([]byte, xfsLogBlockLen))
	anew := binary.BigEndian.Uint32(block) == xfsLogMagic && uuid.UUID(block[xfsLogUUIDAt:xfsLogUUIDAt+16]) == want
	repairing := binary.BigEndian.Uint32(head[xfsFeaturesAt:])&xfsNeedsRepair != 0
	return zero || anew || repairing, nil
}

// xfsLogStart returns where the log begins, in bytes. The superblock stores it as a group and a
// block within that group.
func xfsLogStart(head []byte) int64 {
	at, bits := binary.BigEndian.Uint64(head[xfsLogAt:]), head[xfsGroupLogAt]&63
	group, block := at>>bits, at&(1<<bits-1)
	blocks := group*uint64(binary.BigEndian.Uint32(head[xfsGroupAt:])) + block
	return int64(blocks) * int64(binary.BigEndian.Uint32(head[xfsBlockAt:])) //nolint:gosec // below a device's size; else the read fails
}

// xfsHasUUID reports whether all superblocks have the UUID.
func xfsHasUUID(device string, want uuid.UUID) (bool, error) {
	ids, err := xfsUUIDs(device)
	return err == nil && !slices.ContainsFunc(ids, func(id uuid.UUID) bool { return id != want }), err
}

// xfsUUIDs returns the UUIDs of the superblocks of all groups.
func xfsUUIDs(device string) ([]uuid.UUID, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, superblockLen)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("read the superblock: %w", err)
	}
	if string(head[:4]) != xfsMagic {
		return nil, fsm.Reject(fsm.Precondition, "there is no xfs on %s", device)
	}
	var ids []uuid.UUID
	for n := range int64(binary.BigEndian.Uint32(head[xfsGroupsAt:])) {
		var id uuid.UUID
		if _, err := f.ReadAt(id[:], n*xfsGroupLen(head)+xfsUUIDAt); err != nil {
			return nil, fmt.Errorf("read the superblock of group %d: %w", n, err)
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("the xfs on %s has no group", device)
	}
	return ids, nil
}
