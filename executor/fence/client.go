package fence

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

// How long the handler waits before it asks again.
const (
	askAgain    = 50 * time.Millisecond
	askAgainMax = time.Second
)

// Client is the handler's side.
type Client struct {
	Socket string    // empty: DefaultSocket
	Say    io.Writer // what happens, for people; it may fail
	user   func(*net.UnixConn) (uint32, error)
}

// FencePeer asks for a verdict about the resource that the kernel named in the
// environment until there is one, and returns the exit code for it: 4, 6 or 1. It
// has no deadline, and signals do not end it (S6).
func (c *Client) FencePeer(environment func(string) string) int {
	ignoreSignals()
	q := question{Resource: environment("DRBD_RESOURCE"), Minor: environment("DRBD_MINOR")}
	if q.Resource == "" {
		c.say("DRBD_RESOURCE is not set: the kernel calls this through drbdadm")
		return ExitRefused
	}
	last, wait := "", askAgain
	for {
		a, err := c.ask(context.Background(), q)
		switch {
		case err == nil && slices.Contains([]int{ExitPeerOutdated, ExitSelfOutdated, ExitRefused}, a.Exit):
			c.say("%s: %s", q.Resource, a.Reason)
			return a.Exit
		case err == nil:
			err = errors.New(cmp.Or(a.Reason, "there is no verdict"))
		}
		if err.Error() != last {
			last = err.Error()
			c.say("%s: no verdict yet: %s", q.Resource, last)
		}
		time.Sleep(wait)
		wait = min(2*wait, askAgainMax)
	}
}

// SelfTest asks the node process whether it is there.
func (c *Client) SelfTest(ctx context.Context) error {
	a, err := c.ask(ctx, question{SelfTest: true})
	if err == nil && !a.Alive {
		err = errors.New("it gave no answer to a test")
	}
	if err != nil {
		return fmt.Errorf("ask the node process at %s: %w", cmp.Or(c.Socket, DefaultSocket), err)
	}
	return nil
}

// ask puts one question and waits for the answer as long as the node process lives:
// its end of the connection closes with it.
func (c *Client) ask(ctx context.Context, q question) (answer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", cmp.Or(c.Socket, DefaultSocket))
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // it ends what waits for the answer
	defer stop()
	user := c.user
	if user == nil {
		user = peerUser
	}
	if unix, ok := conn.(*net.UnixConn); !ok {
		return answer{}, errors.New("it is no unix socket")
	} else if err := checkPeer(unix, user); err != nil {
		return answer{}, err
	}
	if err := writeLine(conn, q); err != nil {
		return answer{}, err
	}
	var a answer
	if err := readLine(conn, &a); err != nil {
		return answer{}, err
	}
	return a, nil
}

// say must not fail: nobody may be listening.
func (c *Client) say(format string, args ...any) {
	if c.Say != nil {
		_, _ = fmt.Fprintf(c.Say, format+"\n", args...)
	}
}

// ignoreSignals keeps the handler from ending without a verdict.
func ignoreSignals() {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2)
}
