package run

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxOutputBytes is how many bytes of each stream are kept; the rest is read and dropped.
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

// lastLine is the end of the output in one line, fit for an error: what a tool writes need
// not be UTF-8, and what goes into the log must be.
func (b *tailBuffer) lastLine() string {
	text := strings.Join(strings.Fields(string(b.bytes())), " ")
	if over := len(text) - maxErrorBytes; over > 0 {
		text = text[over:]
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:] // the rest of a character that was cut
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// outputFile is a stream of a child that may outlive this process. A pipe would end with its
// reader, and the child with the first word that it says then.
type outputFile struct {
	file   *os.File
	buffer io.Writer
}

// openOutputFiles gives the child files in memory to write to. Without them it has pipes.
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

// readOutputFiles reads what the child wrote, when it has ended.
func (c *child) readOutputFiles() {
	for _, k := range c.files {
		_, _ = io.Copy(k.buffer, io.NewSectionReader(k.file, 0, 1<<62)) // output is for errors
		k.file.Close()
	}
	c.files = nil
}
