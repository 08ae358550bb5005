package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab/wire"
)

// Job is a program in a guest that runs in the background. It ends with the guest.
type Job struct {
	Name  string
	PID   int
	guest *Guest
}

// Start starts a program in the guest under a name, which no other running one has there.
// Its output is appended to /lab/log/<name>.log.
func (g *Guest) Start(ctx context.Context, name string, env []string, argv ...string) (*Job, error) {
	asked, err := json.Marshal(wire.Job{Name: name, Argv: argv, Env: env, Log: "/lab/log/" + name + ".log"})
	if err != nil {
		return nil, err
	}
	resp, err := g.call(ctx, http.MethodPost, "/jobs", bytes.NewReader(asked))
	if err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", name, g.Name(), err)
	}
	pid, err := parseNumber(resp)
	return &Job{Name: name, PID: pid, guest: g}, err
}

// parseNumber reads an answer that is a number.
func parseNumber(resp *http.Response) (int, error) {
	said, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(said)))
}

// Wait waits for the program's end and answers its exit code: 128 and the signal's number
// when it was killed. It waits as long as the context, or five minutes.
func (j *Job) Wait(ctx context.Context) (int, error) {
	within := execTimeout
	if deadline, ok := ctx.Deadline(); ok {
		within = time.Until(deadline)
	}
	code, err := j.poll(ctx, within)
	if err != nil {
		return -1, fmt.Errorf("wait for %s in %s: %w", j.Name, j.guest.Name(), err)
	}
	return code, nil
}

func (j *Job) poll(ctx context.Context, within time.Duration) (int, error) {
	resp, err := j.guest.call(ctx, http.MethodGet, "/jobs/"+j.Name+"?within="+within.String(), nil)
	if err != nil {
		return 0, err
	}
	return parseNumber(resp)
}

// Running reports whether the program runs, as far as the guest answers.
func (j *Job) Running(ctx context.Context) bool {
	_, err := j.poll(ctx, 0)
	var said *agentError
	return errors.As(err, &said) && said.code == http.StatusRequestTimeout
}

// Signal signals the program, and not what it started. One that ended is left in peace.
func (j *Job) Signal(ctx context.Context, sig syscall.Signal) error {
	if err := j.guest.post(ctx, fmt.Sprintf("/jobs/%s/signal?number=%d", j.Name, sig), ""); err != nil {
		return fmt.Errorf("signal %s in %s: %w", j.Name, j.guest.Name(), err)
	}
	return nil
}

// Kill kills the program.
func (j *Job) Kill(ctx context.Context) error { return j.Signal(ctx, syscall.SIGKILL) }

// Log is what all programs of this name printed in this guest, also in earlier boots.
func (j *Job) Log() string { return j.guest.Log(j.Name) }

// Log is what all programs of a name printed in the guest, also in earlier boots.
func (g *Guest) Log(name string) string {
	text, err := os.ReadFile(filepath.Join(g.Shared(), "log", name+".log"))
	if err != nil {
		return ""
	}
	return string(text)
}
