package fsm

import (
	"crypto/subtle"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// maxJoinTokens bounds the table. A token leaves it some time after it expired, when another one is created.
	maxJoinTokens = 256
	// maxAttestedTokens bounds those of which another authority attests the holder: one for each node that enrolled lately.
	maxAttestedTokens = 8192
	// maxAttestedTokensOfNode bounds those of one node that are good: one whose host was broken into has tokens made without end, and
	// each is kept, so that it is good for one key only. Others must still find room.
	maxAttestedTokensOfNode = 64
	// keepExpired is how long a token stays after it expired, so that who comes late is told so.
	keepExpired = 24 * time.Hour
	// MaxJoinTokenTTL and MinJoinTokenTTL bound how long a token is good.
	MaxJoinTokenTTL = 7 * 24 * time.Hour
	// MinJoinTokenTTL is the shortest.
	MinJoinTokenTTL = time.Second
	tokenIDLen      = 16 // hex digits
)

// joinRoles are the roles of processes; people get their certificates from the CA.
var joinRoles = []string{"controller", "node"}

// isTokenID tells whether the text is an id as a token's maker draws one.
func isTokenID(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == tokenIDLen
}

// applyCreateJoinToken records a token. The same one again is the same answer. Those that expired long ago leave the
// state, and the others of the same identity are revoked: the secret of one may have been lost with the answer,
// and one that was used would go on to bring certificates to its host.
func applyCreateJoinToken(s *State, m Meta, c *fsmpb.CreateJoinToken) (*fsmpb.Outcome, *Rejection) {
	if rej := s.checkCreateJoinToken(c); rej != nil {
		return nil, rej
	}
	if old, known := s.JoinToken(c.GetTokenId()); known {
		if old.Revoked == 0 && old.Role == c.GetRole() && old.Name == c.GetName() && equalHash(old.SecretHash, c.GetSecretHash()) {
			return &fsmpb.Outcome{}, nil
		}
		return nil, Reject(Precondition, "create join token %s: there is one with this id; create another one", c.GetTokenId())
	}
	drop := s.droppedJoinTokens(m.Now, false)
	if s.countJoinTokens(false)-len(drop) >= maxJoinTokens {
		return nil, Reject(Precondition, "create a join token for %s/%s: %d wait or were used lately; revoke some with `holdfast tokens revoke`, or wait until they expire", c.GetRole(), c.GetName(), maxJoinTokens)
	}
	for _, id := range drop {
		s.removeJoinToken(id)
	}
	s.revokeJoinTokens(m, func(t *JoinToken) bool { return t.Role == c.GetRole() && t.Name == c.GetName() })
	s.putJoinToken(JoinToken{
		ID: c.GetTokenId(), SecretHash: c.GetSecretHash(), Role: c.GetRole(), Name: c.GetName(), CAPin: c.GetCaPin(), Address: c.GetAddress(),
		Expires: m.Now.Add(time.Duration(c.GetTtl())), CreatedBy: m.Actor, Created: m.Index,
	})
	return &fsmpb.Outcome{}, nil
}

func (s *State) checkCreateJoinToken(c *fsmpb.CreateJoinToken) *Rejection {
	ttl := time.Duration(c.GetTtl())
	switch {
	case !s.atLevel(Level3):
		return Reject(Unsupported, "create a join token: the cluster runs at feature level %d, which has none; `holdfast upgrade finish` raises it", s.cluster.FeatureLevel)
	case !slices.Contains(joinRoles, c.GetRole()):
		return Reject(Invalid, "create a join token: %q is none of the roles %v", clip(c.GetRole()), joinRoles)
	case !isTokenID(c.GetTokenId()):
		return Reject(Invalid, "create a join token: %q is no id of a token", clip(c.GetTokenId()))
	case len(c.GetSecretHash()) != hashLen || len(c.GetCaPin()) != hashLen:
		return Reject(Invalid, "create a join token for %s/%s: the hash of the secret and the pin of the CA have %d bytes each", c.GetRole(), clip(c.GetName()), hashLen)
	case ttl < MinJoinTokenTTL || ttl > MaxJoinTokenTTL:
		return Reject(Invalid, "create a join token for %s/%s: it may be good for %s to %s, not %s", c.GetRole(), clip(c.GetName()), MinJoinTokenTTL, MaxJoinTokenTTL, ttl)
	case c.GetAddress() != "" && !isHostAddress(c.GetAddress()):
		return Reject(Invalid, "create a join token for %s/%s: %q is neither an IP address nor a host name", c.GetRole(), clip(c.GetName()), clip(c.GetAddress()))
	}
	return checkID("name", c.GetName())
}

// isHostAddress tells an IP address or a host name, without a port.
func isHostAddress(text string) bool {
	if len(text) > 253 || strings.Contains(text, "%") { // a zone of IPv6 is of one host, and of any length
		return false
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '.' && c != '-' {
			return false
		}
	}
	return text[0] != '.' && text[0] != '-'
}

