package fsm

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// maxRevokedSerials bounds one identity, maxRevocations the table: both are searched in every handshake.
	maxRevokedSerials = 256
	maxRevocations    = 4096
	// maxSerial is the longest serial number of a certificate, in hex digits.
	maxSerial = 40
)

var revocableRoles = []string{"controller", "node", "admin", "operator", "viewer"}

// applyRevokeIdentity revokes certificates of an identity, beside those that are revoked already. Nobody revokes
// all of one's own, and of the controllers that vote a quorum stays.
func applyRevokeIdentity(s *State, m Meta, c *fsmpb.RevokeIdentity) (*fsmpb.Outcome, *Rejection) {
	if rej := s.checkRevoke(m, c); rej != nil {
		return nil, rej
	}
	old, known := s.Revocation(c.GetRole(), c.GetName())
	if !known {
		old = &Revocation{Role: c.GetRole(), Name: c.GetName()}
	}
	r := *old
	r.Serials = mergedSerials(old.Serials, c.GetSerials())
	if until := TimeOf(c.GetIssuedUntil()); until.After(r.IssuedUntil) {
		r.IssuedUntil = s.lastTokenUse(until, r.isOf) // such a certificate came after the plan was shown
	}
	switch {
	case slices.Equal(r.Serials, old.Serials) && r.IssuedUntil.Equal(old.IssuedUntil):
		s.revokeJoinTokens(m, r.isOf)
		return &fsmpb.Outcome{}, nil // it is revoked already
	case len(r.Serials) > maxRevokedSerials:
		return nil, Reject(Precondition, "revoke %s/%s: more than %d serial numbers; revoke all that were issued until now instead", r.Role, r.Name, maxRevokedSerials)
	case !known && s.revocations.Len() >= maxRevocations:
		return nil, Reject(Precondition, "revoke %s/%s: %d identities are revoked; unrevoke those whose certificates have expired", r.Role, r.Name, maxRevocations)
	}
	r.Since, r.Reason = m.Index, clip(c.GetReason())
	if rej := s.checkQuorumLeft(&r, c.GetVoters()); rej != nil {
		return nil, rej
	}
	s.putRevocation(r)
	s.revokeJoinTokens(m, r.isOf)
	return &fsmpb.Outcome{}, nil
}

// isOf tells the join tokens of the identity: who has one and its key would get a certificate that is newer than what is revoked.
func (r *Revocation) isOf(t *JoinToken) bool { return t.Role == r.Role && t.Name == r.Name }

func (s *State) checkRevoke(m Meta, c *fsmpb.RevokeIdentity) *Rejection {
	if rej := s.checkRevocable(c.GetRole(), c.GetName()); rej != nil {
		return rej
	}
	until := TimeOf(c.GetIssuedUntil())
	switch {
	case len(c.GetSerials()) == 0 && until.IsZero():
		return Reject(Invalid, "revoke %s/%s: neither a serial number nor a time is named", c.GetRole(), c.GetName())
	case !until.IsZero() && until.After(m.Now):
		return Reject(Invalid, "revoke %s/%s: the time %s is in the future", c.GetRole(), c.GetName(), until.UTC().Format(time.RFC3339))
	case !until.IsZero() && m.Actor == c.GetRole()+"/"+c.GetName():
		return Reject(Precondition, "revoke %s: it is who asks; let another admin do it", m.Actor)
	}
	for _, serial := range c.GetSerials() {
		if !isSerial(serial) {
			return Reject(Invalid, "revoke %s/%s: %q is no serial number in lower case hex", c.GetRole(), c.GetName(), clip(serial))
		}
	}
	return nil
}

func (s *State) checkRevocable(role, name string) *Rejection {
	switch {
	case !s.atLevel(Level3):
		return Reject(Unsupported, "revoke: the cluster runs at feature level %d, which has no revocations", s.cluster.FeatureLevel)
	case !slices.Contains(revocableRoles, role):
		return Reject(Invalid, "revoke: %q is none of the roles %v", clip(role), revocableRoles)
	}
	return checkID("name", name)
}

// isSerial tells whether the text is a serial number as certificates are compared by: in hexadecimal, without leading zeros.
func isSerial(text string) bool {
	if text == "" || text[0] == '0' || len(text) > maxSerial {
		return false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func mergedSerials(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// checkQuorumLeft: more than half of the voters answered with a certificate that is not revoked. One that did not answer
// may be gone, or cut off already: it does not count.
func (s *State) checkQuorumLeft(r *Revocation, voters []*fsmpb.VoterCertificate) *Rejection {
	if r.Role != "controller" {
		return nil
	}
	left := 0
	for _, v := range voters {
		of, revoked := s.Revocation(r.Role, v.GetName())
		if v.GetName() == r.Name {
			of, revoked = r, true
		}
		if v.GetSerial() != "" && (!revoked || !of.Covers(v.GetSerial(), TimeOf(v.GetIssued()))) {
			left++
		}
	}
	if left <= len(voters)/2 {
		return Reject(Precondition, "revoke controller/%s: %d of %d voting controllers would be left, which is no quorum; replace it first with `holdfast members replace`", r.Name, left, len(voters))
	}
	return nil
}

// applyUnrevokeIdentity ends a revocation. One that is not known is ended already; another one of the same
// identity, which began later, is not meant.
func applyUnrevokeIdentity(s *State, _ Meta, c *fsmpb.UnrevokeIdentity) (*fsmpb.Outcome, *Rejection) {
	if rej := s.checkRevocable(c.GetRole(), c.GetName()); rej != nil {
		return nil, rej
	}
	r, known := s.Revocation(c.GetRole(), c.GetName())
	switch {
	case !known:
		return &fsmpb.Outcome{}, nil
	case r.Since != c.GetSince():
		return nil, Reject(StaleEpoch, "unrevoke %s/%s: it was revoked again at index %d, not at %d", r.Role, r.Name, r.Since, c.GetSince())
	}
	s.removeRevocation(r)
	return &fsmpb.Outcome{}, nil
}
