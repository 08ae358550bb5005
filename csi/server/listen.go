package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is what fits the kernel's sockaddr_un, in bytes.
const maxSocketPath = 107

// lockTimeout is how long another process may hold the lock on the socket's directory.
const lockTimeout = 2 * time.Second

// SocketPath is the path in a CSI_ENDPOINT: unix:///path, unix://path, unix:/path
// or the bare path. It ends with .sock, as CSI demands.
func SocketPath(endpoint string) (string, error) {
	path := endpoint
	if scheme, rest, found := strings.Cut(endpoint, ":"); found {
		if scheme != "unix" {
			return "", fmt.Errorf("CSI endpoint %q: only unix sockets are served, as unix:///path/name.sock", endpoint)
		}
		path = strings.TrimPrefix(rest, "//")
	}
	if path == "" {
		return "", errors.New("the CSI endpoint is not set: set CSI_ENDPOINT to unix:///path/name.sock")
	}
	if err := CheckSocketPath(path); err != nil {
		return "", fmt.Errorf("CSI endpoint %q: %w", endpoint, err)
	}
	return path, nil
}

// CheckSocketPath refuses a path at which no socket can be made, or that does not end with .sock.
func CheckSocketPath(path string) error {
	switch {
	case !strings.HasSuffix(path, ".sock"):
		return errors.New("the path must end with .sock")
	case len(path) > maxSocketPath:
		return fmt.Errorf("the path has %d bytes, the kernel allows %d", len(path), maxSocketPath)
	}
	return nil
}

// Listen binds the unix socket of an endpoint, as ListenSocket does.
func Listen(endpoint string) (net.Listener, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}
	socket, err := ListenSocket(path)
	if err != nil {
		return nil, fmt.Errorf("listen on CSI endpoint %s: %w", path, err)
	}
	return socket, nil
}

// ListenSocket binds a unix socket with mode 0600. Its directory must exist.
// The socket of a dead process is replaced; one that answers, or anything that is no
// socket, is an error. Nothing else is created next to it: two processes that start at
// once are kept apart by a lock on the directory itself.
func ListenSocket(path string) (*Socket, error) {
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	bind := net.ListenConfig{Control: restrictMode}
	listener, err := bind.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return newSocket(listener, path)
}

// restrictMode makes the socket file 0600 from its first moment: Linux takes the mode
// of the file from that of the unbound socket.
func restrictMode(_, _ string, conn syscall.RawConn) error {
	var chmodErr error
	if err := conn.Control(func(fd uintptr) { chmodErr = unix.Fchmod(int(fd), 0o600) }); err != nil {
		return err
	}
	return chmodErr
}

// removeStale removes the socket of a dead process from the path.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the path: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return errors.New("the path exists and is no socket; remove it or choose another")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("another process serves this socket; stop it or choose another path"), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether another process serves this socket: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket of a dead process: %w", err)
	}
	return nil
}

// lockFolder holds an advisory lock on the directory itself, which needs no file in it.
func lockFolder(path string) (unlock func(), err error) {
	folder, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the socket's folder: %w", err)
	}
	for end := time.Now().Add(lockTimeout); ; {
		err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = folder.Close() }, nil // closing ends the lock
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("lock the socket's folder: %w", err), folder.Close())
		}
		time.Sleep(10 * time.Millisecond)
	}
}
