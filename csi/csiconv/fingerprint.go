package csiconv

import (
	"crypto/sha256"
	"encoding/hex"
)

// Fingerprint represents values that must be compared but not kept. Equal lists have
// equal ones; it is hex, so that it may travel in text and bytes alike.
func Fingerprint(values ...string) string {
	sum := sha256.New()
	for _, value := range values {
		part := sha256.Sum256([]byte(value)) // so that boundaries between values count
		sum.Write(part[:])
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
