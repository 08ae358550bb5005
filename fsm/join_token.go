package fsm

import (
	"cmp"
	"iter"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// JoinToken lets the host that has its secret get the certificate of one identity, once.
type JoinToken struct {
	ID         string
	SecretHash []byte // SHA-256 of the public key that belongs to the secret; the state never has the secret
	Role, Name string
	CAPin      []byte // SHA-256 of the CA's public key
	Address    string // of the host, without a port; empty: none
	Expires    time.Time
	CreatedBy  string    // the actor
	Created    uint64    // entries
	Used       uint64    // zero: it was not used
	UsedAt     time.Time // when, by the log; certificates that it brings are dated so
	KeyHash    []byte    // SHA-256 of the public key that it was used for
	Revoked    uint64    // zero: it is not revoked
}

// Attested tells whether another authority gave the token to its holder. Nobody has to create such a token: a controller
// records it when it is used.
func (t *JoinToken) Attested() bool { return hasRole(t.CreatedBy, "controller/") }

// storedJoinToken is a token in its table, with the hash of what it holds.
type storedJoinToken struct {
	JoinToken
	hash sum256
}

func (t *storedJoinToken) before(o *storedJoinToken) bool { return cmp.Less(t.ID, o.ID) }

// JoinTokens yields all tokens, in the order of their ids.
func (s *State) JoinTokens() iter.Seq[*JoinToken] {
	return func(yield func(*JoinToken) bool) {
		s.joinTokens.Scan(func(t *storedJoinToken) bool { return yield(&t.JoinToken) })
	}
}

// JoinToken is the token with an id.
func (s *State) JoinToken(id string) (*JoinToken, bool) {
	t, ok := s.joinTokens.Get(&storedJoinToken{JoinToken: JoinToken{ID: id}})
	if !ok {
		return nil, false
	}
	return &t.JoinToken, true
}

// putJoinToken is the only way a token enters the state or changes.
func (s *State) putJoinToken(t JoinToken) {
	s.storeJoinToken(t)
	s.writes++
}

func (s *State) storeJoinToken(t JoinToken) {
	k := &storedJoinToken{JoinToken: t, hash: hashJoinToken(&s.scratch, &t)}
	if old, replaced := s.joinTokens.Set(k); replaced {
		s.sum = s.sum.minus(old.hash)
	}
	s.sum = s.sum.plus(k.hash)
}

func (s *State) removeJoinToken(id string) {
	if old, ok := s.joinTokens.Delete(&storedJoinToken{JoinToken: JoinToken{ID: id}}); ok {
		s.sum = s.sum.minus(old.hash)
		s.writes++
	}
}

func hashJoinToken(e *encoder, t *JoinToken) sum256 {
	e.begin(kindJoinToken)
	e.str(t.ID)
	e.bytes(t.SecretHash)
	e.str(t.Role)
	e.str(t.Name)
	e.bytes(t.CAPin)
	e.str(t.Address)
	e.i64(nanosOf(t.Expires))
	e.str(t.CreatedBy)
	e.u64(t.Created)
	e.u64(t.Used)
	e.bytes(t.KeyHash)
	e.u64(t.Revoked)
	if !t.UsedAt.IsZero() {
		e.u64(fieldUsedAt)
		e.i64(nanosOf(t.UsedAt))
	}
	return e.sum()
}

func (t *JoinToken) record() *fsmpb.JoinTokenRecord {
	return &fsmpb.JoinTokenRecord{
		TokenId: t.ID, SecretHash: t.SecretHash, Role: t.Role, Name: t.Name, CaPin: t.CAPin, Address: t.Address, Expires: nanosOf(t.Expires),
		CreatedBy: t.CreatedBy, Created: t.Created, Used: t.Used, KeyHash: t.KeyHash, Revoked: t.Revoked,
		UsedAt: nanosOf(t.UsedAt),
	}
}

// fieldUsedAt begins what is hashed of a time of use.
const fieldUsedAt = 137

// joinTokenSection is where the tokens are in a dump.
const joinTokenSection = 12

func (x *dumpDecoder) joinToken(k *fsmpb.JoinTokenRecord) error {
	t := JoinToken{
		ID: k.GetTokenId(), SecretHash: k.GetSecretHash(), Role: k.GetRole(), Name: k.GetName(), CAPin: k.GetCaPin(), Address: k.GetAddress(),
		Expires: TimeOf(k.GetExpires()), CreatedBy: k.GetCreatedBy(), Created: k.GetCreated(), Used: k.GetUsed(), KeyHash: k.GetKeyHash(), Revoked: k.GetRevoked(),
		UsedAt: TimeOf(k.GetUsedAt()),
	}
	x.s.storeJoinToken(t)
	return x.checkOrder(joinTokenSection, t.ID)
}

// checkJoinTokens: tokens are well-formed and bounded, and there are none below the level that has them (S112).
func (s *State) checkJoinTokens() error {
	for _, attested := range []bool{false, true} {
		if n := s.countJoinTokens(attested); n > maxTokens(attested) {
			return violated("S112", "there are %d join tokens, more than %d", n, maxTokens(attested))
		}
	}
	for t := range s.JoinTokens() {
		switch {
		case !s.atLevel(Level3), !isTokenID(t.ID), len(t.SecretHash) != hashLen, len(t.CAPin) != hashLen, t.Role == "" || t.Name == "", t.CreatedBy == "",
			t.Expires.IsZero(), t.Created == 0 || t.Created > s.cluster.Index, t.Used > s.cluster.Index, t.Revoked > s.cluster.Index,
			(t.Used != 0) != (len(t.KeyHash) == hashLen), (t.Used != 0) == t.UsedAt.IsZero(), t.UsedAt.After(s.cluster.Time):
			return violated("S112", "join token %s of %s/%s is malformed", t.ID, t.Role, t.Name)
		}
	}
	return nil
}
