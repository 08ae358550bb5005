package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// createToken is a command for the n-th token; its secret's hash is filled with n.
func createToken(n int, role, name string) *fsmpb.CreateJoinToken {
	return &fsmpb.CreateJoinToken{
		TokenId: fmt.Sprintf("%016x", n), SecretHash: bytes.Repeat([]byte{byte(n)}, hashLen), CaPin: bytes.Repeat([]byte{9}, hashLen),
		Role: role, Name: name, Ttl: int64(time.Hour),
	}
}

// useToken uses it as its host would, which has the key k.
func useToken(c *fsmpb.CreateJoinToken, k byte) *fsmpb.UseJoinToken {
	return &fsmpb.UseJoinToken{TokenId: c.GetTokenId(), SecretHash: c.GetSecretHash(), Role: c.GetRole(), Name: c.GetName(), KeyHash: bytes.Repeat([]byte{k}, hashLen)}
}

// tokenWith is a copy of a message with a change.
func tokenWith[M proto.Message](m M, change func(M)) M {
	m = proto.CloneOf(m)
	change(m)
	return m
}

func TestCreateJoinToken(t *testing.T) {
	good := createToken(1, "node", "n9")
	for name, tc := range map[string]struct {
		before []proto.Message
		actor  string
		do     *fsmpb.CreateJoinToken
		want   Reason
	}{
		"for a node":                 {do: good},
		"for a controller's host":    {do: tokenWith(createToken(1, "controller", "c4"), func(c *fsmpb.CreateJoinToken) { c.Address = "10.0.0.4" })},
		"for a host by its name":     {do: tokenWith(createToken(1, "controller", "c4"), func(c *fsmpb.CreateJoinToken) { c.Address = "host-4.example" })},
		"an address with a port":     {do: tokenWith(good, func(c *fsmpb.CreateJoinToken) { c.Address = "10.0.0.4:9800" }), want: Invalid},
		"for an operator":            {do: createToken(1, "admin", "ann"), want: Invalid},
		"without a name":             {do: createToken(1, "node", ""), want: Invalid},
		"a short id":                 {do: tokenWith(good, func(c *fsmpb.CreateJoinToken) { c.TokenId = "12" }), want: Invalid},
		"an id that is no hex":       {do: tokenWith(good, func(c *fsmpb.CreateJoinToken) { c.TokenId = "000000000000000G" }), want: Invalid},
		"a secret, not its hash":     {do: tokenWith(good, func(c *fsmpb.CreateJoinToken) { c.SecretHash = []byte("secret") }), want: Invalid},
		"no CA":                      {do: tokenWith(good, func(c *fsmpb.CreateJoinToken) { c.CaPin = nil }), want: Invalid},
		"for ever":                   {do: tokenWith(good, func(c *fsmpb.CreateJoinToken) { c.Ttl = int64(MaxJoinTokenTTL + 1) }), want: Invalid},
		"for no time":                {do: tokenWith(good, func(c *fsmpb.CreateJoinToken) { c.Ttl = 0 }), want: Invalid},
		"by a controller":            {actor: controller, do: good, want: Forbidden},
		"by the node itself":         {actor: "node/n9", do: good, want: Forbidden},
		"an id that is taken":        {before: []proto.Message{createToken(1, "node", "n8")}, do: good, want: Precondition},
		"of what is revoked":         {before: []proto.Message{revokeUntil("node", "n9", start)}, do: good},
		"an address with a zone":     {do: tokenWith(createToken(1, "controller", "c4"), func(c *fsmpb.CreateJoinToken) { c.Address = "fe80::1%eth0" }), want: Invalid},
		"of what was revoked once":   {before: []proto.Message{revokeUntil("node", "n9", start), &fsmpb.UnrevokeIdentity{Role: "node", Name: "n9", Since: 5}}, do: good},
		"one certificate is revoked": {before: []proto.Message{revokeSerials("node", "n9", "aa")}, do: good},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, c := range tc.before {
				if u, ok := c.(*fsmpb.UnrevokeIdentity); ok {
					r, _ := w.s.Revocation(u.GetRole(), u.GetName())
					u.Since = r.Since
				}
				w.ok(admin, c)
			}
			actor := admin
			if tc.actor != "" {
				actor = tc.actor
			}
			for range 2 {
				require.Equal(t, tc.want, reasonOf(w.apply(actor, proto.CloneOf(tc.do))))
				require.NoError(t, w.s.Check())
				require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
			}
			got, known := restored(t, w.s).JoinToken(tc.do.GetTokenId())
			if tc.want != 0 {
				require.True(t, !known || got.Name != tc.do.GetName())
				return
			}
			require.Equal(t, tc.do.GetAddress(), got.Address)
			require.Equal(t, admin, got.CreatedBy)
			require.Equal(t, w.s.Cluster().Time.Add(time.Hour).Truncate(time.Hour), got.Expires.Truncate(time.Hour))
		})
	}
}

