package cli

import (
	"fmt"
	"io"
	"time"
)

// progress tells now and then how far long work is.
type progress struct {
	out   io.Writer
	what  string
	bytes int64
	next  time.Time
}

// progressInterval is how often long work is reported.
const progressInterval = 5 * time.Second

func newProgress(out io.Writer, what string) *progress {
	return &progress{out: out, what: what, next: time.Now().Add(progressInterval)}
}

// writer counts what is written to w.
func (p *progress) writer(w io.Writer) io.Writer { return progressWriter{p, w} }

type progressWriter struct {
	*progress
	w io.Writer
}

func (p progressWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.bytes += int64(n)
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressInterval)
		fmt.Fprintf(p.out, "%s: %d MiB\n", p.what, p.bytes>>20)
	}
	return n, err
}
