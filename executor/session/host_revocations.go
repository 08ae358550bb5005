package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// hostRevocations are the controllers' certificates that the host refuses: who has the key of one could tell it
// anything in the cluster's name. host_revocations_take.go has the rules by which it takes a list.
type hostRevocations struct {
	path  string
	creds *pki.Credentials
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	known *sessionpb.RevokedControllers
}

// openHostRevocations begins with what the host was sent in an earlier life.
func openHostRevocations(path string, creds *pki.Credentials, log *slog.Logger) (*hostRevocations, error) {
	r := &hostRevocations{path: path, creds: creds, log: log, now: time.Now, known: &sessionpb.RevokedControllers{}}
	if creds == nil { // the connections are the caller's
		return r, nil
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(content, r.known) // a newer build may have written it
	}
	if path != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s, what is revoked of controllers: %w; remove it, and the controllers send it again", path, err)
	}
	creds.SetRevoked(r.check)
	return r, nil
}

// senderOf is the controller's certificate on the other end of a call; the zero value over a connection without TLS.
func senderOf(ctx context.Context) pki.Certificate {
	of, err := pki.PeerCertificate(ctx)
	if err != nil {
		return pki.Certificate{}
	}
	return of
}

// take takes what a controller sent, unless what is known is newer.
func (r *hostRevocations) take(from pki.Certificate, sent *sessionpb.RevokedControllers) {
	r.mu.Lock()
	known := r.known
	next := nextRevocations(known, sent, from, r.now())
	keep := next != nil && (hasRevocations(known) || hasRevocations(next))
	if next != nil {
		r.known = next
	}
	r.mu.Unlock()
	if !keep || r.creds == nil {
		return
	}
	if n := len(next.GetRemembered()); n > len(known.GetRemembered()) {
		r.log.Warn("this log does not know revocations that the one before had: they stay in force here until it does; `holdfast adopt` takes them in", "revocations", n)
	}
	r.creds.Recheck()
	if err := r.save(next); err != nil {
		r.log.Error("what is revoked of controllers is in force, and was not kept for the next start", "error", err)
	}
}

// check is nil for a certificate that is not revoked.
func (r *hostRevocations) check(c pki.Certificate) error {
	if c.Role != pki.Controller {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.known.GetControllers() {
		if revokes(k, c.Name, c.Serial, c.Issued) {
			return r.refusal(c, k, r.known.GetFrom())
		}
	}
	for _, m := range r.known.GetRemembered() {
		if k := m.GetRevoked(); k.GetRole() == "" && revokes(k, c.Name, c.Serial, c.Issued) {
			return r.refusal(c, k, m.GetFrom())
		}
	}
	return nil
}

// refusal names the way out, too: one controller's word is enough for a revocation, and its key may be the stolen one.
func (r *hostRevocations) refusal(c pki.Certificate, k *sessionpb.RevokedController, from *sessionpb.CertificateName) error {
	remedy := "issue it another one with `holdfast ca issue`"
	if r.path != "" {
		remedy += ", or, if `holdfast certs list` does not say so, stop this host's process, remove " + r.path + " and start it"
	}
	return fmt.Errorf("the certificate of %s with serial %s is revoked (%s), as controller %s said: %s", c.Actor(), c.Serial, k.GetReason(), from.GetName(), remedy)
}

// revokes tells whether the entry revokes a certificate of the name.
func revokes(k *sessionpb.RevokedController, name, serial string, issued time.Time) bool {
	until := k.GetIssuedUntil()
	if k.GetCountsUntil() != 0 {
		until = min(until, k.GetCountsUntil())
	}
	of := fsm.Revocation{Serials: k.GetSerials(), IssuedUntil: fsm.TimeOf(until)}
	return k.GetName() == name && of.Covers(serial, issued)
}

// save replaces the file: what a host was told of a revocation it knows after a power loss too.
func (r *hostRevocations) save(known *sessionpb.RevokedControllers) error {
	if r.path == "" {
		return nil
	}
	content, err := protojson.Marshal(known)
	if err != nil {
		return err
	}
	return durablefile.Write(r.path, content, 0o600)
}
