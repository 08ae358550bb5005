package fencepeer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// How long the handler waits before it retries.
const (
	minRetryDelay = 50 * time.Millisecond
	maxRetryDelay = time.Second
)

// Client is the handler's end of the socket.
type Client struct {
	Socket  string    // empty: DefaultSocket
	Out     io.Writer // messages for people; writing may fail
	peerUID func(*net.UnixConn) (uint32, error)
}

// FencePeer requests a verdict for the resource that the kernel named in the environment until it
// gets one, and returns its exit code: 4, 6 or 1. It has no deadline, and ignores signals (S6).
func (c *Client) FencePeer(environment func(string) string) int {
	ignoreSignals()
	q := request{Resource: environment("DRBD_RESOURCE"), Minor: environment("DRBD_MINOR")}
	if q.Resource == "" {
		c.printf("DRBD_RESOURCE is not set: the kernel calls this through drbdadm")
		return ExitRefused
	}
	last, wait := "", minRetryDelay
	for {
		a, err := c.request(context.Background(), q)
		switch {
		case err == nil && slices.Contains([]int{ExitPeerOutdated, ExitSelfOutdated, ExitRefused}, a.Exit):
			c.printf("%s: %s", q.Resource, a.Reason)
			return a.Exit
		case err == nil:
			err = errors.New(cmp.Or(a.Reason, "there is no verdict"))
		}
		if err.Error() != last {
			last = err.Error()
			c.printf("%s: no verdict yet: %s", q.Resource, last)
		}
		time.Sleep(wait)
		wait = min(2*wait, maxRetryDelay)
	}
}

// SelfTest checks that the node process responds.
func (c *Client) SelfTest(ctx context.Context) error {
	a, err := c.request(ctx, request{SelfTest: true})
	if err == nil && !a.Alive {
		err = errors.New("it did not answer the self-test")
	}
	if err != nil {
		return fmt.Errorf("ask the node process at %s: %w", cmp.Or(c.Socket, DefaultSocket), err)
	}
	return nil
}

// request sends one request and waits for the response as long as the node process lives: when it
// dies, its end of the connection is closed.
func (c *Client) request(ctx context.Context, q request) (response, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", cmp.Or(c.Socket, DefaultSocket))
	if err != nil {
		return response{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // it ends the read of the response
	defer stop()
	user := c.peerUID
	if user == nil {
		user = peerUID
	}
	if unix, ok := conn.(*net.UnixConn); !ok {
		return response{}, errors.New("it is no unix socket")
	} else if err := checkPeer(unix, user); err != nil {
		return response{}, err
	}
	if err := writeLine(conn, q); err != nil {
		return response{}, err
	}
	var a response
	if err := readLine(conn, &a); err != nil {
		return response{}, err
	}
	return a, nil
}

// printf ignores errors: the reader of the output may have exited.
func (c *Client) printf(format string, args ...any) {
	if c.Out != nil {
		_, _ = fmt.Fprintf(c.Out, format+"\n", args...)
	}
}

// ignoreSignals keeps signals from ending the handler without a verdict.
func ignoreSignals() {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2)
}
