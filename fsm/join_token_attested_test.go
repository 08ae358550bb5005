package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// attestedToken is the use of the n-th token by a node that has the key k.
func attestedToken(n int, name string, k byte) *fsmpb.UseAttestedToken {
	return &fsmpb.UseAttestedToken{
		TokenId: fmt.Sprintf("%016x", n), SecretHash: bytes.Repeat([]byte{byte(n)}, hashLen), CaPin: bytes.Repeat([]byte{9}, hashLen),
		Name: name, KeyHash: bytes.Repeat([]byte{k}, hashLen), Ttl: int64(10 * time.Minute), AttestedBy: "pod holdfast/holdfast-node-x",
	}
}

func TestS168_UseAttestedToken(t *testing.T) {
	use := attestedToken(1, "n9", 1)
	for name, tc := range map[string]struct {
		before []proto.Message
		wait   uint64
		actor  string
		do     *fsmpb.UseAttestedToken
		want   Reason
		why    string
	}{
		"once":                       {do: use},
		"again with the same key":    {before: []proto.Message{use}, do: use},
		"S168: with another key":     {before: []proto.Message{use}, do: attestedToken(1, "n9", 2), want: Precondition, why: "for another key"},
		"S168: for another node":     {before: []proto.Message{use}, do: attestedToken(1, "n8", 1), want: Precondition, why: "it is for node/n9"},
		"another secret":             {before: []proto.Message{use}, do: tokenWith(use, func(c *fsmpb.UseAttestedToken) { c.SecretHash = bytes.Repeat([]byte{7}, hashLen) }), want: Unauthenticated, why: "not known"},
		"the same key, late":         {before: []proto.Message{use}, wait: 7200, do: use, want: Precondition, why: "it expired at"},
		"behind a newer one":         {before: []proto.Message{use, attestedToken(2, "n9", 2)}, do: use, want: Precondition, why: "it was revoked at index"},
		"a newer one":                {before: []proto.Message{use}, do: attestedToken(2, "n9", 2)},
		"behind an operator's":       {before: []proto.Message{createToken(2, "node", "n9")}, do: use},
		"one that an operator made":  {before: []proto.Message{createToken(1, "node", "n9")}, do: use, want: Precondition, why: "an operator made a token"},
		"S168: the node is revoked":  {before: []proto.Message{revokeUntil("node", "n9", start)}, do: use, want: Precondition, why: "an operator revoked it at index"},
		"it was revoked once":        {before: []proto.Message{revokeUntil("node", "n9", start), &fsmpb.UnrevokeIdentity{Role: "node", Name: "n9"}}, do: use},
		"one certificate is revoked": {before: []proto.Message{revokeSerials("node", "n9", "aa")}, do: use},
		"S168: it is revoked then":   {before: []proto.Message{use, revokeUntil("node", "n9", start)}, do: use, want: Precondition, why: "an operator revoked it at index"},
		"another one is revoked":     {before: []proto.Message{revokeUntil("node", "n8", start)}, do: use},
		"by a node":                  {actor: "node/n9", do: use, want: Forbidden},
		"without a name":             {do: attestedToken(1, "", 1), want: Invalid},
		"a short id":                 {do: tokenWith(use, func(c *fsmpb.UseAttestedToken) { c.TokenId = "12" }), want: Invalid, why: "no id"},
		"without a key":              {do: tokenWith(use, func(c *fsmpb.UseAttestedToken) { c.KeyHash = nil }), want: Invalid, why: "public key"},
		"without a pin":              {do: tokenWith(use, func(c *fsmpb.UseAttestedToken) { c.CaPin = nil }), want: Invalid, why: "pin of the CA"},
		"for ever":                   {do: tokenWith(use, func(c *fsmpb.UseAttestedToken) { c.Ttl = int64(MaxJoinTokenTTL) + 1 }), want: Invalid, why: "good for"},
		"of nobody":                  {do: tokenWith(use, func(c *fsmpb.UseAttestedToken) { c.AttestedBy = "" }), want: Invalid, why: "who attests it"},
		"of a long story":            {do: tokenWith(use, func(c *fsmpb.UseAttestedToken) { c.AttestedBy = strings.Repeat("x", maxAttestedBy+1) }), want: Invalid, why: "who attests it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, c := range tc.before {
				actor := admin
				switch of := c.(type) {
				case *fsmpb.UseAttestedToken:
					actor = controller
				case *fsmpb.UnrevokeIdentity:
					r, _ := w.s.Revocation(of.GetRole(), of.GetName())
					of.Since = r.Since
				}
				w.ok(actor, proto.Clone(c))
			}
			w.index += tc.wait
			actor := controller
			if tc.actor != "" {
				actor = tc.actor
			}
			for range 2 {
				out := w.apply(actor, proto.CloneOf(tc.do))
				require.Equal(t, tc.want, reasonOf(out))
				require.Contains(t, out.GetRejection().GetMessage(), tc.why)
				require.NoError(t, w.s.Check())
				require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
			}
			if tc.want == 0 {
				got, _ := restored(t, w.s).JoinToken(tc.do.GetTokenId())
				require.Equal(t, tc.do.GetKeyHash(), got.KeyHash)
				require.NotZero(t, got.Used)
			}
		})
	}
}

