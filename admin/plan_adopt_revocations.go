package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// askVoters is needed only where a host remembers that a controller was revoked.
func (s *Server) askVoters(ctx context.Context, all map[fsm.NodeID]holdings) ([]*fsmpb.VoterCertificate, error) {
	ofController := func(r *fsmpb.RevokeIdentity) bool { return r.GetRole() == "controller" }
	for _, h := range all {
		if slices.ContainsFunc(h.revocations, ofController) {
			_, members, err := s.members(ctx)
			return voterCertificates(members), err
		}
	}
	return nil, nil
}

// adoptRevocations takes in the revocations that hosts remember of the lost log. Until then those of controllers are in
// force on these hosts only, and the others nowhere. One that is not meant any more is taken in and ended then, which
// hosts learn from the log: `holdfast certs unrevoke`.
func (a *adoption) adoptRevocations() {
	for _, node := range slices.Sorted(maps.Keys(a.holdings)) {
		for _, r := range a.holdings[node].revocations {
			if a.knowsRevocation(r) || a.reachedTodoLimit() {
				continue
			}
			cmd := proto.CloneOf(r)
			cmd.Voters = a.voters
			what := strings.Join(r.GetSerials(), " ")
			if until := fsm.TimeOf(r.GetIssuedUntil()); !until.IsZero() {
				what = strings.TrimSpace("all issued until " + untilView(until) + " " + what)
			}
			a.addCommand(step{action: "revoke", node: node, detail: fmt.Sprintf("the lost log had revoked %s/%s, %s: %s", r.GetRole(), r.GetName(), what, r.GetReason())},
				&fsmpb.Command{Body: &fsmpb.Command_RevokeIdentity{RevokeIdentity: cmd}})
		}
	}
}

// knowsRevocation tells whether this log revokes all of it.
func (a *adoption) knowsRevocation(r *fsmpb.RevokeIdentity) bool {
	known, ok := a.state.Revocation(r.GetRole(), r.GetName())
	missing := func(serial string) bool { return !slices.Contains(known.Serials, serial) }
	return ok && !fsm.TimeOf(r.GetIssuedUntil()).After(known.IssuedUntil) && !slices.ContainsFunc(r.GetSerials(), missing)
}
