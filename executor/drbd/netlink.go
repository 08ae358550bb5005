package drbd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
)

// The generic netlink interface of DRBD 8.4: the names and numbers are those of
// linux/drbd_genl.h. DRBD 9 has others.
const (
	netlinkFamily = "drbd"
	getStatus     = 2   // DRBD_ADM_GET_STATUS
	noError       = 101 // NO_ERROR
	stateInfo     = 8   // DRBD_NLA_STATE_INFO
	stateUUIDs    = 7   // T_uuids: the current one comes first
	netlinkHeader = 8   // struct drbd_genlmsghdr: the minor, and flags or the return code
)

// askKernel asks the module of DRBD 8.4 for the identity of a minor's disk; nothing is
// found where it has none. To start drbdsetup takes a hundred times as long, and every
// look at a volume asks.
func askKernel(ctx context.Context, minor uint32) (identity, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return identity{}, err
	}
	defer func() { _ = conn.Close() }() // it was asked, and holds nothing back
	limit := time.Now().Add(lookTimeout)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(limit) {
		limit = deadline
	}
	if err := conn.SetDeadline(limit); err != nil {
		return identity{}, err
	}
	family, err := conn.GetFamily(netlinkFamily)
	if err != nil {
		return identity{}, err
	}
	header := make([]byte, netlinkHeader)
	binary.NativeEndian.PutUint32(header, minor)
	question := genetlink.Message{Header: genetlink.Header{Command: getStatus, Version: family.Version}, Data: header}
	replies, err := conn.Execute(question, family.ID, netlink.Request)
	if err != nil {
		return identity{}, err
	}
	if len(replies) != 1 {
		return identity{}, fmt.Errorf("it answered %d times", len(replies))
	}
	return parseStatus(minor, replies[0].Data)
}

// parseStatus reads the answer to getStatus.
func parseStatus(minor uint32, reply []byte) (identity, error) {
	if len(reply) < netlinkHeader || binary.NativeEndian.Uint32(reply) != minor {
		return identity{}, errors.New("the answer is not about it")
	}
	if code := binary.NativeEndian.Uint32(reply[4:]); code != noError {
		return identity{}, fmt.Errorf("it answered with code %d", code)
	}
	attributes, err := netlink.NewAttributeDecoder(reply[netlinkHeader:])
	if err != nil {
		return identity{}, err
	}
	var uuids []byte
	said := false
	for attributes.Next() {
		if attributes.Type() == stateInfo {
			said = true
			attributes.Nested(func(state *netlink.AttributeDecoder) error {
				for state.Next() {
					if state.Type() == stateUUIDs {
						uuids = state.Bytes()
					}
				}
				return nil
			})
		}
	}
	switch {
	case attributes.Err() != nil:
		return identity{}, attributes.Err()
	case !said:
		return identity{}, errors.New("the answer has no state")
	case len(uuids) == 0:
		return identity{}, nil // it has no disk
	case len(uuids) < 8:
		return identity{}, fmt.Errorf("the UUIDs have %d bytes", len(uuids))
	}
	return identityOf(binary.NativeEndian.Uint64(uuids)), nil
}
