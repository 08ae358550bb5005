package mount

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Constants of linux/ext4.h and fs/xfs/libxfs/xfs_fs.h that x/sys does not have.
const (
	ioctlExt4Resize  = 0x40086610 // EXT4_IOC_RESIZE_FS
	ioctlXFSGeometry = 0x80705864 // XFS_IOC_FSGEOMETRY_V1
	ioctlXFSGrow     = 0x4010586E // XFS_IOC_FSGROWFSDATA
)

// xfsGeom is struct xfs_fsop_geom_v1.
type xfsGeom struct {
	BlockSize, _, GroupBlocks, Groups, _, _, _, MaxPercent uint32
	DataBlocks                                             uint64
	_                                                      [3]uint64
	UUID                                                   [16]byte
	_                                                      [8]uint32
}

// xfsGrow is struct xfs_growfs_data.
type xfsGrow struct {
	Blocks     uint64
	MaxPercent uint32
	_          uint32
}

func xfsGeometry(root *os.File) (xfsGeom, error) {
	var g xfsGeom
	if err := ioctlStruct(root, ioctlXFSGeometry, &g); err != nil {
		return g, fmt.Errorf("read the geometry of xfs: %w", err)
	}
	if g.BlockSize == 0 || g.GroupBlocks == 0 {
		return g, fmt.Errorf("read the geometry of xfs: it has no block size")
	}
	return g, nil
}

// Where the superblocks store their sizes.
const (
	extBlocksAt   = extSuperblock + 0x04
	extLogSizeAt  = extSuperblock + 0x18
	extBlocksHiAt = extSuperblock + 0x150
	extStateAt    = extSuperblock + 0x3A
	extErrorsAt   = extSuperblock + 0x194
	extHasErrors  = 0x2
	ext64Bit      = 0x80
	xfsBlockAt    = 4
	xfsBlocksAt   = 8
	xfsGroupAt    = 84
	xfsGroupsAt   = 88
	superblockLen = 4096
)

// fsSize is what an ext4's superblock says of its size.
type fsSize struct {
	blockBytes, blocks int64
	// growthInterrupted: the state is "with errors", but no error is counted. resize2fs sets that
	// state while it works; the kernel counts the errors for which it sets it.
	growthInterrupted bool
	// superblockTorn: resize2fs was killed while it wrote the superblock, which it does word by
	// word. A mounted filesystem's superblock is never torn: the kernel changes its copy before it
	// computes the checksum.
	superblockTorn bool
}

// growthUnfinished reports whether a growth was killed.
func (s fsSize) growthUnfinished() bool { return s.growthInterrupted || s.superblockTorn }

func (s fsSize) bytes() int64 { return s.blockBytes * s.blocks }

// fillsDevice reports whether the device has no complete block beyond the filesystem.
func (s fsSize) fillsDevice(device string) bool {
	size, err := devicePathSize(device)
	return err == nil && size-s.bytes() < s.blockBytes
}

// FilesystemSize returns the filesystem's size in bytes: from the superblock, or from the kernel
// where an xfs is mounted, since its superblock on disk is not current then. An ext4 whose growth
// was killed may state its new size before it has it, so it is reported as one block smaller.
func (m *Mounter) FilesystemSize(ctx context.Context, device executor.Device, fsType string) (int64, error) {
	switch fsType {
	case "ext4":
		return m.extBytes(ctx, device)
	case "xfs":
		return m.xfsBytes(ctx, device)
	}
	return 0, fsm.Reject(fsm.Invalid, "the filesystem %q is not one of ext4 and xfs", fsType)
}

func (m *Mounter) extBytes(ctx context.Context, device executor.Device) (int64, error) {
	size, err := extSize(device.Path)
	if err != nil {
		return 0, err
	}
	if size.superblockTorn {
		mounts, err := m.Mounts(ctx, device)
		if err != nil {
			return 0, err
		}
		size.superblockTorn = len(mounts) == 0
	}
	if size.growthUnfinished() {
		size.blocks--
	}
	return size.bytes(), nil
}

func (m *Mounter) xfsBytes(ctx context.Context, device executor.Device) (int64, error) {
	mounts, err := m.Mounts(ctx, device)
	if err != nil {
		return 0, err
	}
	for _, at := range mounts {
		if size, ok := mountedXFS(at, device); ok {
			return size, nil
		}
	}
	head, err := superblockOf(device.Path)
	if err != nil {
		return 0, err
	}
	if string(head[:4]) != xfsMagic {
		return 0, fsm.Reject(fsm.Precondition, "there is no xfs on %s", device.Path)
	}
	return int64(binary.BigEndian.Uint32(head[xfsBlockAt:])) * int64(binary.BigEndian.Uint64(head[xfsBlocksAt:])), nil
}

// mountedXFS queries the kernel; false when another filesystem is mounted at the path by now.
func mountedXFS(at executor.Mount, device executor.Device) (int64, bool) {
	if at.DeviceNode {
		return 0, false
	}
	f, err := os.OpenFile(at.Path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Dev != device.Number {
		return 0, false
	}
	g, err := xfsGeometry(f)
	return int64(g.BlockSize) * int64(g.DataBlocks), err == nil
}

func extSize(device string) (fsSize, error) {
	head, err := superblockOf(device)
	if err != nil {
		return fsSize{}, err
	}
	logSize := binary.LittleEndian.Uint32(head[extLogSizeAt:])
	if binary.LittleEndian.Uint16(head[extMagicAt:]) != extMagic || logSize > 6 {
		return fsSize{}, fsm.Reject(fsm.Precondition, "there is no ext4 on %s", device)
	}
	blocks := int64(binary.LittleEndian.Uint32(head[extBlocksAt:]))
	if binary.LittleEndian.Uint32(head[extIncompatAt:])&ext64Bit != 0 {
		blocks |= int64(binary.LittleEndian.Uint32(head[extBlocksHiAt:])) << 32
	}
	errors := binary.LittleEndian.Uint16(head[extStateAt:])&extHasErrors != 0
	counted := binary.LittleEndian.Uint32(head[extErrorsAt:]) != 0
	return fsSize{blockBytes: 1024 << logSize, blocks: blocks, growthInterrupted: errors && !counted, superblockTorn: isTornByGrowth(device, head)}, nil
}

func superblockOf(device string) ([]byte, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("read the superblock of %s: %w", device, err)
	}
	defer f.Close()
	head := make([]byte, superblockLen)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("read the superblock of %s: %w", device, err)
	}
	return head, nil
}
