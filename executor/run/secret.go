package run

import (
	"fmt"
	"io"
	"strings"
)

// Secret is text that nothing prints: every verb of fmt, and JSON, show a stand-in.
type Secret []byte

const standIn = "[secret]"

// leastHidden is the length of a piece of a secret that is not shown either.
const leastHidden = 4

// Format implements fmt.Formatter.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, standIn) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(standIn), nil }

// hide is the text, or a stand-in for all of it when a piece of the secret is in it.
func (s Secret) hide(text string) string {
	if len(s) == 0 {
		return text
	}
	size := min(leastHidden, len(s))
	for i := 0; i+size <= len(s); i++ {
		if strings.Contains(text, string(s[i:i+size])) {
			return standIn
		}
	}
	return text
}