// A certificate that came after the plan of a revocation was shown is covered by it, as that of an operator's token is.
func TestS168_ARevocationCoversWhatAnAttestedTokenBroughtSinceItsPlan(t *testing.T) {
	w := newWorld(t)
	planned := w.s.Cluster().Time
	w.twice(controller, attestedToken(1, "n9", 1))
	used, _ := restored(t, w.s).JoinToken(attestedToken(1, "n9", 1).GetTokenId())
	require.True(t, used.UsedAt.After(planned))
	w.twice(admin, revokeUntil("node", "n9", planned))
	r, _ := w.s.Revocation("node", "n9")
	require.True(t, r.Covers("aa", used.UsedAt))
}

// S168: one node that enrols without end keeps no other one out.
func TestS168_OneNodeLeavesRoomForOthers(t *testing.T) {
	w := newWorld(t)
	tokens := 0
	for ; tokens <= maxAttestedTokensOfNode; tokens++ {
		if reasonOf(w.apply(controller, attestedToken(tokens, "n9", 1))) == Busy {
			break
		}
	}
	require.Equal(t, maxAttestedTokensOfNode, tokens)
	before := w.s.Hash()
	require.NotNil(t, w.s.CheckAttestedToken(w.s.Cluster().Time, attestedToken(tokens, "n9", 1)), "before anything is proposed")
	require.Equal(t, before, w.s.Hash())
	w.twice(controller, attestedToken(tokens-1, "n9", 1))
	w.twice(controller, attestedToken(1000, "n8", 1))
	w.index += 3600
	w.twice(controller, attestedToken(1001, "n9", 1))
}

// An operator's token for a node outlives that the node enrols by itself, and each kind has room of its own.
func TestAttestedTokensAndOthersAreBoundedApart(t *testing.T) {
	w := newWorld(t)
	w.ok(admin, createToken(1, "node", "n9"))
	w.twice(controller, attestedToken(2, "n9", 1))
	w.twice(controller, useToken(createToken(1, "node", "n9"), 1))
	for n := range maxAttestedTokens - 1 {
		w.s.storeJoinToken(JoinToken{
			ID: fmt.Sprintf("f%015x", n), SecretHash: make([]byte, hashLen), CAPin: make([]byte, hashLen), KeyHash: make([]byte, hashLen), Role: "node", Name: fmt.Sprint("m", n),
			CreatedBy: controller, Created: 1, Used: 1, UsedAt: start, Expires: w.s.Cluster().Time.Add(time.Hour),
		})
	}
	require.NoError(t, w.s.Check())
	for range 2 {
		require.Equal(t, Busy, reasonOf(w.apply(controller, attestedToken(3, "n7", 1))))
	}
	w.twice(admin, createToken(4, "node", "n7"))
	w.index += 2 * 3600
	w.twice(controller, attestedToken(3, "n7", 1))
	require.Equal(t, 1, w.s.countJoinTokens(true), "expired ones make room")
	require.NoError(t, w.s.Check())
}
