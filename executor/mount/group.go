package mount

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// group is CSI's volume_mount_group; none is -1.
//
// ext4 and xfs have no group for all of a mount, so the filesystem's root is given
// to the group, with the bits by which its members may write there and by which
// what is made below belongs to the group as well. A default ACL makes new files
// writable for the group whatever the writer's umask is; folders hand both on.
// Files that are there already are left as they are: a volume may hold millions.
type group int64

const noGroup group = -1

func parseGroup(text string) (group, error) {
	if text == "" {
		return noGroup, nil
	}
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == math.MaxUint32 { // the last one means "as it is" to the kernel
		return noGroup, fsm.Reject(fsm.Invalid, "the volume mount group is not a group's number")
	}
	return group(id), nil
}

const (
	groupBits  = unix.S_ISGID | 0o070
	aclName    = "system.posix_acl_default"
	aclVersion = 2
	aclOwner   = 0x01 // ACL_USER_OBJ
	aclGroup   = 0x04 // ACL_GROUP_OBJ
	aclOther   = 0x20
	aclNobody  = math.MaxUint32 // the id of entries that have none
)

// own does it through a mount that is attached nowhere yet, so nobody sees it half done.
func (g group) own(tree int) error {
	if g == noGroup {
		return nil
	}
	fd, err := unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	root := os.NewFile(uintptr(fd), ".")
	defer root.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Gid != uint32(g) {
		if err := unix.Fchown(fd, -1, int(g)); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, st.Mode&0o7777|groupBits); err != nil {
		return err
	}
	err = unix.Fsetxattr(fd, aclName, defaultACL(st.Mode), 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil // the filesystem was made without ACLs: the umask decides
	}
	return err
}

// defaultACL is the mode of what is made below, before the writer's own mode is applied.
func defaultACL(mode uint32) []byte {
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct{ tag, bits uint16 }{{aclOwner, 7}, {aclGroup, 7}, {aclOther, uint16(mode & 7)}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.bits)
		acl = binary.LittleEndian.AppendUint32(acl, aclNobody)
	}
	return acl
}
