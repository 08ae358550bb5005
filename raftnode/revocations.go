package raftnode

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// revocations are the certificates that this member's listeners refuse: those of its own state, applied or
// recorded, so that they are enforced without a quorum too.
type revocations struct {
	creds   *pki.Credentials
	log     *slog.Logger
	record  func(store.Revocations) error
	current atomic.Pointer[revokedSet]
}

// revokedSet is what was revoked at an index, by identity.
type revokedSet struct {
	index uint64
	by    map[string]*fsm.Revocation
}

// newRevocations begins with what was recorded: the state may be older until the log is applied.
func newRevocations(c *core, recorded store.Revocations) *revocations {
	r := &revocations{creds: c.cfg.Credentials, log: c.log, record: c.storage.recordRevocations}
	set := &revokedSet{index: recorded.Index, by: map[string]*fsm.Revocation{}}
	for _, k := range recorded.Revoked {
		set.by[k.Role+"/"+k.Name] = &fsm.Revocation{Role: k.Role, Name: k.Name, Serials: k.Serials, IssuedUntil: k.IssuedUntil, Reason: k.Reason}
	}
	r.current.Store(set)
	r.creds.SetRevoked(r.check)
	return r
}

// check is nil for a certificate that is not revoked.
func (r *revocations) check(c pki.Certificate) error {
	of := r.current.Load().by[c.Actor()]
	if of == nil || !of.Covers(c.Serial, c.Issued) {
		return nil
	}
	return fmt.Errorf("the certificate of %s with serial %s is revoked (%s): issue another one with `holdfast ca issue`, or end the revocation with `holdfast certs unrevoke`", c.Actor(), c.Serial, of.Reason)
}

// update takes the revocations of the state, unless what is known is newer. Open connections of
// certificates that it revokes are closed at once.
func (r *revocations) update(s *fsm.State) {
	known := r.current.Load()
	set := &revokedSet{index: s.Cluster().Index, by: map[string]*fsm.Revocation{}}
	if set.index < known.index {
		return
	}
	recorded := store.Revocations{Index: set.index}
	for of := range s.Revocations() {
		set.by[of.Role+"/"+of.Name] = of
		recorded.Revoked = append(recorded.Revoked, store.Revoked{Role: of.Role, Name: of.Name, Serials: of.Serials, IssuedUntil: of.IssuedUntil, Reason: of.Reason})
	}
	r.current.Store(set)
	r.creds.Recheck()
	if len(set.by)+len(known.by) == 0 {
		return
	}
	if err := r.record(recorded); err != nil {
		r.log.Error("the revocations are in force, and were not recorded for a start without a quorum", "error", err)
	}
}
