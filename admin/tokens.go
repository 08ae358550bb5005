package admin

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// The conditions of a join token.
const (
	tokenWaiting = "waiting"
	tokenUsed    = "used"
	tokenExpired = "expired"
	tokenRevoked = "revoked"
)

// Tokens lists the join tokens. A token stays listed for some time after it expired.
func (s *Server) Tokens(ctx context.Context, _ *adminpb.TokensRequest) (*adminpb.TokensResponse, error) {
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	resp := &adminpb.TokensResponse{Index: st.Cluster().Index}
	for t := range st.JoinTokens() {
		resp.Tokens = append(resp.Tokens, tokenView(t, s.Now()))
	}
	return resp, nil
}

func tokenView(t *fsm.JoinToken, now time.Time) *adminpb.Token {
	return &adminpb.Token{
		Id: t.ID, Role: t.Role, Name: t.Name, Address: t.Address, Condition: tokenCondition(t, now), Expires: timeView(t.Expires),
		CreatedBy: t.CreatedBy, Created: t.Created, Used: t.Used, Revoked: t.Revoked, CaPin: t.CAPin,
	}
}

func tokenCondition(t *fsm.JoinToken, now time.Time) string {
	switch {
	case t.Revoked != 0:
		return tokenRevoked
	case t.Used != 0:
		return tokenUsed
	case !now.Before(t.Expires):
		return tokenExpired
	}
	return tokenWaiting
}
