package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Socket listens on a unix socket. It rejects callers that are neither root nor this process's
// user, in case the socket's mode is ever loosened.
type Socket struct {
	net.Listener
	path  string
	file  os.FileInfo // of the socket; its inode is not given to another file while this is open
	close func() error
}

// newSocket takes over a listener that was just bound to the path.
func newSocket(listener net.Listener, path string) (*Socket, error) {
	bound, isUnix := listener.(*net.UnixListener)
	if !isUnix {
		return nil, errors.Join(fmt.Errorf("%s is bound to no unix socket", path), listener.Close())
	}
	bound.SetUnlinkOnClose(false) // by then the path may be another process's
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at the socket: %w", err), listener.Close())
	}
	s := &Socket{Listener: listener, path: path, file: file}
	s.close = sync.OnceValue(s.remove)
	return s, nil
}

// Present tells whether the path still leads to this socket: who connects to it then arrives here.
func (s *Socket) Present() bool {
	now, err := os.Lstat(s.path)
	return err == nil && os.SameFile(now, s.file)
}

// Close ends listening and removes the socket, unless its path is another's by now.
func (s *Socket) Close() error { return s.close() }

func (s *Socket) remove() error {
	if s.Present() {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("remove the socket: %w", err), s.Listener.Close())
		}
	}
	return s.Listener.Close()
}

// Accept waits for the next permitted caller.
func (s *Socket) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if isOwner(conn) {
			return conn, nil
		}
		_ = conn.Close() // not permitted; it gets no answer
	}
}

func isOwner(conn net.Conn) bool {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return false
	}
	return cred.Uid == 0 || int(cred.Uid) == os.Geteuid()
}
