package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Client calls the API of the first controller that answers.
type Client struct {
	tls       *tls.Config
	endpoints []string
	// Timeout bounds one controller's answer to a call; then the next is
	// tried. 0 means 10 s.
	Timeout time.Duration
	local   []grpc.DialOption // of a server in this process, instead of TLS
}

// NewClient makes a client of the controllers' API addresses (host:port). It dials nothing yet.
func NewClient(endpoints []string, config *tls.Config) *Client {
	return &Client{tls: config, endpoints: endpoints, Timeout: 10 * time.Second}
}

// Endpoints is how many addresses the client tries.
func (c *Client) Endpoints() int { return len(c.endpoints) }

// Each returns a client of each controller alone, in the order of their addresses.
func (c *Client) Each() (all []*Client) {
	for _, endpoint := range c.endpoints {
		all = append(all, &Client{tls: c.tls, local: c.local, endpoints: []string{endpoint}, Timeout: c.Timeout})
	}
	return all
}

// TryEach calls fn with one controller after another until a call succeeds or fails with another
// code than Unavailable or DeadlineExceeded. When all fail so, the error lists all endpoints and its
// code is Unavailable.
func (c *Client) TryEach(ctx context.Context, fn func(context.Context, adminpb.AdminClient) error) error {
	var failures []string
	for _, endpoint := range c.endpoints {
		err := c.callOne(ctx, endpoint, fn)
		if err == nil || !retryable(err) || ctx.Err() != nil {
			return err
		}
		failures = append(failures, endpoint+": "+Reason(err))
	}
	if len(failures) == 0 {
		return status.Error(codes.Unavailable, "no controller's address is known")
	}
	return status.Error(codes.Unavailable, strings.Join(failures, "; "))
}

// Reason returns a call's error message without the prefix that gRPC adds.
func Reason(err error) string {
	text := status.Convert(err).Message()
	if at := strings.LastIndex(text, "dial tcp"); at >= 0 {
		if _, why, found := strings.Cut(text[at:], ": "); found {
			return strings.Trim(why, `"`)
		}
	}
	if strings.Contains(text, refusedCertificate) {
		return "the controller refuses this certificate: it is revoked, or not of a CA that the controller trusts; `holdfast certs list` of another operator says which"
	}
	if _, why, found := strings.Cut(text, "authentication handshake failed: "); found {
		return strings.Trim(why, `"`)
	}
	return text
}

// refusedCertificate is all that the other end of a connection is told of a certificate that is refused.
const refusedCertificate = "remote error: tls: bad certificate"

func retryable(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

func (c *Client) callOne(ctx context.Context, endpoint string, fn func(context.Context, adminpb.AdminClient) error) error {
	options := c.local
	if options == nil {
		options = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(c.tls))}
	}
	options = append(slices.Clip(options), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	conn, err := grpc.NewClient("passthrough:///"+endpoint, options...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	defer func() { _ = conn.Close() }() // nothing to flush
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return fn(ctx, adminpb.NewAdminClient(conn))
}

// Status asks one controller after another until one knows a leader. When none does, best is the
// first answer received, and known is false.
func (c *Client) Status(ctx context.Context) (best *adminpb.StatusResponse, known bool, err error) {
	err = c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		resp, err := api.Status(ctx, &adminpb.StatusRequest{})
		if err != nil {
			return err
		}
		if known = resp.GetLeader() != ""; known || best == nil {
			best = resp
		}
		if !known {
			return status.Error(codes.Unavailable, "it knows no leader")
		}
		return nil
	})
	return best, known, err
}

// Pick returns a client of one controller: the first that knows a leader, else the first that answers within the time that
// each is given. leader tells which of the two. The error is UNAVAILABLE when none answers.
func (c *Client) Pick(ctx context.Context, within time.Duration) (one *Client, leader bool, err error) {
	var failures []string
	for _, endpoint := range c.endpoints {
		asked := &Client{tls: c.tls, local: c.local, endpoints: []string{endpoint}, Timeout: min(within, c.Timeout)}
		resp, knows, err := asked.Status(ctx)
		answered := resp != nil || err != nil && !retryable(err)
		asked.Timeout = c.Timeout
		switch {
		case knows, answered && resp == nil: // what refuses Status says of everything else itself
			return asked, true, nil
		case answered && one == nil:
			one = asked
		case !answered:
			failures = append(failures, Reason(err))
		}
	}
	if one == nil {
		return nil, false, status.Error(codes.Unavailable, strings.Join(failures, "; "))
	}
	return one, false, nil
}

// History calls fn with the header and then with each entry. After the first call of fn
// no other controller is tried.
func (c *Client) History(ctx context.Context, req *adminpb.HistoryRequest, fn func(*adminpb.HistoryResponse) error) error {
	return c.stream(ctx, func(ctx context.Context, api adminpb.AdminClient) (func() error, error) {
		in, err := api.History(ctx, req)
		return receive(in, fn), err
	})
}

// State calls fn with the header and then with each node, volume, snapshot, group snapshot and volume
// group.
func (c *Client) State(ctx context.Context, req *adminpb.StateRequest, fn func(*adminpb.StateResponse) error) error {
	return c.stream(ctx, func(ctx context.Context, api adminpb.AdminClient) (func() error, error) {
		in, err := api.State(ctx, req)
		return receive(in, fn), err
	})
}

// receive calls fn with the stream's next message.
func receive[T any](in grpc.ServerStreamingClient[T], fn func(*T) error) func() error {
	return func() error {
		resp, err := in.Recv()
		if err != nil {
			return err
		}
		return fn(resp)
	}
}

// stream calls next until the stream ends. After the first message an error is returned in a form
// that makes TryEach stop: another controller would repeat what fn already received.
func (c *Client) stream(ctx context.Context, open func(context.Context, adminpb.AdminClient) (func() error, error)) error {
	var fatal error
	err := c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		next, err := open(ctx, api)
		for count := 0; err == nil; count++ {
			if err = next(); err != nil && !errors.Is(err, io.EOF) && count > 0 {
				fatal = c.timeOver(ctx, err, true)
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return c.timeOver(ctx, err, false)
	})
	if fatal != nil {
		return fatal
	}
	return err
}

// timeOver is the error of a stream, in words where its time is over: gRPC says by which frame it learned of that. An error
// before the first message may say why the controller is not reached, and stays.
func (c *Client) timeOver(ctx context.Context, err error, begun bool) error {
	s := status.Convert(err)
	plain := begun || s.Message() == context.DeadlineExceeded.Error() || strings.Contains(s.Message(), "RST_STREAM")
	if deadline, _ := ctx.Deadline(); !plain || time.Now().Before(deadline) || s.Code() != codes.DeadlineExceeded && s.Code() != codes.Canceled {
		return err
	}
	return status.Errorf(codes.DeadlineExceeded, "the controller did not send all of it within %s: give it longer with --timeout", c.Timeout)
}

// Backup calls fn with each part of a backup file. After the first no other controller is tried.
func (c *Client) Backup(ctx context.Context, req *adminpb.BackupRequest, fn func(part []byte) error) error {
	return c.stream(ctx, func(ctx context.Context, api adminpb.AdminClient) (func() error, error) {
		in, err := api.Backup(ctx, req)
		return receive(in, func(m *adminpb.BackupResponse) error { return fn(m.GetPart()) }), err
	})
}
