package page

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Tokens are those of one RPC's list. A token of it is, in base64: a tag of the RPC, the
// cluster's incarnation, the uuid of the last entry returned, and a checksum. It is valid
// on every member, also when that entry is gone, until the cluster is restored from
// elsewhere (S1).
type Tokens struct {
	Tag      string // tagSize bytes, of this list only
	IDPrefix string
}

const (
	tagSize   = 3
	tokenSize = tagSize + 8 + 16 + 4
)

var tokenEncoding = base64.RawURLEncoding.Strict()

// Encode is the token of what follows an entry, by its id.
func (t Tokens) Encode(last string, incarnation uint64) string {
	id, err := uuid.Parse(last[len(t.IDPrefix):])
	if err != nil {
		return "" // not reached: ids in the state are valid
	}
	raw := binary.BigEndian.AppendUint64([]byte(t.Tag), incarnation)
	raw = append(raw, id[:]...)
	return tokenEncoding.EncodeToString(binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw)))
}

// Decode is the id after which the list continues. A token that is not of this list and
// incarnation is fsm.Busy (ABORTED): the caller begins the list again.
func (t Tokens) Decode(text string, incarnation uint64) (string, error) {
	if text == "" {
		return "", nil
	}
	raw, err := tokenEncoding.DecodeString(text)
	if err != nil || len(raw) != tokenSize || string(raw[:tagSize]) != t.Tag {
		return "", invalidToken()
	}
	body, sum := raw[:tokenSize-4], binary.BigEndian.Uint32(raw[tokenSize-4:])
	if crc32.ChecksumIEEE(body) != sum || binary.BigEndian.Uint64(body[tagSize:]) != incarnation {
		return "", invalidToken()
	}
	return t.IDPrefix + uuid.UUID(body[tagSize+8:]).String(), nil
}

func invalidToken() error {
	return fsm.Reject(fsm.Busy, "starting_token is not valid: begin the list again")
}
