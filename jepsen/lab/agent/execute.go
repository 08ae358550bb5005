package main

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab/wire"
)

const (
	// killTimeout is how long a killed script may take to exit.
	killTimeout = 5 * time.Second
	// maxOutputTail is how long a program's output may take to be read after its exit, when one of its
	// children holds the output open. A guest may be stalled for a second at times.
	maxOutputTail = 2 * time.Second
)

// execute runs a script and streams its output. The script is killed with its process group at its
// timeout or when the caller disconnects; the answer never waits for a process that cannot be killed.
func execute(w http.ResponseWriter, r *http.Request) {
	script, err := io.ReadAll(r.Body)
	if err != nil {
		writeError(w, err)
		return
	}
	within, err := time.ParseDuration(r.URL.Query().Get("within"))
	if err != nil {
		writeError(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	w.Header().Set("Trailer", wire.Code)
	w.WriteHeader(http.StatusOK)
	out := &flushWriter{w: w}
	code := make(chan string, 1)
	go func() { code <- bash(ctx, string(script), out) }()
	answer := wire.Stuck
	select {
	case answer = <-code:
	case <-delayedDone(ctx, killTimeout):
	}
	out.close()
	w.Header().Set(wire.Code, answer)
}

// delayedDone returns a channel that is closed some time after the context ended.
func delayedDone(ctx context.Context, more time.Duration) <-chan struct{} {
	late := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(more, func() { close(late) }) })
	return late
}

func bash(ctx context.Context, script string, out io.Writer) string {
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = maxOutputTail // a child that holds the output open must not delay the answer
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	switch {
	case cmd.ProcessState == nil:
		_, _ = io.WriteString(out, err.Error())
		return "127"
	case ctx.Err() != nil:
		return wire.Late
	}
	return strconv.Itoa(exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)))
}

// exitCode returns the shell's exit code: 128 and the signal's number for a killed process.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// flushWriter sends each piece at once, until it is closed.
type flushWriter struct {
	mu sync.Mutex
	w  http.ResponseWriter
}

func (f *flushWriter) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.w == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := f.w.Write(b)
	if flusher, ok := f.w.(http.Flusher); ok {
		flusher.Flush()
	}
	return n, err
}

func (f *flushWriter) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.w = nil
}
