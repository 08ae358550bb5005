package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxAttestedBy bounds what is recorded of an authority and of whom it names.
const maxAttestedBy = 1024

// applyUseAttestedToken binds a token that another authority gave a node to the node's key, before anything is signed for it. The
// authority says that the token is the node's, not that the node may take part: what an operator revoked stays so (S168). The
// tokens that the node used before end: it has a newer one.
func applyUseAttestedToken(s *State, m Meta, c *fsmpb.UseAttestedToken) (*fsmpb.Outcome, *Rejection) {
	if rej := s.CheckAttestedToken(m.Now, c); rej != nil {
		return nil, rej
	}
	if _, known := s.JoinToken(c.GetTokenId()); known {
		return &fsmpb.Outcome{}, nil // the same host, whose answer was lost
	}
	drop := s.droppedJoinTokens(m.Now, true)
	if s.countJoinTokens(true)-len(drop) >= maxAttestedTokens {
		return nil, Reject(Busy, "enrol node/%s: %d nodes enrolled lately; ask again when their tokens have expired", c.GetName(), maxAttestedTokens)
	}
	for _, id := range drop {
		s.removeJoinToken(id)
	}
	s.revokeJoinTokens(m, func(t *JoinToken) bool { return t.Attested() && t.Role == "node" && t.Name == c.GetName() })
	s.putJoinToken(JoinToken{
		ID: c.GetTokenId(), SecretHash: c.GetSecretHash(), Role: "node", Name: c.GetName(), CAPin: c.GetCaPin(),
		Expires: m.Now.Add(time.Duration(c.GetTtl())), CreatedBy: m.Actor, Created: m.Index,
		Used: m.Index, UsedAt: m.Now, KeyHash: c.GetKeyHash(),
	})
	return &fsmpb.Outcome{}, nil
}

// CheckAttestedToken is nil when the token may be used, or was used, as the command says.
func (s *State) CheckAttestedToken(now time.Time, c *fsmpb.UseAttestedToken) *Rejection {
	ttl := time.Duration(c.GetTtl())
	switch {
	case !s.atLevel(Level3):
		return Reject(Unsupported, "enrol by an attested token: the cluster runs at feature level %d, which has none; `holdfast upgrade finish` raises it", s.cluster.FeatureLevel)
	case !isTokenID(c.GetTokenId()):
		return Reject(Invalid, "enrol by an attested token: %q is no id of a token", clip(c.GetTokenId()))
	case len(c.GetSecretHash()) != hashLen || len(c.GetCaPin()) != hashLen || len(c.GetKeyHash()) != hashLen:
		return Reject(Invalid, "enrol node/%s: the hashes of the token and of the public key and the pin of the CA have %d bytes each", clip(c.GetName()), hashLen)
	case ttl < MinJoinTokenTTL || ttl > MaxJoinTokenTTL:
		return Reject(Invalid, "enrol node/%s: a token may be good for %s to %s, not %s", clip(c.GetName()), MinJoinTokenTTL, MaxJoinTokenTTL, ttl)
	case c.GetAttestedBy() == "" || len(c.GetAttestedBy()) > maxAttestedBy:
		return Reject(Invalid, "enrol node/%s: who attests it is not said, or in more than %d bytes", clip(c.GetName()), maxAttestedBy)
	}
	if rej := checkID("name", c.GetName()); rej != nil {
		return rej
	}
	if of, revoked := s.Revocation("node", c.GetName()); revoked && !of.IssuedUntil.IsZero() {
		return Reject(Precondition, "enrol node/%s: an operator revoked it at index %d (%s), and it stays so until one ends that with `holdfast certs unrevoke node %s`, or gives it a certificate by a token of `holdfast tokens create`",
			c.GetName(), of.Since, of.Reason, c.GetName())
	}
	of, known := s.JoinToken(c.GetTokenId())
	switch {
	case !known:
		return s.checkAttestedRoom(now, c.GetName())
	case !of.Attested():
		return Reject(Precondition, "enrol node/%s: an operator made a token with the id %s: ask again with another token", c.GetName(), of.ID)
	}
	return s.CheckJoinToken(now, &fsmpb.UseJoinToken{TokenId: c.GetTokenId(), SecretHash: c.GetSecretHash(), Role: "node", Name: c.GetName(), KeyHash: c.GetKeyHash()})
}

// checkAttestedRoom is nil where the node may use another token.
func (s *State) checkAttestedRoom(now time.Time, name string) *Rejection {
	good := 0
	for t := range s.JoinTokens() {
		if t.Attested() && t.Name == name && now.Before(t.Expires) {
			good++
		}
	}
	if good >= maxAttestedTokensOfNode {
		return Reject(Busy, "enrol node/%s: it used %d tokens that are good still; ask again when some have expired", name, maxAttestedTokensOfNode)
	}
	return nil
}
