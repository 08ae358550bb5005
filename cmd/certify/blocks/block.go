package blocks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// magic begins every block.
const magic = "holdfast-certify"

// The parts of a block: what it is, the run, the number, content, a checksum of all that.
const (
	runAt    = len(magic)
	numberAt = runAt + 16
	filledAt = numberAt + 8
	sumAt    = certify.BlockSize - sha256.Size
)

// encode is the block of a number. Numbers begin at one.
func encode(run certify.Run, number uint64) []byte {
	b := make([]byte, certify.BlockSize)
	copy(b, magic)
	copy(b[runAt:numberAt], run)
	binary.LittleEndian.PutUint64(b[numberAt:], number)
	content := rand.NewChaCha8(sha256.Sum256(b[:filledAt])) // no secret: the same again for who checks it
	_, _ = content.Read(b[filledAt:sumAt])                  // it never fails
	sum := sha256.Sum256(b[:sumAt])
	copy(b[sumAt:], sum[:])
	return b
}

// decode is the number of a block of the run. The error says what it is instead.
func decode(run certify.Run, b []byte) (uint64, error) {
	sum := sha256.Sum256(b[:sumAt])
	switch {
	case bytes.Count(b, []byte{0}) == len(b):
		return 0, errors.New("nothing was written there")
	case !bytes.Equal(sum[:], b[sumAt:]):
		return 0, errors.New("its checksum is wrong")
	case !bytes.HasPrefix(b, []byte(magic)) || certify.Run(b[runAt:numberAt]) != run:
		return 0, fmt.Errorf("another run wrote it: %q", b[runAt:numberAt])
	}
	return binary.LittleEndian.Uint64(b[numberAt:]), nil
}
