package controller

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
)

// list is one RPC's list. A token of it is, in base64: a mark of the RPC, the
// cluster's incarnation, the uuid of the last entry told, and a checksum. It holds
// on every member, also when that entry is gone, until the state is restored from
// elsewhere (S1).
type list struct{ mark, prefix string }

var (
	volumeList   = list{mark: "lv1", prefix: "hf-"}
	snapshotList = list{mark: "ls1", prefix: "hs-"}
)

const (
	markSize  = 3
	tokenSize = markSize + 8 + 16 + 4
)

var tokenText = base64.RawURLEncoding.Strict()

func (l list) token(last string, incarnation uint64) string {
	id, err := uuid.Parse(last[len(l.prefix):])
	if err != nil {
		return "" // not reached: ids in the state are valid
	}
	raw := binary.BigEndian.AppendUint64([]byte(l.mark), incarnation)
	raw = append(raw, id[:]...)
	return tokenText.EncodeToString(binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw)))
}

// parse is the id to go on after. A token that is not of this list and incarnation
// is fsm.Busy (ABORTED): the caller begins again.
func (l list) parse(text string, incarnation uint64) (string, error) {
	if text == "" {
		return "", nil
	}
	raw, err := tokenText.DecodeString(text)
	if err != nil || len(raw) != tokenSize || string(raw[:markSize]) != l.mark {
		return "", invalidToken()
	}
	body, sum := raw[:tokenSize-4], binary.BigEndian.Uint32(raw[tokenSize-4:])
	if crc32.ChecksumIEEE(body) != sum || binary.BigEndian.Uint64(body[markSize:]) != incarnation {
		return "", invalidToken()
	}
	return l.prefix + uuid.UUID(body[markSize+8:]).String(), nil
}

func invalidToken() error {
	return fsm.Reject(fsm.Busy, "starting_token is not valid: begin the list again")
}
