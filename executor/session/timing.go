package session

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

const (
	// heartbeat is how often either end sends the other a message.
	heartbeat = time.Second
	// HeartbeatLate is the time without a message after which a heartbeat is overdue. A host
	// that works and can be reached is not silent for as long.
	HeartbeatLate = heartbeat + heartbeat/2
	// PeerTimeout is the time without a message after which either end drops the session.
	PeerTimeout = 3 * time.Second
)

// timing is how long the ends wait for each other; tests set other values.
type timing struct {
	heartbeat   time.Duration
	peerTimeout time.Duration
	// helloTimeout is how long a new session has for its first message.
	helloTimeout time.Duration
	// catchUpTimeout is how long a session waits for its member to have applied what the host
	// acted on (S14), before the host is sent to another controller.
	catchUpTimeout time.Duration
	// registerTimeout bounds the proposal that registers a host.
	registerTimeout time.Duration
	// connectTimeout is how long a connection may take before the next controller is tried.
	connectTimeout time.Duration
	// hedgeDelay is how long a controller may take before the same command is proposed
	// at another one too. The request id keeps its effect to one (S4).
	hedgeDelay time.Duration
}

var defaultTiming = timing{
	heartbeat:       heartbeat,
	peerTimeout:     PeerTimeout,
	helloTimeout:    5 * time.Second,
	catchUpTimeout:  3 * time.Second,
	registerTimeout: 5 * time.Second,
	connectTimeout:  time.Second,
	hedgeDelay:      time.Second,
}

// ServerOptions make the API listener's server notice a dead host within three seconds.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: heartbeat, Timeout: PeerTimeout - heartbeat}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: heartbeat, PermitWithoutStream: true}),
	}
}

// DialOptions make a host try again soon when a controller comes back. gRPC does
// not let a client ping within ten seconds: the session's own heartbeat does the rest.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithNoProxy(), // controllers are reached directly, whatever the environment says
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: PeerTimeout - heartbeat, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
	}
}
