package session

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const (
	// clockTolerance is how far a controller's clock may be ahead of the host's: a later time of a revocation does not
	// count, so that nobody revokes certificates that are still to be issued.
	clockTolerance = 5 * time.Minute
	// maxRemembered bounds what is remembered of lost logs.
	maxRemembered = 4096
)

// nextRevocations is what the host knows once a controller sent a list; nil: what it knows stays.
//
// The newer list counts, in order of epochs. A list of a later incarnation comes from a restored log: what that does not
// know of the list before is remembered, and goes on being refused, until a list has it. From then on the log decides.
// That the restored log revokes who sent it does not end it: what a lost log said is true whoever passed it on.
//
// A controller whose key was stolen can send any list under any epoch. So the list of a controller that the host does not
// refuse takes the place of one whose sender it revokes, whatever the epochs; and no list revokes what is issued later:
// controllers with new certificates are accepted, whatever was said of them. What the stolen key said in the name of a
// log that was lost stays until that is taken in and ended: refusing too much has a remedy, accepting a thief has none.
func nextRevocations(known, sent *sessionpb.RevokedControllers, from pki.Certificate, now time.Time) *sessionpb.RevokedControllers {
	voided := revokesSender(sent, known.GetFrom())
	at, before := fsm.EpochFrom(sent.GetAt()), fsm.EpochFrom(known.GetAt())
	if at.Compare(before) <= 0 && !voided {
		return nil
	}
	next := &sessionpb.RevokedControllers{
		At: sent.GetAt(), From: nameOf(from), Controllers: boundedAt(sent.GetControllers(), now), Others: boundedAt(sent.GetOthers(), now),
	}
	remembered := slices.Clone(known.GetRemembered())
	if at.Incarnation > before.Incarnation {
		for _, k := range slices.Concat(known.GetControllers(), known.GetOthers()) {
			remembered = append(remembered, &sessionpb.RememberedRevocation{Revoked: k, At: known.GetAt(), From: known.GetFrom()})
		}
	}
	for _, m := range remembered {
		said := fsm.EpochFrom(m.GetAt())
		ended := said.Incarnation == at.Incarnation && said.Compare(at) <= 0 // by the log that said it
		if !ended && !knows(next, m.GetRevoked()) && len(next.GetRemembered()) < maxRemembered {
			next.Remembered = append(next.Remembered, m)
		}
	}
	return next
}

func nameOf(c pki.Certificate) *sessionpb.CertificateName {
	if c.Name == "" {
		return nil
	}
	return &sessionpb.CertificateName{Name: c.Name, Serial: c.Serial, Issued: c.Issued.UnixNano()}
}

// revokesSender tells whether the list revokes the certificate with which another list was sent.
func revokesSender(list *sessionpb.RevokedControllers, from *sessionpb.CertificateName) bool {
	return from != nil && slices.ContainsFunc(list.GetControllers(), func(k *sessionpb.RevokedController) bool {
		return revokes(k, from.GetName(), from.GetSerial(), time.Unix(0, from.GetIssued()))
	})
}

// boundedAt keeps the times as they were sent, and notes for how much of each the host takes the controller's word now.
func boundedAt(all []*sessionpb.RevokedController, now time.Time) []*sessionpb.RevokedController {
	latest := now.Add(clockTolerance).UnixNano()
	bounded := make([]*sessionpb.RevokedController, 0, len(all))
	for _, k := range all {
		k = proto.CloneOf(k)
		if k.CountsUntil = 0; k.GetIssuedUntil() > latest {
			k.CountsUntil = latest
		}
		bounded = append(bounded, k)
	}
	return bounded
}

// knows tells whether the list revokes all that the entry does.
func knows(list *sessionpb.RevokedControllers, of *sessionpb.RevokedController) bool {
	return slices.ContainsFunc(slices.Concat(list.GetControllers(), list.GetOthers()), func(k *sessionpb.RevokedController) bool {
		missing := func(serial string) bool { return !slices.Contains(k.GetSerials(), serial) }
		return k.GetRole() == of.GetRole() && k.GetName() == of.GetName() && k.GetIssuedUntil() >= of.GetIssuedUntil() &&
			!slices.ContainsFunc(of.GetSerials(), missing)
	})
}

func hasRevocations(r *sessionpb.RevokedControllers) bool {
	return len(r.GetControllers())+len(r.GetOthers())+len(r.GetRemembered()) > 0
}

// items are what is remembered, for an operator who adopts the host.
func (r *hostRevocations) items() (all []executor.InventoryItem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.known.GetRemembered() {
		k := m.GetRevoked()
		of := &fsmpb.RevokeIdentity{Role: k.GetRole(), Name: k.GetName(), Serials: k.GetSerials(), IssuedUntil: k.GetIssuedUntil(), Reason: k.GetReason()}
		if of.GetRole() == "" {
			of.Role = controllerRole
		}
		if text, err := proto.Marshal(of); err == nil { // it always does
			all = append(all, executor.InventoryItem{Kind: executor.KindRevocation, Held: string(text)})
		}
	}
	return all
}

// RememberedRevocations counts the revocations that a lost log had and no later one was seen to know.
func (c *Client) RememberedRevocations() int {
	c.revocations.mu.Lock()
	defer c.revocations.mu.Unlock()
	return len(c.revocations.known.GetRemembered())
}
