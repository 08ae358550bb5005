package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Second
)

// ClientConfig is what a host's end needs. The functions may be called from
// several goroutines.
type ClientConfig struct {
	// Endpoints are the API addresses of the controllers, host:port.
	Endpoints   []string
	Credentials *pki.Credentials
	// Register returns the registration, for each session anew, and within a session once the
	// capacity of a pool is known that was not. Its incarnation is filled in from ActedEpoch.
	Register func() *fsmpb.RegisterNode
	// ActedEpoch is the highest epoch that the host acted on, kept on disk, with
	// the id of its incarnation. It must not move while the host is not adopted (S1, S14).
	ActedEpoch func() (fsm.Epoch, []byte)
	// Handle handles an update. It is called in order, one call at a time, also
	// across sessions.
	Handle func(executor.Update)
	// Telemetry reads the pools' telemetry. It may block; a session does not wait for it.
	Telemetry func() []executor.PoolFacts
	// TelemetryInterval is the time between two calls of Telemetry: 2 s.
	TelemetryInterval time.Duration
	// Inventory lists the objects of the host's pools.
	Inventory func(context.Context) (executor.Inventory, error)
	// Held lists what the host has of each volume, as items of kind executor.KindHeld.
	Held func(context.Context) (executor.Inventory, error)
	// Candidates lists what could be imported, as items of kind executor.KindCandidate. Nil: this host has none.
	Candidates func(context.Context) (executor.Inventory, error)
	// Map returns the extents that a snapshot allocates, or with a base those that differ between the
	// two, from an offset in bytes on: at most max extents. Its error may be a *fsm.Rejection. Nil: this
	// host has no block maps.
	Map func(ctx context.Context, base, target fsm.SnapshotID, from int64, max int) (executor.MapPage, error)
	// VolumeFacts observes the host's replica of a volume. Its error may be a *fsm.Rejection. Nil: this host does
	// not answer about volumes.
	VolumeFacts func(ctx context.Context, id fsm.VolumeID) (executor.VolumeFacts, error)
	// ReplicaNow observes the host's replica of a volume in its kernel. Its error may be a *fsm.Rejection. Nil: this
	// host does not answer about replicas.
	ReplicaNow func(ctx context.Context, id fsm.VolumeID) (fsm.ReplicaObservation, error)
	// HostFacts is what the host shows of itself, as JSON, and whom of those named it reaches. Nil: this host does not answer
	// about itself.
	HostFacts func(context.Context, Reachability) ([]byte, error)
	// ProposeTimeout is how long Propose tries to reach a controller with a quorum: 3 s.
	ProposeTimeout time.Duration
	Logger         *slog.Logger
	// RevocationsFile keeps what is revoked of controllers, so that the host refuses it from its next start
	// on; empty: it is not kept.
	RevocationsFile string
	// Dial prepares the connection to an endpoint; nil: gRPC with the credentials.
	Dial func(endpoint string) (Conn, error)
	// Jitter returns a duration from 0 to below d; nil: a random one.
	Jitter func(d time.Duration) time.Duration
}

// Conn is a connection to one controller; *grpc.ClientConn implements it.
type Conn interface {
	grpc.ClientConnInterface
	Connect()
	ResetConnectBackoff()
	GetState() connectivity.State
	WaitForStateChange(ctx context.Context, source connectivity.State) bool
	Close() error
}

// renewable is a Conn that is made again while its certificates change. Renewed is closed when calls are made
// over another connection from now on.
type renewable interface{ Renewed() <-chan struct{} }

// Client is a host's end: one session with any controller, and proposals to any.
type Client struct {
	ClientConfig
	conns       []Conn
	timing      timing
	revocations *hostRevocations

	lastTelemetry  atomic.Pointer[sessionpb.Telemetry]
	telemetryReady chan struct{} // lastTelemetry was replaced

	registered        atomic.Pointer[fsmpb.RegisterNode] // as the session sent it last; nil: there is none
	registrationReady chan newRegistration

	mu              sync.Mutex
	currentEndpoint int // the endpoint of the session, or of the last one
	connected       bool
	controllerIndex uint64 // the index that the session's controller sent last
	clusterLevel    uint32 // the cluster's feature level, as a controller sent it last
	lastErr         error
	// openProposals are the proposals with a caller's request id whose outcome is not
	// known yet, with the index at which each was proposed first.
	openProposals map[string]uint64
}

var _ executor.Proposer = (*Client)(nil)

