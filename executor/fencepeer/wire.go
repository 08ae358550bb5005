package fencepeer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DefaultSocket is the path of the node process's socket.
const DefaultSocket = "/run/holdfast/fence.sock"

// The exit codes of the handler, as defined in drbd.conf(5). It has no others.
const (
	ExitPeerOutdated = 4 // the kernel resumes I/O
	ExitSelfOutdated = 6 // I/O stays suspended, or the replica is not promoted
	ExitRefused      = 1 // likewise
)

// exitCodes are the verdicts with which the handler exits. Any other verdict makes it retry.
var exitCodes = map[fsmpb.Verdict]int{
	fsmpb.Verdict_VERDICT_PEER_OUTDATED: ExitPeerOutdated,
	fsmpb.Verdict_VERDICT_SELF_OUTDATED: ExitSelfOutdated,
	fsmpb.Verdict_VERDICT_REFUSED:       ExitRefused,
}

// request is what the handler sends.
type request struct {
	Resource string `json:"resource"`
	Minor    string `json:"minor,omitempty"` // only logged: the node process finds the minor in its own records (S13)
	SelfTest bool   `json:"self_test,omitempty"`
}

// response is what the node process sends. Exit 0 is no verdict: the handler retries.
type response struct {
	Exit   int    `json:"exit"`
	Reason string `json:"reason,omitempty"`
	Alive  bool   `json:"alive,omitempty"` // of a self-test
}

// maxLineBytes bounds a request and a response.
const maxLineBytes = 4 << 10

func writeLine(w io.Writer, message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

func readLine(r io.Reader, message any) error {
	line, err := bufio.NewReader(io.LimitReader(r, maxLineBytes)).ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, message)
}

// peerUID returns the user id of the process at the other end.
func peerUID(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return cred.Uid, nil
}

// checkPeer refuses any user but root.
func checkPeer(conn *net.UnixConn, user func(*net.UnixConn) (uint32, error)) error {
	uid, err := user(conn)
	if err != nil {
		return fmt.Errorf("look who is at the other end: %w", err)
	}
	if uid != 0 {
		return fmt.Errorf("user %d is at the other end, not root", uid)
	}
	return nil
}
