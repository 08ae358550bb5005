package controller

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
)

// A token is, in base64: a mark of its RPC, the cluster's incarnation, the uuid of
// the last volume told, and a checksum. It holds on every member, also when that
// volume is gone, until the state is restored from elsewhere (S1).
const (
	tokenMark = "lv1"
	tokenSize = len(tokenMark) + 8 + 16 + 4
	idPrefix  = "hf-"
)

var tokenText = base64.RawURLEncoding.Strict()

func token(last fsm.VolumeID, incarnation uint64) string {
	id, err := uuid.Parse(string(last)[len(idPrefix):])
	if err != nil {
		return "" // not reached: ids in the state are valid
	}
	raw := binary.BigEndian.AppendUint64([]byte(tokenMark), incarnation)
	raw = append(raw, id[:]...)
	return tokenText.EncodeToString(binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw)))
}

// parseToken is the volume to go on after. A token that is not of this list and
// incarnation is fsm.Busy (ABORTED): the caller begins again.
func parseToken(text string, incarnation uint64) (fsm.VolumeID, error) {
	if text == "" {
		return "", nil
	}
	raw, err := tokenText.DecodeString(text)
	if err != nil || len(raw) != tokenSize || string(raw[:len(tokenMark)]) != tokenMark {
		return "", invalidToken()
	}
	body, sum := raw[:tokenSize-4], binary.BigEndian.Uint32(raw[tokenSize-4:])
	if crc32.ChecksumIEEE(body) != sum || binary.BigEndian.Uint64(body[len(tokenMark):]) != incarnation {
		return "", invalidToken()
	}
	return fsm.VolumeID(idPrefix + uuid.UUID(body[len(tokenMark)+8:]).String()), nil
}

func invalidToken() error {
	return fsm.Reject(fsm.Busy, "starting_token is not valid: begin the list again")
}
