package fsm

import "encoding/binary"

// uuidLen is the length of a UUID as text.
const uuidLen = 36

// uuid is a UUID as two numbers, which compare as its text does.
type uuid struct{ hi, lo uint64 }

func (a uuid) before(b uuid) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

// parseUUID reads the canonical form, lower case; false for all else.
func parseUUID(text string) (id uuid, ok bool) {
	if len(text) != uuidLen {
		return uuid{}, false
	}
	for i := range uuidLen {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return uuid{}, false
			}
			continue
		}
		digit := hexDigit(text[i])
		if digit > 15 {
			return uuid{}, false
		}
		id.hi, id.lo = id.hi<<4|id.lo>>60, id.lo<<4|digit
	}
	return id, true
}

// hexDigit is the value of a lower case digit, above 15 when it is none.
func hexDigit(c byte) uint64 {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0')
	case c >= 'a' && c <= 'f':
		return uint64(c-'a') + 10
	}
	return 16
}

// text writes the canonical form.
func (a uuid) text() string {
	const digits = "0123456789abcdef"
	var b [uuidLen]byte
	for i := uuidLen - 1; i >= 0; i-- {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			b[i] = '-'
			continue
		}
		b[i] = digits[a.lo&15]
		a.lo, a.hi = a.lo>>4|a.hi<<60, a.hi>>4
	}
	return string(b[:])
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
