package session

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// hostRevocations are the controllers' certificates that the host refuses: who has the key of one could tell it
// anything in the cluster's name.
type hostRevocations struct {
	path  string
	creds *pki.Credentials
	log   *slog.Logger

	mu    sync.Mutex
	known *sessionpb.RevokedControllers
}

// openHostRevocations begins with what the host was sent in an earlier life.
func openHostRevocations(path string, creds *pki.Credentials, log *slog.Logger) (*hostRevocations, error) {
	r := &hostRevocations{path: path, creds: creds, log: log, known: &sessionpb.RevokedControllers{}}
	if creds == nil { // the connections are the caller's
		return r, nil
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = protojson.Unmarshal(content, r.known)
	}
	if path != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s, what is revoked of controllers: %w; remove it, and the controllers send it again", path, err)
	}
	creds.SetRevoked(r.check)
	return r, nil
}

// take takes what a controller sent, unless what is known is newer.
func (r *hostRevocations) take(sent *sessionpb.RevokedControllers) {
	r.mu.Lock()
	changed := fsm.EpochFrom(sent.GetAt()).Compare(fsm.EpochFrom(r.known.GetAt())) > 0
	keep := changed && len(sent.GetControllers())+len(r.known.GetControllers()) > 0
	if changed {
		r.known = sent
	}
	r.mu.Unlock()
	if !keep || r.creds == nil {
		return
	}
	r.creds.Recheck()
	if err := r.save(sent); err != nil {
		r.log.Error("what is revoked of controllers is in force, and was not kept for the next start", "error", err)
	}
}

// check is nil for a certificate that is not revoked.
func (r *hostRevocations) check(c pki.Certificate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.known.GetControllers() {
		of := fsm.Revocation{Serials: k.GetSerials(), IssuedUntil: fsm.TimeOf(k.GetIssuedUntil())}
		if c.Role == pki.Controller && c.Name == k.GetName() && of.Covers(c.Serial, c.Issued) {
			return fmt.Errorf("the certificate of %s with serial %s is revoked (%s)", c.Actor(), c.Serial, k.GetReason())
		}
	}
	return nil
}

// save replaces the file at once.
func (r *hostRevocations) save(known *sessionpb.RevokedControllers) error {
	if r.path == "" {
		return nil
	}
	content, err := protojson.Marshal(known)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(r.path), ".revocations-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return os.Rename(temp.Name(), r.path)
}
