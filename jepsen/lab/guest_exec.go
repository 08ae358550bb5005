package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab/wire"
)

const (
	// execTimeout bounds a script whose context has no deadline.
	execTimeout = 5 * time.Minute
	// answerTimeout is how long the answer to a killed script may take.
	answerTimeout = 15 * time.Second
)

// ErrStuck: a script was killed at its timeout, and one of its processes did not die, because it is blocked
// in the kernel, as by a suspended device.
var ErrStuck = errors.New("a process of the script cannot be killed")

// Exec runs a script with bash in the guest and returns its output (stdout and stderr) and its exit code:
// 128 and the signal's number when it was killed. It takes at most the context's deadline, or five minutes,
// and 15 seconds more: then it returns an error and the output until then. A script that has not finished in
// time is killed, with its process group.
func (g *Guest) Exec(ctx context.Context, script string) (out string, code int, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(execTimeout)
	}
	within := max(time.Until(deadline), time.Millisecond)
	ctx, cancel := withLaterDeadline(ctx, deadline.Add(answerTimeout))
	defer cancel()
	resp, err := g.call(ctx, http.MethodPost, "/exec?within="+within.String(), strings.NewReader(script))
	if err != nil {
		return "", -1, fmt.Errorf("run a script in %s: %w", g.Name(), err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	var said bytes.Buffer
	if _, err := io.Copy(&said, resp.Body); err != nil {
		return said.String(), -1, fmt.Errorf("run a script in %s: %w; it printed %q", g.Name(), err, said.String())
	}
	code, err = exitCode(resp.Trailer.Get(wire.Code))
	if err != nil {
		err = fmt.Errorf("run a script in %s: %w; it printed %q", g.Name(), err, said.String())
	}
	return said.String(), code, err
}

// withLaterDeadline returns the context with a later deadline; a cancellation still ends it.
func withLaterDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	more, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return more, func() { stop(); cancel() }
}

func exitCode(trailer string) (int, error) {
	switch trailer {
	case wire.Stuck:
		return -1, ErrStuck
	case wire.Late:
		return -1, context.DeadlineExceeded
	}
	code, err := strconv.Atoi(trailer)
	if err != nil {
		return -1, fmt.Errorf("the agent answers %q for an exit code", trailer)
	}
	return code, nil
}

// Put replaces a file of the guest as a whole, synced; missing directories are made with mode 0700.
func (g *Guest) Put(ctx context.Context, path string, content []byte, mode os.FileMode) error {
	query := url.Values{"path": {path}, "mode": {strconv.FormatUint(uint64(mode.Perm()), 8)}}
	resp, err := g.call(ctx, http.MethodPut, "/file?"+query.Encode(), bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("write %s of %s: %w", path, g.Name(), err)
	}
	return resp.Body.Close()
}

// Get reads a file of the guest. The error of one that does not exist is fs.ErrNotExist.
func (g *Guest) Get(ctx context.Context, path string) ([]byte, error) {
	resp, err := g.call(ctx, http.MethodGet, "/file?"+url.Values{"path": {path}}.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", path, g.Name(), err)
	}
	content, err := io.ReadAll(resp.Body)
	return content, errors.Join(err, resp.Body.Close())
}

func (g *Guest) post(ctx context.Context, path, body string) error {
	resp, err := g.call(ctx, http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// call asks the guest's agent. An answer other than OK is an error.
func (g *Guest) call(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	run := g.current()
	if run == nil {
		return nil, ErrDown
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.agentAddress()+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := run.conns.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return nil, errors.Join(&agentError{resp.StatusCode, strings.TrimSpace(string(said))}, err, resp.Body.Close())
}

// agentError is an answer of the agent that is not OK.
type agentError struct {
	code    int
	message string
}

func (r *agentError) Error() string { return r.message }

// Is makes what the guest does not have fs.ErrNotExist.
func (r *agentError) Is(target error) bool {
	return target == fs.ErrNotExist && r.code == http.StatusNotFound
}

func (g *Guest) agentAddress() string { return net.JoinHostPort(g.IP(Management), wire.Port) }

// awaitAgent retries until the agent answers, or the guest ends.
func (g *Guest) awaitAgent(ctx context.Context) error {
	for {
		run := g.current()
		if run == nil {
			return fmt.Errorf("%w: its kernel ended", ErrDown)
		}
		if g.ping(ctx) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("its agent does not answer: %w", ctx.Err())
		case <-run.ended:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (g *Guest) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := g.call(ctx, http.MethodGet, "/ping", nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
