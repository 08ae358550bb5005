package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// listenControl opens the supervisor's own socket. DIR's lock is held, so an existing socket was left
// by a dead supervisor.
func listenControl(l layout) (net.Listener, error) {
	if err := os.Remove(l.controlSocket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("replace the supervisor's socket: %w", err)
	}
	listener, err := net.Listen("unix", l.controlSocket())
	if err != nil {
		return nil, fmt.Errorf("listen on the supervisor's socket: %w", err)
	}
	return listener, os.Chmod(l.controlSocket(), 0o600)
}

// serveControl serves requests of one line each, `start ID`, until the listener is closed.
func (s *supervisor) serveControl(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		go s.handleConn(conn)
	}
}

func (s *supervisor) handleConn(conn net.Conn) {
	defer func() { _ = conn.Close() }() // the answer was sent
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	line, err := bufio.NewReader(conn).ReadString('\n')
	id, isStart := strings.CutPrefix(strings.TrimSpace(line), "start ")
	if err != nil || !isStart {
		return
	}
	answer := "ok"
	if err := s.requestStart(id); err != nil {
		answer = "no " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	_, _ = fmt.Fprintln(conn, answer) // the client may have disconnected
}

func (s *supervisor) requestStart(id string) error {
	r := request{id: id, answer: make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.answer
	case <-s.ended:
		return errors.New("the cluster is stopping")
	}
}

// StartOne has the running supervisor of a DIR start one child again.
func StartOne(ctx context.Context, dir, id string) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", l.controlSocket())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return exit.Unavailablef("start %s: no `holdfast dev` runs in %s; start it first", id, l.dir)
	}
	if err != nil {
		return exit.Unavailablef("start %s: reach the supervisor of %s: %w", id, l.dir, err)
	}
	defer func() { _ = conn.Close() }() // the answer was read
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintf(conn, "start %s\n", id); err != nil {
		return exit.Unavailablef("start %s: ask the supervisor of %s: %w", id, l.dir, err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return exit.Unavailablef("start %s: the supervisor of %s did not answer: %w", id, l.dir, err)
	}
	if refusal, no := strings.CutPrefix(strings.TrimSpace(answer), "no "); no {
		return exit.Refusedf("start %s: %s", id, refusal)
	}
	return nil
}
