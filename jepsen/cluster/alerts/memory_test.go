package alerts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// flip turns a bit of each place at which a process has a text in the memory that it writes, and returns how many there were.
func flip(pid int, text string) (flipped int, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var access string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); err != nil || access != "rw-p" {
			continue
		}
		n, err := flipIn(mem, from, to, []byte(text))
		if err != nil {
			return flipped, fmt.Errorf("flip bits in %s: %w", strings.TrimSpace(line), err)
		}
		flipped += n
	}
	return flipped, nil
}

func flipIn(mem *os.File, from, to int64, text []byte) (flipped int, err error) {
	content, err := io.ReadAll(io.NewSectionReader(mem, from, to-from))
	if err != nil {
		return 0, err
	}
	for at := 0; ; at++ {
		next := bytes.Index(content[at:], text)
		if next < 0 {
			return flipped, err
		}
		at += next
		_, writeErr := mem.WriteAt([]byte{text[0] ^ 1}, from+int64(at))
		err, flipped = errors.Join(err, writeErr), flipped+1
	}
}
