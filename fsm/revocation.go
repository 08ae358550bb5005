package fsm

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Revocation is what is revoked of one identity: no listener takes these certificates.
type Revocation struct {
	Role, Name  string
	Serials     []string  // hex, sorted: certificates
	IssuedUntil time.Time // all certificates that were issued up to then; zero: none
	Since       uint64    // the entry that changed it last
	Reason      string
}

// Covers tells whether a certificate of the identity, by its serial number in hex and by when it was issued, is
// revoked.
func (r *Revocation) Covers(serial string, issued time.Time) bool {
	_, named := slices.BinarySearch(r.Serials, serial)
	return named || !r.IssuedUntil.IsZero() && !issued.After(r.IssuedUntil)
}

// storedRevocation is a revocation in its table, with the hash of what it holds.
type storedRevocation struct {
	Revocation
	hash sum256
}

func (r *storedRevocation) before(o *storedRevocation) bool {
	return cmp.Or(cmp.Compare(r.Role, o.Role), cmp.Compare(r.Name, o.Name)) < 0
}

// Revocations yields all revocations, in order of role and name.
func (s *State) Revocations() iter.Seq[*Revocation] {
	return func(yield func(*Revocation) bool) {
		s.revocations.Scan(func(r *storedRevocation) bool { return yield(&r.Revocation) })
	}
}

// Revocation is what is revoked of an identity.
func (s *State) Revocation(role, name string) (*Revocation, bool) {
	r, ok := s.revocations.Get(&storedRevocation{Revocation: Revocation{Role: role, Name: name}})
	if !ok {
		return nil, false
	}
	return &r.Revocation, true
}

// putRevocation is the only way a revocation enters the state or changes.
func (s *State) putRevocation(r Revocation) {
	s.storeRevocation(r)
	s.writes++
}

func (s *State) storeRevocation(r Revocation) {
	k := &storedRevocation{Revocation: r, hash: hashRevocation(&s.scratch, &r)}
	if old, replaced := s.revocations.Set(k); replaced {
		s.sum = s.sum.minus(old.hash)
	}
	s.sum = s.sum.plus(k.hash)
}

func (s *State) removeRevocation(r *Revocation) {
	if old, ok := s.revocations.Delete(&storedRevocation{Revocation: *r}); ok {
		s.sum = s.sum.minus(old.hash)
		s.writes++
	}
}

func hashRevocation(e *encoder, r *Revocation) sum256 {
	e.begin(kindRevocation)
	e.str(r.Role)
	e.str(r.Name)
	e.u64(uint64(len(r.Serials)))
	for _, serial := range r.Serials {
		e.str(serial)
	}
	e.i64(nanosOf(r.IssuedUntil))
	e.u64(r.Since)
	e.str(r.Reason)
	return e.sum()
}

func (r *Revocation) record() *fsmpb.RevocationRecord {
	return &fsmpb.RevocationRecord{
		Role: r.Role, Name: r.Name, Serials: r.Serials, IssuedUntil: nanosOf(r.IssuedUntil), Since: r.Since, Reason: r.Reason,
	}
}

// revocationSection is where the revocations are in a dump.
const revocationSection = 11

func (x *dumpDecoder) revocation(k *fsmpb.RevocationRecord) error {
	r := Revocation{
		Role: k.GetRole(), Name: k.GetName(), Serials: k.GetSerials(), IssuedUntil: TimeOf(k.GetIssuedUntil()), Since: k.GetSince(), Reason: k.GetReason(),
	}
	x.s.storeRevocation(r)
	return x.checkOrder(revocationSection, r.Role+"\x00"+r.Name)
}

// checkRevocations: revocations are well-formed, and there are none below the level that has them (S112).
func (s *State) checkRevocations() error {
	for r := range s.Revocations() {
		switch {
		case !s.atLevel(Level3), r.Role == "" || r.Name == "", r.Since == 0 || r.Since > s.cluster.Index,
			len(r.Serials) == 0 && r.IssuedUntil.IsZero(), !slices.IsSorted(r.Serials), r.IssuedUntil.After(s.cluster.Time):
			return violated("S112", "the revocation of %s/%s is malformed", r.Role, r.Name)
		}
	}
	return nil
}
