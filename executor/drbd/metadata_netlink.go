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
	netlinkFamilyName = "drbd"
	cmdGetStatus      = 2   // DRBD_ADM_GET_STATUS
	retNoError        = 101 // NO_ERROR
	attrStateInfo     = 8   // DRBD_NLA_STATE_INFO
	attrUUIDs         = 7   // T_uuids: the current one comes first, then the bitmap's
	netlinkHeader     = 8   // struct drbd_genlmsghdr: the minor, and flags or the return code
)

// queryMetadataByNetlink reads the identity of a minor's disk from the module of DRBD 8.4; nothing
// is found when the minor has no disk. Starting drbdsetup for that takes a hundred times as long,
// and every observation of a volume needs it.
func queryMetadataByNetlink(ctx context.Context, minor uint32) (diskMetadata, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return diskMetadata{}, err
	}
	defer func() { _ = conn.Close() }() // the reply was read; nothing is lost by a failed close
	until := time.Now().Add(queryTimeout)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(until) {
		until = deadline
	}
	if err := conn.SetDeadline(until); err != nil {
		return diskMetadata{}, err
	}
	family, err := conn.GetFamily(netlinkFamilyName)
	if err != nil {
		return diskMetadata{}, err
	}
	header := make([]byte, netlinkHeader)
	binary.NativeEndian.PutUint32(header, minor)
	request := genetlink.Message{Header: genetlink.Header{Command: cmdGetStatus, Version: family.Version}, Data: header}
	replies, err := conn.Execute(request, family.ID, netlink.Request)
	if err != nil {
		return diskMetadata{}, err
	}
	if len(replies) != 1 {
		return diskMetadata{}, fmt.Errorf("it answered %d times", len(replies))
	}
	return parseStatus(minor, replies[0].Data)
}

// parseStatus reads the reply to cmdGetStatus.
func parseStatus(minor uint32, reply []byte) (diskMetadata, error) {
	if len(reply) < netlinkHeader || binary.NativeEndian.Uint32(reply) != minor {
		return diskMetadata{}, errors.New("the answer is not about it")
	}
	if code := binary.NativeEndian.Uint32(reply[4:]); code != retNoError {
		return diskMetadata{}, fmt.Errorf("it answered with code %d", code)
	}
	attributes, err := netlink.NewAttributeDecoder(reply[netlinkHeader:])
	if err != nil {
		return diskMetadata{}, err
	}
	var uuids []byte
	hasState := false
	for attributes.Next() {
		if attributes.Type() == attrStateInfo {
			hasState = true
			attributes.Nested(func(state *netlink.AttributeDecoder) error {
				for state.Next() {
					if state.Type() == attrUUIDs {
						uuids = state.Bytes()
					}
				}
				return nil
			})
		}
	}
	switch {
	case attributes.Err() != nil:
		return diskMetadata{}, attributes.Err()
	case !hasState:
		return diskMetadata{}, errors.New("the answer has no state")
	case len(uuids) == 0:
		return diskMetadata{}, nil // it has no disk
	case len(uuids) < 16:
		return diskMetadata{}, fmt.Errorf("the UUIDs have %d bytes", len(uuids))
	}
	return metadataFromUUIDs(binary.NativeEndian.Uint64(uuids), binary.NativeEndian.Uint64(uuids[8:])), nil
}
