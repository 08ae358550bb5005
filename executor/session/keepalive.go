package session

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// pace is how long the ends wait for each other.
type pace struct {
	// beat is how often either end sends the other something.
	beat time.Duration
	// silence is how long either end waits for the other before it gives it up.
	silence time.Duration
	// hello is how long a new session has for its first message.
	hello time.Duration
	// seen is how long a session waits for its member to have applied what the host
	// acted on (S14), before the host is sent to another controller.
	seen time.Duration
	// register bounds the proposal that registers a host.
	register time.Duration
	// connect is how long a connection may take before the next controller is tried.
	connect time.Duration
	// hedge is how long a controller may take before the same command is proposed
	// at another one too. The request id keeps its effect to one (S4).
	hedge time.Duration
}

// missed is longer than an end is silent that is well.
func (p pace) missed() time.Duration { return p.beat + p.beat/2 }

var usual = pace{
	beat:     time.Second,
	silence:  3 * time.Second,
	hello:    5 * time.Second,
	seen:     3 * time.Second,
	register: 5 * time.Second,
	connect:  time.Second,
	hedge:    time.Second,
}

// ServerOptions make the API listener's server notice a dead host within three seconds.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: usual.beat, Timeout: usual.silence - usual.beat}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: usual.beat, PermitWithoutStream: true}),
	}
}

// DialOptions make a host try again soon when a controller comes back. gRPC does
// not let a client ping within ten seconds: the session's own heartbeat does the rest.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithNoProxy(), // controllers are reached directly, whatever the environment says
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: usual.silence - usual.beat, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
	}
}
