package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// sum256 is a multiset hash: the sum modulo 2^256 of the sha256 of each record.
// Adding and subtracting commute, so a write costs one sha256 and the hash of the
// whole state is always at hand.
//
// It finds members that diverged through a bug or a flipped bit (S23).
// Two different states then have equal sums with a probability of about 2^-256,
// as their difference is a sum of independent values of sha256. Against somebody
// who chooses the records it is weaker than sha256 of the whole (generalised
// birthday attacks); such a person holds a controller's key and needs no collision.
type sum256 [4]uint64

// sumOf is the contribution of one record.
func sumOf(record []byte) sum256 {
	digest := sha256.Sum256(record)
	return sumFromBytes(digest)
}

func sumFromBytes(b [32]byte) sum256 {
	return sum256{
		binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:]),
		binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]),
	}
}

func (a sum256) plus(b sum256) (r sum256) {
	var carry uint64
	r[0], carry = bits.Add64(a[0], b[0], 0)
	r[1], carry = bits.Add64(a[1], b[1], carry)
	r[2], carry = bits.Add64(a[2], b[2], carry)
	r[3], _ = bits.Add64(a[3], b[3], carry)
	return r
}

func (a sum256) minus(b sum256) (r sum256) {
	var borrow uint64
	r[0], borrow = bits.Sub64(a[0], b[0], 0)
	r[1], borrow = bits.Sub64(a[1], b[1], borrow)
	r[2], borrow = bits.Sub64(a[2], b[2], borrow)
	r[3], _ = bits.Sub64(a[3], b[3], borrow)
	return r
}

func (a sum256) bytes() (b [32]byte) {
	binary.LittleEndian.PutUint64(b[0:], a[0])
	binary.LittleEndian.PutUint64(b[8:], a[1])
	binary.LittleEndian.PutUint64(b[16:], a[2])
	binary.LittleEndian.PutUint64(b[24:], a[3])
	return b
}
