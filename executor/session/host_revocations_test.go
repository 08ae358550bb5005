package session

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// A host is told which controllers are revoked, leaves one that is, and refuses it after its next start; once that
// ends it takes it again.
func TestAHostRefusesARevokedController(t *testing.T) {
	l := newTestCluster(t, 2)
	file := filepath.Join(t.TempDir(), "revocations.json")
	newHost := func(endpoints ...string) *testHost {
		creds := l.credentials(pki.Node, "n1")
		n := l.newHostWith(creds, "n1", endpoints...)
		revocations, err := openHostRevocations(file, creds, n.client.Logger)
		require.NoError(t, err)
		n.client.revocations = revocations
		go creds.Watch(t.Context())
		return n
	}
	n := newHost(l.members[0].api.addr, l.members[1].api.addr)
	n.run(t)
	eventually(t, "the session is up", func() bool { return n.client.Connected() && l.members[0].server.Sessions() == 1 })
	require.NoFileExists(t, file, "nothing is revoked")

	revoke := &fsmpb.RevokeIdentity{Role: "controller", Name: "a", Reason: "stolen"}
	for _, name := range []string{"a", "b", "c"} {
		revoke.Voters = append(revoke.Voters, &fsmpb.VoterCertificate{Name: name, Serial: "5e" + name, Issued: time.Now().UnixNano()})
	}
	for _, c := range n.client.Credentials.Connected() {
		if c.Name == "a" {
			revoke.Serials = []string{c.Serial}
		}
	}
	l.mustApply("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_RevokeIdentity{RevokeIdentity: revoke}})
	eventually(t, "the other controller has the session", func() bool {
		return n.client.Connected() && l.members[0].server.Sessions() == 0 && l.members[1].server.Sessions() == 1
	})

	again := newHost(l.members[0].api.addr)
	again.run(t)
	eventually(t, "it refuses it from its start on", func() bool { return again.client.Err().Error() != "no controller was reached yet" })
	require.ErrorContains(t, again.client.Err(), "stolen")
	require.False(t, again.client.Connected())

	var since uint64
	for r := range l.reference.Revocations() {
		since = r.Since
	}
	l.mustApply("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_UnrevokeIdentity{UnrevokeIdentity: &fsmpb.UnrevokeIdentity{Role: "controller", Name: "a", Since: since}}})
	eventually(t, "the controller that it has tells it", func() bool {
		return n.client.revocations.check(pki.Certificate{Identity: pki.Identity{Role: pki.Controller, Name: "a"}, Serial: revoke.GetSerials()[0], Issued: time.Now()}) == nil
	})
}

func TestADamagedFileOfRevocationsIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revocations.json")
	require.NoError(t, os.WriteFile(file, []byte("half"), 0o600))
	for range 2 {
		_, err := openHostRevocations(file, newTestCluster(t, 1).credentials(pki.Node, "n1"), nil)
		require.ErrorContains(t, err, file)
	}
}