func TestUseJoinToken(t *testing.T) {
	token := createToken(1, "node", "n9")
	use := useToken(token, 1)
	late := func(w *world) { w.index += 7200 }
	for name, tc := range map[string]struct {
		before []proto.Message
		wait   func(*world)
		actor  string
		do     *fsmpb.UseJoinToken
		want   Reason
		why    string
	}{
		"once":                         {do: use},
		"again with the same key":      {before: []proto.Message{use}, do: use},
		"again with another key":       {before: []proto.Message{use}, do: useToken(token, 2), want: Precondition, why: "for another key"},
		"late":                         {wait: late, do: use, want: Precondition, why: "it expired at"},
		"the same key, late":           {before: []proto.Message{use}, wait: late, do: use, want: Precondition, why: "it expired at"},
		"for another name":             {do: tokenWith(use, func(c *fsmpb.UseJoinToken) { c.Name = "n8" }), want: Precondition, why: "it is for node/n9, not for node/n8"},
		"for another role":             {do: tokenWith(use, func(c *fsmpb.UseJoinToken) { c.Role = "controller" }), want: Precondition, why: "it is for node/n9"},
		"with another secret":          {do: tokenWith(use, func(c *fsmpb.UseJoinToken) { c.SecretHash = bytes.Repeat([]byte{7}, hashLen) }), want: Unauthenticated, why: "not known"},
		"with a part of the secret":    {do: tokenWith(use, func(c *fsmpb.UseJoinToken) { c.SecretHash = c.SecretHash[:31] }), want: Unauthenticated, why: "not known"},
		"one that is not known":        {do: useToken(createToken(2, "node", "n9"), 1), want: Unauthenticated, why: "not known"},
		"without a key":                {do: tokenWith(use, func(c *fsmpb.UseJoinToken) { c.KeyHash = nil }), want: Invalid, why: "public key"},
		"one that was revoked":         {before: []proto.Message{&fsmpb.RevokeJoinToken{TokenId: token.GetTokenId()}}, do: use, want: Precondition, why: "it was revoked at index"},
		"one that another one follows": {before: []proto.Message{createToken(2, "node", "n9")}, do: use, want: Precondition, why: "it was revoked at index"},
		"of an identity that is revoked": {
			before: []proto.Message{revokeUntil("node", "n9", start)}, do: use, want: Precondition, why: "it was revoked at index"},
		"of one of which a certificate is": {
			before: []proto.Message{revokeSerials("node", "n9", "aa")}, do: use, want: Precondition, why: "it was revoked at index"},
		"that the log before a restore had": {
			before: []proto.Message{&fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytes.Repeat([]byte{2}, incarnationIDLen)}}, do: use, want: Precondition, why: "it was revoked at index"},
		"by a node": {actor: "node/n9", do: use, want: Forbidden, why: "node/n9"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ok(admin, token)
			for _, c := range tc.before {
				actor := admin
				if _, ok := c.(*fsmpb.UseJoinToken); ok {
					actor = controller
				}
				w.ok(actor, proto.Clone(c))
			}
			if tc.wait != nil {
				tc.wait(w)
			}
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
			got, _ := restored(t, w.s).JoinToken(token.GetTokenId())
			if tc.want == 0 {
				require.NotZero(t, got.Used)
				require.Equal(t, tc.do.GetKeyHash(), got.KeyHash)
			}
		})
	}
}

func TestRevokeJoinToken(t *testing.T) {
	w := newWorld(t)
	token := createToken(1, "node", "n9")
	w.ok(admin, token)
	w.rejected(Forbidden, controller, &fsmpb.RevokeJoinToken{TokenId: token.GetTokenId()})
	w.twice(admin, &fsmpb.RevokeJoinToken{TokenId: token.GetTokenId()})
	w.twice(admin, &fsmpb.RevokeJoinToken{TokenId: "ffffffffffffffff"})
	got, _ := w.s.JoinToken(token.GetTokenId())
	require.NotZero(t, got.Revoked)
	w.rejected(Precondition, admin, token)
}