// droppedJoinTokens are the tokens, attested ones or the others, that leave when another one comes: those that expired long ago;
// where that makes no room, all that expired; where that does not either, the revoked ones too.
func (s *State) droppedJoinTokens(now time.Time, attested bool) (drop []string) {
	var expired, revoked []string
	for t := range s.JoinTokens() {
		switch {
		case t.Attested() != attested:
		case now.Sub(t.Expires) >= keepExpired:
			drop = append(drop, t.ID)
		case !now.Before(t.Expires):
			expired = append(expired, t.ID)
		case t.Revoked != 0 && !attested:
			revoked = append(revoked, t.ID)
		}
	}
	for _, more := range [][]string{expired, revoked} {
		if s.countJoinTokens(attested)-len(drop) >= maxTokens(attested) {
			drop = append(drop, more...)
		}
	}
	return drop
}

func (s *State) countJoinTokens(attested bool) (n int) {
	for t := range s.JoinTokens() {
		if t.Attested() == attested {
			n++
		}
	}
	return n
}

func maxTokens(attested bool) int {
	if attested {
		return maxAttestedTokens
	}
	return maxJoinTokens
}

// revokeJoinTokens revokes tokens, used ones too: the host of a used one may ask for another certificate until it expires.
func (s *State) revokeJoinTokens(m Meta, of func(*JoinToken) bool) {
	var good []JoinToken
	for t := range s.JoinTokens() {
		if t.Revoked == 0 && of(t) {
			good = append(good, *t)
		}
	}
	for _, t := range good {
		t.Revoked = m.Index
		s.putJoinToken(t)
	}
}

// lastTokenUse is when the last of the tokens was used, and no earlier than since.
func (s *State) lastTokenUse(since time.Time, of func(*JoinToken) bool) time.Time {
	for t := range s.JoinTokens() {
		if of(t) && t.UsedAt.After(since) {
			since = t.UsedAt
		}
	}
	return since
}

// applyUseJoinToken binds the token to a key, before anything is signed for it: of two hosts with one token, one gets a
// certificate, whichever controllers they ask.
func applyUseJoinToken(s *State, m Meta, c *fsmpb.UseJoinToken) (*fsmpb.Outcome, *Rejection) {
	if rej := s.CheckJoinToken(m.Now, c); rej != nil {
		return nil, rej
	}
	old, _ := s.JoinToken(c.GetTokenId())
	if old.Used != 0 {
		return &fsmpb.Outcome{}, nil // the same host, whose answer was lost
	}
	t := *old
	t.Used, t.UsedAt, t.KeyHash = m.Index, m.Now, c.GetKeyHash()
	s.putJoinToken(t)
	return &fsmpb.Outcome{}, nil
}

// CheckJoinToken is nil when the token may be used, or was used, as the command says. Who does not know the secret
// learns nothing of the token, not even whether it is there.
func (s *State) CheckJoinToken(now time.Time, c *fsmpb.UseJoinToken) *Rejection {
	t, known := s.JoinToken(c.GetTokenId())
	switch {
	case len(c.GetKeyHash()) != hashLen:
		return Reject(Invalid, "use a join token: the hash of a public key has %d bytes", hashLen)
	case !known || !equalHash(t.SecretHash, c.GetSecretHash()):
		return Reject(Unauthenticated, "use a join token: it is not known here, or was dropped after it expired: create another one with `holdfast tokens create`")
	case t.Role != c.GetRole() || t.Name != c.GetName():
		return Reject(Precondition, "use join token %s: it is for %s/%s, not for %s/%s", t.ID, t.Role, t.Name, clip(c.GetRole()), clip(c.GetName()))
	case t.Revoked != 0:
		return Reject(Precondition, "use join token %s: it was revoked at index %d: create another one with `holdfast tokens create`", t.ID, t.Revoked)
	case !now.Before(t.Expires):
		return Reject(Precondition, "use join token %s: it expired at %s: create another one with `holdfast tokens create`", t.ID, t.Expires.UTC().Format(time.RFC3339))
	case t.Used != 0 && !equalHash(t.KeyHash, c.GetKeyHash()):
		return Reject(Precondition, "use join token %s: it was used at index %d for another key: if that was not you, revoke %s/%s with `holdfast certs revoke`", t.ID, t.Used, t.Role, t.Name)
	}
	return nil
}

// equalHash takes as long for all hashes of one length.
func equalHash(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// applyRevokeJoinToken revokes a token. One that is revoked, or has been dropped, is so already.
func applyRevokeJoinToken(s *State, m Meta, c *fsmpb.RevokeJoinToken) (*fsmpb.Outcome, *Rejection) {
	if !s.atLevel(Level3) {
		return nil, Reject(Unsupported, "revoke a join token: the cluster runs at feature level %d, which has none", s.cluster.FeatureLevel)
	}
	old, known := s.JoinToken(c.GetTokenId())
	if !known || old.Revoked != 0 {
		return &fsmpb.Outcome{}, nil
	}
	t := *old
	t.Revoked = m.Index
	s.putJoinToken(t)
	return &fsmpb.Outcome{}, nil
}
