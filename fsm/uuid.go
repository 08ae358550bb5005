package fsm

import "encoding/hex"

// uuidLen is the length of a UUID as text.
const uuidLen = 36

// packUUID reads a UUID in its canonical form, lower case; false for all else.
func packUUID(text string) (id [16]byte, ok bool) {
	if len(text) != uuidLen || !VolumeID("hf-"+text).Valid() {
		return id, false
	}
	digits := make([]byte, 0, 32)
	for i := range uuidLen {
		if text[i] != '-' {
			digits = append(digits, text[i])
		}
	}
	_, err := hex.Decode(id[:], digits)
	return id, err == nil
}

// appendUUID writes the canonical form.
func appendUUID(to []byte, id [16]byte) []byte {
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, []byte{b})
	}
	return to
}
