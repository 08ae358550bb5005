package mount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// The extended attributes of a file's ACL, and of a directory's default ACL for new entries.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// The kinds of ACL entries.
const (
	aclOwner      = 0x01
	aclUser       = 0x02 // a named user
	aclGroup      = 0x04
	aclNamedGroup = 0x08
	aclMask       = 0x10 // limits all but the owner and others
	aclOther      = 0x20

	aclVersion   = 2
	aclNobody    = math.MaxUint32 // the id in entries without one
	aclEntrySize = 8
	maxACL       = 1 << 16
)

// acl is a POSIX ACL; nil: there is none.
type acl []aclEntry

type aclEntry struct {
	tag, bits uint16
	id        uint32
}

// groupOnlyACL is the default ACL of directories of a mount group: all rights for owner and group,
// as CSI requires, none for others.
var groupOnlyACL = acl{{aclOwner, 7, aclNobody}, {aclGroup, 7, aclNobody}, {aclOther, 0, aclNobody}}

// readACL returns nil when the file has no ACL. A filesystem without ACL support has no access
// ACL; for a default one it returns EOPNOTSUPP.
func readACL(path, name string) (acl, error) {
	buf := make([]byte, 256)
	n, err := unix.Getxattr(path, name, buf)
	if errors.Is(err, unix.ERANGE) {
		buf = make([]byte, maxACL)
		n, err = unix.Getxattr(path, name, buf)
	}
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP) && name == accessACL:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return parseACL(buf[:n])
}

func parseACL(text []byte) (acl, error) {
	if len(text) < 4 || binary.LittleEndian.Uint32(text) != aclVersion || len(text)%aclEntrySize != 4 {
		return nil, fmt.Errorf("an ACL has a form that is not known")
	}
	a := acl{}
	for rest := text[4:]; len(rest) > 0; rest = rest[aclEntrySize:] {
		a = append(a, aclEntry{binary.LittleEndian.Uint16(rest), binary.LittleEndian.Uint16(rest[2:]), binary.LittleEndian.Uint32(rest[4:])})
	}
	return a, nil
}

// write replaces the ACL by another, unless they are equal.
func (a acl) write(path, name string, to acl) error {
	if slices.Equal(a, to) {
		return nil
	}
	text := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range to {
		text = binary.LittleEndian.AppendUint16(text, e.tag)
		text = binary.LittleEndian.AppendUint16(text, e.bits)
		text = binary.LittleEndian.AppendUint32(text, e.id)
	}
	return unix.Setxattr(path, name, text, 0)
}

// isMinimal reports whether the ACL has no named entries, so that it says no more than a mode.
func (a acl) isMinimal() bool {
	return !slices.ContainsFunc(a, func(e aclEntry) bool {
		return e.tag == aclUser || e.tag == aclNamedGroup || e.tag == aclMask
	})
}

// withGroupBits returns the ACL with more rights for the owning group and for no other entry: the
// mask grows by the bits, so rights that it masked before are removed first.
func (a acl) withGroupBits(bits uint16) acl {
	mask := uint16(7)
	for _, e := range a {
		if e.tag == aclMask {
			mask = e.bits
		}
	}
	more := slices.Clone(a)
	for i := range more {
		switch e := &more[i]; e.tag {
		case aclUser, aclNamedGroup:
			e.bits &= mask
		case aclGroup:
			e.bits = e.bits&mask | bits
		case aclMask:
			e.bits |= bits
		}
	}
	return more
}
