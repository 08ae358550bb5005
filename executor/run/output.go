package run

import (
	"strings"
	"sync"
)

// outputLimit is how many bytes of each stream are kept; the rest is read and dropped.
const outputLimit = 64 << 10

// lineLimit is how much of stderr goes into an error.
const lineLimit = 512

// bounded keeps the last outputLimit bytes written to it. It is read while a
// stuck child may still write.
type bounded struct {
	mu  sync.Mutex
	buf []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - outputLimit; over > 0 {
		b.buf = append(b.buf[:0:0], b.buf[over:]...)
	}
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]byte(nil), b.buf...)
}

// line is the end of the output in one line, fit for an error.
func (b *bounded) line() string {
	text := strings.Join(strings.Fields(string(b.bytes())), " ")
	if over := len(text) - lineLimit; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
	}
	return text
}
