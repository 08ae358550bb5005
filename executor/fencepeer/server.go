package fencepeer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DecideFunc has the log decide about a replica that lost its peer. It may block as long as the
// log has no quorum. An error is no verdict: the handler retries.
type DecideFunc func(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error)

// requestTimeout bounds how long a client may take to send its request.
const requestTimeout = 5 * time.Second

// Server responds to the handlers of this host.
type Server struct {
	listener *net.UnixListener
	decide   DecideFunc
	log      *slog.Logger
	peerUID  func(*net.UnixConn) (uint32, error)
}

// Listen creates the socket at path, DefaultSocket when empty, in a directory that only root may
// enter. The socket of an earlier process is replaced.
func Listen(path string, ask DecideFunc, log *slog.Logger) (*Server, error) {
	path = cmp.Or(path, DefaultSocket)
	dir := filepath.Dir(path)
	if err := makeRootOnlyFolder(dir); err != nil {
		return nil, fmt.Errorf("listen for the fence-peer handler: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen for the fence-peer handler: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the fence-peer handler: %w", err)
	}
	// The next process may have created its own socket there before this one is closed.
	listener.SetUnlinkOnClose(false)
	return &Server{listener: listener, decide: ask, log: log, peerUID: peerUID}, nil
}

// makeRootOnlyFolder creates a directory that only root may enter. An existing one is made so while it is empty, as kubelet makes
// it for a pod; one with files is not changed: others may use it too.
func makeRootOnlyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	switch {
	case int(st.Uid) != os.Geteuid(): // who may change its mode, and replace the socket
		return fmt.Errorf("the folder %s belongs to another user: run `chown root %s`, or choose another with --fence-socket", dir, dir)
	case st.Mode&0o077 == 0:
		return nil
	}
	return makeEmptyFolderPrivate(dir)
}

func makeEmptyFolderPrivate(dir string) error {
	inside, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(inside) > 0 {
		return fmt.Errorf("others may enter the folder %s, which is not empty: run `chmod 0700 %s`, or choose another with --fence-socket", dir, dir)
	}
	return os.Chmod(dir, 0o700)
}

// Serve responds until ctx ends, and then waits for the requests in progress, whose handlers will
// retry with the next process.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() }) // it ends Accept
	defer stop()
	var answering sync.WaitGroup
	defer answering.Wait()
	defer cancel()
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listen for the fence-peer handler: %w", err)
		case err != nil:
			s.log.Warn("cannot accept a connection of the kernel's fence-peer handler", "error", err)
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		answering.Go(func() { s.handle(ctx, conn) })
	}
}

// handle processes one request. The response to a disconnected handler is lost, which is safe:
// what the log recorded stays, and the node process watches the device itself.
func (s *Server) handle(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // it ends the read of the request
	defer stop()
	if err := checkPeer(conn, s.peerUID); err != nil {
		s.log.Warn("a fence-peer request was refused", "error", err)
		return
	}
	var q request
	if err := conn.SetReadDeadline(time.Now().Add(requestTimeout)); err != nil {
		return
	}
	if err := readLine(conn, &q); err != nil {
		s.log.Warn("a fence-peer request cannot be read", "error", err)
		return
	}
	go cancelOnHangup(conn, cancel)
	a := s.respond(ctx, q)
	if a.Exit != 0 {
		s.log.Info("the fence-peer request of the kernel is answered", "volume", q.Resource, "minor", q.Minor, "exit", a.Exit, "reason", a.Reason)
	}
	if err := writeLine(conn, a); err != nil {
		s.log.Warn("the fence-peer handler did not read its answer", "volume", q.Resource, "error", err)
	}
}

// cancelOnHangup cancels a request whose handler has disconnected: its response would be lost, and
// the node process must know that no handler waits for it.
func cancelOnHangup(conn *net.UnixConn, cancel context.CancelFunc) {
	defer cancel()
	if conn.SetReadDeadline(time.Time{}) == nil {
		_, _ = conn.Read(make([]byte, 1)) // a handler sends one request only
	}
}

func (s *Server) respond(ctx context.Context, q request) response {
	id := fsm.VolumeID(q.Resource)
	switch {
	case q.SelfTest:
		return response{Alive: true}
	case !id.Valid():
		return response{Exit: ExitRefused, Reason: fmt.Sprintf("%q is no volume", q.Resource)}
	}
	verdict, err := s.decide(ctx, id)
	if err != nil {
		s.log.Warn("there is no verdict about the volume's fence-peer request yet", "volume", id, "error", err)
		return response{Reason: err.Error()}
	}
	return response{Exit: exitCodes[verdict], Reason: verdict.String()}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
