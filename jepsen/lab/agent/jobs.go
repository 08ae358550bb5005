package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab/wire"
)

// jobs are the programs that run in the background.
type jobs struct {
	mu     sync.Mutex
	byName map[string]*job
}

type job struct {
	pid  int
	done chan struct{}
	code int // once done is closed
}

func newJobs() *jobs { return &jobs{byName: map[string]*job{}} }

func (j *jobs) start(w http.ResponseWriter, r *http.Request) {
	var asked wire.Job
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		writeError(w, err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if old := j.byName[asked.Name]; old != nil && old.alive() {
		writeError(w, fmt.Errorf("%s runs already, as process %d", asked.Name, old.pid))
		return
	}
	started, err := startJob(asked)
	if err != nil {
		writeError(w, fmt.Errorf("start %s: %w", asked.Name, err))
		return
	}
	j.byName[asked.Name] = started
	fmt.Fprintln(w, started.pid)
}

func startJob(request wire.Job) (*job, error) {
	if len(request.Argv) == 0 {
		return nil, errors.New("no program is named")
	}
	cmd := exec.Command(request.Argv[0], request.Argv[1:]...)
	cmd.Env = append(os.Environ(), request.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = maxOutputTail
	out := logFile(request.Log)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	started := &job{pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		err := cmd.Wait()
		started.code = exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus))
		_, _ = fmt.Fprintf(out, "-- process %d ended with %d (%v)\n", started.pid, started.code, err)
		close(started.done)
	}()
	return started, nil
}

func (j *job) alive() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

func (j *jobs) named(w http.ResponseWriter, r *http.Request) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.byName[r.PathValue("name")]
	if found == nil {
		http.Error(w, "no job is called "+r.PathValue("name"), http.StatusNotFound)
	}
	return found
}

func (j *jobs) wait(w http.ResponseWriter, r *http.Request) {
	found := j.named(w, r)
	if found == nil {
		return
	}
	within, _ := time.ParseDuration(r.URL.Query().Get("within")) // without it the call does not wait
	select {
	case <-found.done:
		fmt.Fprintln(w, found.code)
		return
	default:
	}
	select {
	case <-found.done:
		fmt.Fprintln(w, found.code)
	case <-time.After(within):
		http.Error(w, "it runs", http.StatusRequestTimeout)
	case <-r.Context().Done():
	}
}

// signal signals the program itself, not its children.
func (j *jobs) signal(w http.ResponseWriter, r *http.Request) {
	found := j.named(w, r)
	if found == nil {
		return
	}
	number, err := strconv.Atoi(r.URL.Query().Get("number"))
	if err == nil && found.alive() {
		err = syscall.Kill(found.pid, syscall.Signal(number))
	}
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		writeError(w, err)
	}
}

// logFile opens and closes the file for each piece: the kernel of a guest writes a file of the host when
// it is closed, and what was written survives a crash of the guest.
type logFile string

func (l logFile) Write(b []byte) (int, error) {
	f, err := os.OpenFile(string(l), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	n, err := f.Write(b)
	return n, errors.Join(err, f.Close())
}

var _ io.Writer = logFile("")
