package run

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxOutputBytes is how many bytes of each stream are kept: the last ones; the rest is discarded.
const maxOutputBytes = 64 << 10

// maxErrorBytes is how much of stderr goes into an error.
const maxErrorBytes = 512

// tailBuffer keeps the last maxOutputBytes bytes written to it. It is read while a
// stuck child may still write.
type tailBuffer struct {
	mu  sync.Mutex
	buf []byte
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - maxOutputBytes; over > 0 {
		b.buf = append(b.buf[:0:0], b.buf[over:]...)
	}
	return len(p), nil
}

func (b *tailBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]byte(nil), b.buf...)
}

// lastLine returns the end of the output as one line of valid UTF-8, for an error: a tool may
// write any bytes, and records in the log must be UTF-8.
func (b *tailBuffer) lastLine() string {
	text := strings.Join(strings.Fields(string(b.bytes())), " ")
	if over := len(text) - maxErrorBytes; over > 0 {
		text = text[over:]
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:] // the rest of a truncated character
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// outputFile is an output stream of a child that may outlive this process. A pipe would break with
// its reader, and SIGPIPE would kill the child at its next write.
type outputFile struct {
	file   *os.File
	buffer io.Writer
}

// openOutputFiles lets the child write to files in memory; if that fails, to pipes.
func (c *child) openOutputFiles() {
	for _, stream := range []*io.Writer{&c.cmd.Stdout, &c.cmd.Stderr} {
		fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
		if err != nil {
			return
		}
		k := outputFile{file: os.NewFile(uintptr(fd), "output"), buffer: *stream}
		*stream = k.file
		c.files = append(c.files, k)
	}
}

// readOutputFiles reads what the child wrote, once it has exited.
func (c *child) readOutputFiles() {
	for _, k := range c.files {
		_, _ = io.Copy(k.buffer, io.NewSectionReader(k.file, 0, 1<<62)) // best effort: the output is for errors
		k.file.Close()
	}
	c.files = nil
}
