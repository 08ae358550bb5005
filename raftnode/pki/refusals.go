package pki

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// refusalInterval is the time between two log lines about the same address.
	refusalInterval = time.Minute
	// maxRefusedAddresses bounds the addresses that are remembered; while there are more, others are not logged.
	maxRefusedAddresses = 1024
	// maxRefusalText bounds a reason in bytes: a part of it is what the peer sent.
	maxRefusalText = 400
)

// refusalLog logs why handshakes failed, one line a minute for each address of a peer, without its port.
type refusalLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last map[string]*refused
}

// refused is what is known of an address.
type refused struct {
	logged     time.Time
	suppressed int // handshakes that failed since then and were not logged
}

// LogRefusals has a listener's credentials log why a handshake failed: at most one line a minute for each address of a
// peer. A peer that closes the connection before it said anything, as a probe does, is not logged.
func LogRefusals(creds credentials.TransportCredentials, log *slog.Logger) credentials.TransportCredentials {
	return loggedCredentials{creds, &refusalLog{log: log, now: time.Now, last: map[string]*refused{}}}
}

type loggedCredentials struct {
	credentials.TransportCredentials
	refusals *refusalLog
}

// ServerHandshake implements credentials.TransportCredentials.
func (l loggedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	done, info, err := l.TransportCredentials.ServerHandshake(raw)
	if err != nil && !errors.Is(err, io.EOF) {
		l.refusals.note(raw.RemoteAddr(), err)
	}
	return done, info, err
}

// Clone implements credentials.TransportCredentials.
func (l loggedCredentials) Clone() credentials.TransportCredentials {
	return loggedCredentials{l.TransportCredentials.Clone(), l.refusals}
}

func (r *refusalLog) note(peer net.Addr, err error) {
	address, _, splitErr := net.SplitHostPort(peer.String())
	if splitErr != nil {
		address = peer.String()
	}
	due, suppressed := r.due(address)
	if !due {
		return
	}
	text := err.Error()
	if len(text) > maxRefusalText {
		text = text[:maxRefusalText] + "..."
	}
	r.log.Warn("a TLS handshake was refused", "peer", address, "error", text, "not_logged_before", suppressed)
}

// due tells whether a line about the address may be written, and how many were not since the last one.
func (r *refusalLog) due(address string) (due bool, suppressed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	known := r.last[address]
	switch {
	case known != nil && now.Sub(known.logged) < refusalInterval:
		known.suppressed++
		return false, 0
	case known != nil:
		suppressed = known.suppressed
	case len(r.last) >= maxRefusedAddresses:
		r.forgetOld(now)
		if len(r.last) >= maxRefusedAddresses {
			return false, 0
		}
	}
	r.last[address] = &refused{logged: now}
	return true, suppressed
}

func (r *refusalLog) forgetOld(now time.Time) {
	for address, known := range r.last {
		if now.Sub(known.logged) >= refusalInterval {
			delete(r.last, address)
		}
	}
}