// Tokens that are done with do not stay for ever, and never are there more than a bound.
func TestJoinTokensAreBounded(t *testing.T) {
	w := newWorld(t)
	for n := range maxJoinTokens {
		w.ok(admin, createToken(n, "node", fmt.Sprint("n", n)))
	}
	for range 2 {
		w.rejected(Precondition, admin, createToken(maxJoinTokens, "node", "more"))
	}
	w.ok(admin, &fsmpb.RevokeJoinToken{TokenId: fmt.Sprintf("%016x", 3)})
	w.twice(admin, createToken(maxJoinTokens, "node", "more"))
	_, known := w.s.JoinToken(fmt.Sprintf("%016x", 3))
	require.False(t, known, "a revoked one makes room")
	w.index += 7200
	w.twice(admin, createToken(maxJoinTokens+1, "node", "late"))
	require.Equal(t, 1, restored(t, w.s).joinTokens.Len(), "expired ones make room")
	w.index += 2 * 3600
	w.twice(admin, createToken(1, "node", "n1"))
	require.Equal(t, 2, w.s.joinTokens.Len(), "one that expired lately stays where there is room")
	w.index += 26 * 3600
	w.twice(admin, createToken(2, "node", "n2"))
	require.Equal(t, 1, w.s.joinTokens.Len(), "and leaves later")
	require.NoError(t, w.s.Check())
}

func TestJoinTokensNeedLevel3(t *testing.T) {
	w := newWorldAt(t, Level2)
	for range 2 {
		require.Equal(t, Unsupported, reasonOf(w.apply(admin, createToken(1, "node", "n9"))))
		require.Equal(t, Unsupported, reasonOf(w.apply(admin, &fsmpb.RevokeJoinToken{TokenId: "0000000000000001"})))
		require.Equal(t, Unsupported, reasonOf(w.apply(controller, useToken(createToken(1, "node", "n9"), 1))))
	}
}

// Who has a used token and its key gets no certificate by it once the identity is revoked, in whatever way and also if it was so
// already, nor when another token is created for it.
func TestAUsedTokenEndsWithItsIdentity(t *testing.T) {
	for name, end := range map[string]func(w *world, round int){
		"all is revoked":      func(w *world, _ int) { w.twice(admin, revokeUntil("node", "n9", start)) },
		"a serial number is":  func(w *world, _ int) { w.twice(admin, revokeSerials("node", "n9", "aa")) },
		"another one follows": func(w *world, round int) { w.twice(admin, createToken(10+round, "node", "n9")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for round := range 2 { // the second time it is revoked already
				token := createToken(1+round, "node", "n9")
				w.ok(admin, token)
				w.twice(controller, useToken(token, 7))
				end(w, round)
				w.rejected(Precondition, controller, useToken(token, 7))
			}
		})
	}
}

// A certificate that a token brought after the plan of a revocation was shown is covered by it; one of a token that is used after
// the revocation is good, also when the revocation is said again.
func TestARevocationCoversWhatATokenBroughtSinceItsPlan(t *testing.T) {
	w := newWorld(t)
	planned := w.s.Cluster().Time
	token := createToken(1, "node", "n9")
	w.ok(admin, token)
	w.twice(controller, useToken(token, 7))
	used, _ := restored(t, w.s).JoinToken(token.GetTokenId())
	require.Truef(t, used.UsedAt.After(planned), "%s, %s", used.UsedAt, planned)
	w.twice(admin, revokeUntil("node", "n9", planned))
	r, _ := w.s.Revocation("node", "n9")
	require.True(t, r.Covers("aa", used.UsedAt))

	again := createToken(2, "node", "n9")
	w.ok(admin, again)
	w.twice(controller, useToken(again, 8))
	good, _ := w.s.JoinToken(again.GetTokenId())
	w.twice(admin, revokeUntil("node", "n9", planned))
	r, _ = w.s.Revocation("node", "n9")
	require.False(t, r.Covers("bb", good.UsedAt))
	require.NoError(t, w.s.Check())
}
