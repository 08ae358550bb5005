package fsm

import (
	"cmp"
	"encoding/binary"
)

// uuidLen is the length of a UUID as text.
const uuidLen = 36

// uuid is a UUID as two numbers, which compare as its text does.
type uuid struct{ hi, lo uint64 }

func (a uuid) before(b uuid) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a uuid) compare(b uuid) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

// parseUUID reads the canonical form, lower case; false for all else.
func parseUUID(text string) (id uuid, ok bool) {
	if len(text) != uuidLen || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return uuid{}, false
	}
	var bad byte
	digits := func(n uint64, from, to int) uint64 {
		for i := from; i < to; i++ {
			digit := hexDigits[text[i]]
			bad |= digit
			n = n<<4 | uint64(digit&15)
		}
		return n
	}
	id.hi = digits(digits(digits(0, 0, 8), 9, 13), 14, 18)
	id.lo = digits(digits(0, 19, 23), 24, 36)
	return id, bad&notDigit == 0
}

// notDigit marks a character that is not a lower case hexadecimal digit.
const notDigit = 0x80

// hexDigits are the values of the digits, by character.
var hexDigits = func() (table [256]byte) {
	for i := range table {
		table[i] = notDigit
	}
	for i, c := range []byte("0123456789abcdef") {
		table[c] = byte(i)
	}
	return table
}()

// text writes the canonical form.
func (a uuid) text() string {
	b := make([]byte, 0, uuidLen)
	for i, n := range a.packed() {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, "0123456789abcdef"[n>>4], "0123456789abcdef"[n&15])
	}
	return string(b)
}

// packed is the UUID in 16 bytes.
func (a uuid) packed() (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], a.hi)
	binary.BigEndian.PutUint64(b[8:], a.lo)
	return b
}

// unpackUUID reads what packed wrote; false when there are not 16 bytes.
func unpackUUID(b []byte) (uuid, bool) {
	if len(b) != 16 {
		return uuid{}, false
	}
	return uuid{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}, true
}
