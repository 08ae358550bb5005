package mount

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ChangeUUID writes the UUID into an unmounted filesystem that has another. It may be repeated
// after a crash at any moment; a filesystem that has the UUID is left alone. xfs refuses to mount
// two filesystems with the same UUID; ext4 does not, but a lookup by UUID would find two.
func (m *Mounter) ChangeUUID(ctx context.Context, device executor.Device, format executor.Filesystem) error {
	want, err := uuid.Parse(format.UUID)
	if err != nil {
		return fsm.Reject(fsm.Invalid, "%q is not a filesystem's UUID", format.UUID)
	}
	if used, err := inUse(device.Path); err != nil {
		return err
	} else if used {
		return fsm.Reject(fsm.Busy, "%s is in use, so its filesystem keeps its identity", device.Path)
	}
	switch format.Type {
	case "ext4":
		err = m.setExt4UUID(ctx, device.Path, want)
	case "xfs":
		err = m.setXFSUUID(ctx, device.Path, want)
	default:
		return fsm.Reject(fsm.Invalid, "the filesystem %q is not one of ext4 and xfs", format.Type)
	}
	if err != nil {
		return fmt.Errorf("give the filesystem on %s an identity of its own: %w", device.Path, err)
	}
	return nil
}

// setExt4UUID first makes the checksums independent of the UUID: then the UUID is in the
// superblock alone, whereas tune2fs would rewrite every checksum of the filesystem and leave it
// broken if it is killed. The journal is replayed by the kernel.
func (m *Mounter) setExt4UUID(ctx context.Context, device string, want uuid.UUID) error {
	current, err := extIdentity(device)
	if err != nil || current.id == want {
		return err
	}
	if current.dirty {
		if err := withDetachedMount(device, "ext4", nil, func(*os.File) error { return nil }); err != nil {
			return err
		}
	}
	if current.checksums && !current.hasChecksumSeed {
		if err := m.tune(ctx, "-O", "metadata_csum_seed", device); err != nil {
			return err
		}
	}
	if err := m.tune(ctx, "-U", want.String(), device); err != nil {
		return err
	}
	if current, err = extIdentity(device); err == nil && current.id != want {
		err = fmt.Errorf("tune2fs left the UUID %s", current.id)
	}
	return err
}

func (m *Mounter) tune(ctx context.Context, args ...string) error {
	_, err := m.runner.Run(ctx, run.Command{Tool: "tune2fs", Args: args, Timeout: growTimeout})
	return err
}

// Features of ext4's superblock.
const (
	extROCompatAt    = extSuperblock + 0x64
	extNeedsRecovery = 0x4
	extChecksumSeed  = 0x2000
	extChecksums     = 0x400
)

type extState struct {
	id                                uuid.UUID
	dirty, checksums, hasChecksumSeed bool
}

func extIdentity(device string) (extState, error) {
	head, err := superblockOf(device)
	if err != nil {
		return extState{}, err
	}
	if detectFilesystem(head).Type != "ext4" {
		return extState{}, fsm.Reject(fsm.Precondition, "there is no ext4 on %s", device)
	}
	incompat := binary.LittleEndian.Uint32(head[extIncompatAt:])
	return extState{
		id:              uuid.UUID(head[extUUIDAt : extUUIDAt+16]),
		dirty:           incompat&extNeedsRecovery != 0,
		hasChecksumSeed: incompat&extChecksumSeed != 0,
		checksums:       binary.LittleEndian.Uint32(head[extROCompatAt:])&extChecksums != 0,
	}, nil
}
