package store

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRevocationsAreKept(t *testing.T) {
	d := dataDir{root: t.TempDir()}
	s := &Store{dir: d, MemberID: "m1"}
	none, err := s.Revocations()
	require.NoError(t, err)
	require.Zero(t, none)
	want := Revocations{Index: 7, Revoked: []Revoked{
		{Role: "node", Name: "n1", IssuedUntil: time.Unix(1, 5).UTC(), Reason: "sold"}, {Role: "admin", Name: "bob", Serials: []string{"aa"}},
	}}
	for range 2 {
		require.NoError(t, s.RecordRevocations(want))
		got, err := s.Revocations()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = (&Store{dir: d, MemberID: "m2"}).Revocations()
	require.ErrorContains(t, err, d.revocationsPath(), "a file of another member is refused")
	require.NoError(t, os.WriteFile(d.revocationsPath(), []byte("half"), 0o600))
	for range 2 {
		_, err = s.Revocations()
		require.ErrorContains(t, err, "put this member's own file back")
	}
}
