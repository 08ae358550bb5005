package fsm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func revokeUntil(role, name string, until time.Time) *fsmpb.RevokeIdentity {
	return &fsmpb.RevokeIdentity{Role: role, Name: name, IssuedUntil: nanosOf(until), Reason: "sold"}
}

func revokeSerials(role, name string, serials ...string) *fsmpb.RevokeIdentity {
	return &fsmpb.RevokeIdentity{Role: role, Name: name, Serials: serials}
}

// voters are three controllers; the certificates were issued at the start.
func voters(c *fsmpb.RevokeIdentity, names ...string) *fsmpb.RevokeIdentity {
	for _, name := range names {
		c.Voters = append(c.Voters, &fsmpb.VoterCertificate{Name: name, Serial: "c" + name[1:], Issued: nanosOf(start)})
	}
	return c
}

func TestRevokeIdentity(t *testing.T) {
	for name, tc := range map[string]struct {
		before []proto.Message
		actor  string
		do     proto.Message
		want   Reason
		after  *Revocation // of node/n1, or of what is revoked; nil: nothing changed
	}{
		"all certificates until a time": {do: revokeUntil("node", "n1", start), after: &Revocation{Role: "node", Name: "n1", IssuedUntil: start, Reason: "sold"}},
		"one certificate":               {do: revokeSerials("admin", "bob", "ab", "1", "ab"), after: &Revocation{Role: "admin", Name: "bob", Serials: []string{"1", "ab"}}},
		"one more keeps the others": {
			before: []proto.Message{revokeUntil("node", "n1", start), revokeSerials("node", "n1", "ff")},
			do:     revokeSerials("node", "n1", "aa"), after: &Revocation{Role: "node", Name: "n1", IssuedUntil: start, Serials: []string{"aa", "ff"}}},
		"an earlier time changes nothing": {
			before: []proto.Message{revokeUntil("node", "n1", start)},
			do:     revokeUntil("node", "n1", start.Add(-time.Hour)), after: &Revocation{Role: "node", Name: "n1", IssuedUntil: start, Reason: "sold"}},
		"a time in the future":             {do: revokeUntil("node", "n1", start.Add(1000*time.Hour)), want: Invalid},
		"nothing":                          {do: revokeSerials("node", "n1"), want: Invalid},
		"no role":                          {do: revokeSerials("king", "n1", "aa"), want: Invalid},
		"no name":                          {do: revokeSerials("node", "", "aa"), want: Invalid},
		"a serial in capitals":             {do: revokeSerials("node", "n1", "AA"), want: Invalid},
		"an empty serial":                  {do: revokeSerials("node", "n1", ""), want: Invalid},
		"oneself":                          {actor: "admin/ann", do: revokeUntil("admin", "ann", start), want: Precondition},
		"by a controller":                  {actor: controller, do: revokeUntil("node", "n1", start), want: Forbidden},
		"by a node of itself":              {actor: "node/n1", do: revokeUntil("node", "n1", start), want: Forbidden},
		"one controller of three":          {do: voters(revokeUntil("controller", "c1", start), "c1", "c2", "c3"), after: &Revocation{Role: "controller", Name: "c1", IssuedUntil: start, Reason: "sold"}},
		"a controller, without the voters": {do: revokeUntil("controller", "c1", start), want: Precondition},
		"the second of three controllers": {
			before: []proto.Message{voters(revokeUntil("controller", "c1", start), "c1", "c2", "c3")},
			do:     voters(revokeUntil("controller", "c2", start), "c1", "c2", "c3"), want: Precondition},
		"the only controller":                 {do: voters(revokeUntil("controller", "c1", start), "c1"), want: Precondition},
		"another certificate of a controller": {do: voters(revokeSerials("controller", "c1", "77"), "c1"), after: &Revocation{Role: "controller", Name: "c1", Serials: []string{"77"}}},
		"S28: nor does one that is down, of which nothing is revoked": {
			do: &fsmpb.RevokeIdentity{Role: "controller", Name: "c2", Serials: []string{"c2"}, Voters: []*fsmpb.VoterCertificate{{Name: "c1", Serial: "c1"}, {Name: "c2", Serial: "c2"}, {}}}, want: Precondition},
		"a serial number with a leading zero is none": {do: &fsmpb.RevokeIdentity{Role: "node", Name: "n1", Serials: []string{"0a"}}, want: Invalid},
		"one that does not answer counts as cut off": {
			do: &fsmpb.RevokeIdentity{Role: "controller", Name: "c1", Serials: []string{"77"}, Voters: []*fsmpb.VoterCertificate{{Name: "c1"}}}, want: Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, c := range tc.before {
				w.ok(admin, c)
			}
			before, hash := len(w.contents()), w.s.Hash()
			actor := admin
			if tc.actor != "" {
				actor = tc.actor
			}
			for range 2 {
				require.Equal(t, tc.want, reasonOf(w.apply(actor, tc.do)))
				require.NoError(t, w.s.Check())
				require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
			}
			if tc.after == nil {
				require.Equal(t, before, len(w.contents()))
				return
			}
			require.NotEqual(t, hash, w.s.Hash())
			got, ok := restored(t, w.s).Revocation(tc.after.Role, tc.after.Name)
			require.True(t, ok)
			require.NotZero(t, got.Since)
			tc.after.Since = got.Since
			require.Equal(t, tc.after, got)
		})
	}
}

// A repeated unrevoke ends nothing that began later.
func TestUnrevokeIdentity(t *testing.T) {
	w := newWorld(t)
	w.twice(admin, &fsmpb.UnrevokeIdentity{Role: "node", Name: "n1", Since: 9})
	w.ok(admin, revokeUntil("node", "n1", start))
	first, _ := w.s.Revocation("node", "n1")
	lift := &fsmpb.UnrevokeIdentity{Role: "node", Name: "n1", Since: first.Since}
	w.rejected(Forbidden, controller, lift)
	w.twice(admin, lift)
	_, revoked := w.s.Revocation("node", "n1")
	require.False(t, revoked)
	w.ok(admin, revokeSerials("node", "n1", "aa"))
	for range 2 {
		w.rejected(StaleEpoch, admin, lift)
	}
	_, revoked = restored(t, w.s).Revocation("node", "n1")
	require.True(t, revoked)
}

func TestRevocationsNeedLevel3(t *testing.T) {
	w := newWorldAt(t, Level2)
	for _, c := range []proto.Message{revokeUntil("node", "n1", start), &fsmpb.UnrevokeIdentity{Role: "node", Name: "n1"}} {
		for range 2 {
			require.Equal(t, Unsupported, reasonOf(w.apply(admin, c)))
		}
	}
}

func TestARevocationCovers(t *testing.T) {
	r := Revocation{Serials: []string{"aa", "cc"}, IssuedUntil: start}
	for name, tc := range map[string]struct {
		serial string
		issued time.Time
		want   bool
	}{
		"a serial that is named":     {"cc", start.Add(time.Hour), true},
		"another one, issued later":  {"bb", start.Add(1), false},
		"one that was issued then":   {"bb", start, true},
		"one that was issued before": {"bb", start.Add(-1), true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, r.Covers(tc.serial, tc.issued)) })
	}
	require.False(t, (&Revocation{Serials: []string{"aa"}}).Covers("bb", time.Time{}))
}
