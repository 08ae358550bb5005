package mount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// The extended attributes that hold a file's ACL, and a folder's for what is made in it.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// The kinds of entries.
const (
	aclOwner      = 0x01
	aclUser       = 0x02 // one that is named
	aclGroup      = 0x04
	aclNamedGroup = 0x08
	aclMask       = 0x10 // bounds all but the owner and others
	aclOther      = 0x20

	aclVersion   = 2
	aclNobody    = math.MaxUint32 // the id of entries that have none
	aclEntrySize = 8
	maxACL       = 1 << 16
)

// acl is a POSIX ACL; nil: there is none.
type acl []aclEntry

type aclEntry struct {
	tag, bits uint16
	id        uint32
}

// groupOnlyACL is for what is made in a group's folders: as the text wants it for the
// group, and for others nothing.
var groupOnlyACL = acl{{aclOwner, 7, aclNobody}, {aclGroup, 7, aclNobody}, {aclOther, 0, aclNobody}}

// readACL is nil where the file has none. A filesystem without ACLs has no access
// ACL; asked for a default one, it says EOPNOTSUPP.
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

// write sets the ACL to another, when it is one.
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

// isMinimal tells whether it names nobody: such a one says no more than a mode.
func (a acl) isMinimal() bool {
	return !slices.ContainsFunc(a, func(e aclEntry) bool {
		return e.tag == aclUser || e.tag == aclNamedGroup || e.tag == aclMask
	})
}

// withGroupBits is the ACL with more for the owning group and nothing more for anybody
// else: the mask grows by the bits, so what it held down is taken away first.
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
