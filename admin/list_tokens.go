package admin

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// TokenList lists join tokens.
var TokenList listing.Lister = tokenList

var tokenList = &listing.List[*adminpb.TokensResponse, *adminpb.Token]{
	Field: "tokens",
	Rows:  (*adminpb.TokensResponse).GetTokens,
	Item:  func(t *adminpb.Token) proto.Message { return t },
	ID:    (*adminpb.Token).GetId,
	Columns: []listing.Column[*adminpb.Token]{
		{Name: "ID", Cell: func(t *adminpb.Token) any { return t.GetId() }},
		{Name: "ROLE", Cell: func(t *adminpb.Token) any { return t.GetRole() }},
		{Name: "NAME", Cell: func(t *adminpb.Token) any { return t.GetName() }},
		{Name: "CONDITION", Cell: func(t *adminpb.Token) any { return t.GetCondition() }},
		{Name: "EXPIRES", Cell: func(t *adminpb.Token) any { return t.GetExpires() }},
		{Name: "CREATED BY", Cell: func(t *adminpb.Token) any { return t.GetCreatedBy() }},
		{Name: "ADDRESS", Cell: func(t *adminpb.Token) any { return t.GetAddress() }},
		{Name: "CREATED AT", Wide: true, Cell: func(t *adminpb.Token) any { return indexCell(t.GetCreated()) }},
		{Name: "USED AT", Wide: true, Cell: func(t *adminpb.Token) any { return indexCell(t.GetUsed()) }},
		{Name: "REVOKED AT", Wide: true, Cell: func(t *adminpb.Token) any { return indexCell(t.GetRevoked()) }},
	},
	Selectors: []listing.Selector[*adminpb.Token]{
		{Flag: "role", Usage: "only tokens of this `role`: controller, node", Valid: []string{"controller", "node"},
			Of: func(t *adminpb.Token) []string { return []string{t.GetRole()} }},
		listing.Conditions(tokenIs(tokenWaiting), tokenIs(tokenUsed), tokenIs(tokenExpired), tokenIs(tokenRevoked)),
	},
	Foot: func(a *adminpb.TokensResponse) []string { return []string{fmt.Sprintf("at index %d", a.GetIndex())} },
}

func tokenIs(condition string) listing.Condition[*adminpb.Token] {
	return listing.Condition[*adminpb.Token]{Name: condition, Holds: func(t *adminpb.Token) bool { return t.GetCondition() == condition }}
}