// NewClient returns a client; Run connects it.
func NewClient(cfg ClientConfig) (*Client, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("a host needs the API address of at least one controller")
	}
	cfg.TelemetryInterval = cmp.Or(cfg.TelemetryInterval, 2*time.Second)
	cfg.ProposeTimeout = cmp.Or(cfg.ProposeTimeout, PeerTimeout)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Dial == nil {
		cfg.Dial = dialWith(cfg.Credentials)
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.N[time.Duration]
	}
	revocations, err := openHostRevocations(cfg.RevocationsFile, cfg.Credentials, cfg.Logger)
	if err != nil {
		return nil, err
	}
	first := int(cfg.Jitter(time.Duration(len(cfg.Endpoints))))
	c := &Client{ClientConfig: cfg, timing: defaultTiming, revocations: revocations, telemetryReady: make(chan struct{}, 1), registrationReady: make(chan newRegistration, 1), currentEndpoint: first, openProposals: map[string]uint64{}}
	for _, endpoint := range cfg.Endpoints {
		conn, err := cfg.Dial(endpoint)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare the connection to controller %s: %w", endpoint, err), c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// dialWith dials endpoints with the host's credentials.
func dialWith(creds *pki.Credentials) func(endpoint string) (Conn, error) {
	return func(endpoint string) (Conn, error) {
		return pki.NewClientConn(func(renew func()) (*grpc.ClientConn, error) {
			return grpc.NewClient(endpoint, append(DialOptions(), grpc.WithTransportCredentials(creds.ClientCredentials(pki.Controller, renew)))...)
		})
	}
}

// Close ends the connections. Run should have returned.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Connected tells whether a session is up and its first update was handled.
func (c *Client) Connected() bool { return c.Err() == nil }

// Err is why there is no session, nil when there is one.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.connected:
		return nil
	case c.lastErr != nil:
		return c.lastErr
	}
	return errors.New("no controller was reached yet")
}

// Run keeps a session with any controller until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	go c.measureLoop(ctx)
	failures := 0
	for ctx.Err() == nil {
		endpoint := c.endpoint()
		delivered, err := c.runSession(ctx, endpoint)
		if ctx.Err() != nil {
			break
		}
		if delivered {
			failures = 0
		}
		if errors.Is(err, errRenewed) {
			c.Logger.Info("the session goes on over another connection, with the certificates that are in force now", "controller", c.Endpoints[endpoint])
			continue
		}
		c.noteFailure(endpoint, err)
		sleep(ctx, c.reconnectBackoff(failures))
		failures++
	}
	return nil
}

// reconnectBackoff is short until all controllers were tried, then
// grows with each round over them, with jitter.
func (c *Client) reconnectBackoff(failures int) time.Duration {
	d := maxBackoff
	if round := failures / len(c.conns); round < 4 {
		d = min(d, minBackoff<<round)
	}
	return d/2 + c.Jitter(d/2)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *Client) endpoint() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.currentEndpoint
}

// noteFailure continues with the next controller, and logs an error once while it repeats.
func (c *Client) noteFailure(endpoint int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(err.Error(), "remote error: tls: bad certificate") { // all that TLS tells
		err = fmt.Errorf("it refuses this host's certificate, which is revoked or not of a CA that it trusts (`holdfast certs list`): %w", err)
	}
	err = fmt.Errorf("session with controller %s: %w", c.Endpoints[endpoint], err)
	if c.connected || c.lastErr == nil || c.lastErr.Error() != err.Error() {
		c.Logger.Warn("no session", "error", err)
	}
	c.currentEndpoint = (endpoint + 1) % len(c.conns)
	c.connected, c.controllerIndex, c.lastErr = false, 0, err
}

// noteIndex notes the index that the session's controller has applied.
func (c *Client) noteIndex(at fsm.Epoch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controllerIndex = at.Index
}

// handleUpdate passes an update to the host; with the first one the session is up.
func (c *Client) handleUpdate(u *executor.Update) {
	c.Handle(*u)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.connected {
		c.Logger.Info("session is up", "controller", c.Endpoints[c.currentEndpoint], "at", u.At, "adopted", u.Adopted)
	}
	c.connected, c.lastErr = true, nil
}

// measureLoop keeps the latest telemetry, and has the host registered again for what it shows. It is one goroutine for all sessions, so
// that a hanging pool blocks one goroutine only.
func (c *Client) measureLoop(ctx context.Context) {
	for ctx.Err() == nil {
		facts := c.Telemetry()
		c.lastTelemetry.Store(telemetryToProto(facts))
		select {
		case c.telemetryReady <- struct{}{}:
		default:
		}
		c.noticeCapacity(facts)
		sleep(ctx, c.TelemetryInterval)
	}
}
