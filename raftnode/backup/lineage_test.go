package backup

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// The backup that an increment is to continue is of another incarnation: it is taken where the journal leads from there, as
// after a recovery, and what is taken can be replayed; after a restore it is refused before anything is written.
func TestAnIncrementKnowsWhatItContinues(t *testing.T) {
	const second, third = "fedcba9876543210", "00112233445566ff"
	of := func(n int) member { return newMember(t, "one").nodes(0, n) }
	full, h := of(4).take(Request{})
	replaced := func(m member, ids ...string) member {
		for i, id := range ids {
			m.replaceIncarnation(id)
			m.nodes(20+9*i, 28+9*i)
		}
		return m
	}
	withoutBeginning := func(m member, ids ...string) member {
		m.NewJournal() // it begins after the backup's state
		return replaced(m, ids...)
	}
	for name, tc := range map[string]struct {
		m    member
		base *Header // nil: that of full
		want string
	}{
		"the same incarnation":               {m: of(8)},
		"recovered":                          {m: replaced(of(6), second)},
		"recovered twice":                    {m: replaced(of(6), second, third)},
		"recovered, a journal of later":      {m: withoutBeginning(of(4), second)},
		"restored from an older backup":      {m: replaced(of(2), second), want: "no entry leads from there"},
		"restored, and recovered":            {m: replaced(of(2), second, third), want: "no entry leads from there"},
		"restored, and not as far yet":       {m: restoredAt(of(1), second), want: "is not reached since"},
		"a journal that begins too late":     {m: withoutBeginning(of(9), second), want: "begins too late"},
		"of another cluster":                 {m: of(8), base: &Header{ClusterID: "two"}, want: "what it would continue is of cluster two"},
		"of a restore with the same number":  {m: replaced(of(6), second), base: &Header{ClusterID: "one", Incarnation: 2, IncarnationID: "aa"}, want: "no entry leads from there"},
		"of a later life than the cluster's": {m: of(8), base: &Header{ClusterID: "one", Incarnation: 9, IncarnationID: "aa"}, want: "no entry leads from there"},
	} {
		t.Run(name, func(t *testing.T) {
			base := tc.base
			if base == nil {
				base = &h
			}
			r := Request{Member: "c1", Increment: true, Since: h.Index, Base: base}
			for range 2 {
				if tc.want == "" {
					path, _ := tc.m.take(r)
					c, err := Load(Files{Full: full, Increments: []string{path}})
					require.NoError(t, err)
					requireState(t, tc.m.State, c)
					continue
				}
				_, err := Take(t.Context(), tc.m, r, failingWriter{t})
				require.ErrorIs(t, err, ErrRefused)
				require.ErrorContains(t, err, tc.want)
				if base.ClusterID == "one" {
					now := headerOf(tc.m.State, 0, "", h.Time)
					require.ErrorContains(t, err, now.life())
					require.ErrorContains(t, err, base.life())
					require.ErrorContains(t, err, "make a full backup")
				}
			}
		})
	}
}

func restoredAt(m member, id string) member {
	m.replaceIncarnation(id)
	return m
}

// failingWriter is written to by nobody.
type failingWriter struct{ t *testing.T }

var _ io.Writer = failingWriter{}

func (w failingWriter) Write(b []byte) (int, error) {
	require.Fail(w.t, "something is written")
	return len(b), nil
}
