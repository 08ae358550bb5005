package session

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
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

// revokedList is a list of controllers, all of whose certificates until now are revoked.
func revokedList(incarnation, index uint64, names ...string) *sessionpb.RevokedControllers {
	list := &sessionpb.RevokedControllers{At: fsm.Epoch{Incarnation: incarnation, Index: index}.Proto()}
	for _, name := range names {
		list.Controllers = append(list.Controllers, &sessionpb.RevokedController{Name: name, IssuedUntil: testNow.UnixNano(), Reason: "stolen"})
	}
	return list
}

var testNow = time.Unix(1_000_000, 0)

// controllerCertificate was issued some time after testNow, or before.
func controllerCertificate(name string, after time.Duration) pki.Certificate {
	return pki.Certificate{Identity: pki.Identity{Role: pki.Controller, Name: name}, Serial: "5e" + name, Issued: testNow.Add(after)}
}

func newTestRevocations(t *testing.T) *hostRevocations {
	t.Helper()
	r, err := openHostRevocations(filepath.Join(t.TempDir(), "revocations.json"), newTestCluster(t, 1).credentials(pki.Node, "n1"), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	r.now = func() time.Time { return testNow }
	return r
}

// A restored log that does not know a revocation does not end it; once it knows it, its word counts.
func TestAHostKeepsRevocationsThatARestoredLogDoesNotKnow(t *testing.T) {
	r := newTestRevocations(t)
	a, before := controllerCertificate("a", -time.Hour), controllerCertificate("thief", -time.Hour)
	lost := revokedList(1, 500, "thief")
	lost.Others = []*sessionpb.RevokedController{{Role: "admin", Name: "mallory", Serials: []string{"1"}, Reason: "left"}}
	r.take(a, lost)
	for index := range uint64(2) {
		r.take(a, revokedList(2, 100+index))
		require.Error(t, r.check(before), "it goes on being refused")
		require.NoError(t, r.check(a))
	}
	again, err := openHostRevocations(r.path, r.creds, r.log)
	require.NoError(t, err)
	again.now = r.now
	require.ErrorContains(t, again.check(before), "stolen", "also after the next start")
	var said []string
	for _, item := range again.items() {
		of := &fsmpb.RevokeIdentity{}
		require.NoError(t, proto.Unmarshal([]byte(item.Held), of))
		said = append(said, of.GetRole()+"/"+of.GetName())
	}
	require.Equal(t, []string{"controller/thief", "admin/mallory"}, said)

	known := revokedList(2, 110, "thief")
	known.Others = lost.GetOthers()
	again.take(a, known)
	require.Empty(t, again.items())
	require.Error(t, again.check(before))
	again.take(a, revokedList(2, 120))
	require.NoError(t, again.check(before), "this log knew it, and ended it")
}

// What the log itself ended while the host was away is not remembered; a later incarnation remembers it of the one before.
func TestWhatIsRememberedEndsWithTheLogThatSaidIt(t *testing.T) {
	r := newTestRevocations(t)
	a := controllerCertificate("a", -time.Hour)
	r.take(a, revokedList(1, 10, "b"))
	r.take(a, revokedList(1, 20))
	r.take(a, revokedList(2, 5))
	require.Empty(t, r.items())
}

// With a stolen key a controller revokes the others under an epoch of a far future. They get new certificates, which
// hosts take, and their word about it counts.
func TestAStolenKeyCannotRevokeForGood(t *testing.T) {
	for name, epoch := range map[string][2]uint64{"a far index": {1, 1 << 62}, "a far incarnation": {1 << 62, 1}} {
		t.Run(name, func(t *testing.T) {
			r := newTestRevocations(t)
			thief, a := controllerCertificate("thief", -time.Hour), controllerCertificate("a", -time.Hour)
			r.take(a, revokedList(1, 10))
			false1 := revokedList(epoch[0], epoch[1], "a", "b")
			for _, k := range false1.GetControllers() {
				k.IssuedUntil = testNow.Add(1e6 * time.Hour).UnixNano()
			}
			false1.From = &sessionpb.CertificateName{Name: "a"}
			false1.Remembered = []*sessionpb.RememberedRevocation{{Revoked: false1.GetControllers()[0]}}
			r.take(thief, false1)
			require.ErrorContains(t, r.check(a), "as controller thief said")
			require.ErrorContains(t, r.check(a), r.path, "the error names the way out")
			reissued := controllerCertificate("a", time.Hour)
			require.NoError(t, r.check(reissued))
			r.take(reissued, revokedList(1, 10))
			require.Error(t, r.check(a), "it is not the newer list, and does not say that the other one was sent by a thief")
			for range 2 {
				r.take(reissued, revokedList(1, 20, "thief"))
				require.Error(t, r.check(thief))
				require.NoError(t, r.check(a))
				require.Empty(t, r.items())
			}
			r.take(reissued, revokedList(1, 30))
			require.NoError(t, r.check(thief), "epochs count again as before")
		})
	}
}

// The restored log revokes the controller that passed on what the lost log said: that stays in force. The sender of the
// list that counts may be revoked in a later list, too, and what is remembered stays.
func TestWhatALostLogSaidOutlivesItsSender(t *testing.T) {
	for name, revokedAt := range map[string]uint64{"in the first list": 100, "in a later list": 101} {
		t.Run(name, func(t *testing.T) {
			r := newTestRevocations(t)
			sender, other, thief := controllerCertificate("a", -time.Hour), controllerCertificate("b", -time.Hour), controllerCertificate("thief", -time.Hour)
			r.take(sender, revokedList(1, 500, "thief"))
			for index := uint64(100); index < 103; index++ {
				var revoked []string
				if index >= revokedAt {
					revoked = append(revoked, "a")
				}
				for range 2 {
					r.take(other, revokedList(2, index, revoked...))
				}
				require.ErrorContains(t, r.check(thief), "stolen")
				require.NoError(t, r.check(other))
			}
			require.Error(t, r.check(sender))
			require.Len(t, r.items(), 1)
			r.take(other, revokedList(2, 110, "a", "thief"))
			require.Empty(t, r.items(), "this log knows it")
			r.take(other, revokedList(2, 120, "a"))
			require.NoError(t, r.check(thief), "and ended it")
		})
	}
}

// A controller's clock is ahead of the host's: the host takes its word up to its own time only, and hands on the time that
// was said. What the controller says of the bound itself does not count.
func TestARevocationsTimeIsKeptAsItWasSaid(t *testing.T) {
	r := newTestRevocations(t)
	a, said := controllerCertificate("a", -time.Hour), testNow.Add(time.Hour)
	list := revokedList(1, 10, "b")
	list.Controllers[0].IssuedUntil, list.Controllers[0].CountsUntil = said.UnixNano(), said.UnixNano()
	r.take(a, list)
	for range 2 {
		require.Error(t, r.check(controllerCertificate("b", clockTolerance)))
		require.NoError(t, r.check(controllerCertificate("b", 2*clockTolerance)))
		r.take(a, revokedList(2, 5))
		require.Len(t, r.items(), 1)
		of := &fsmpb.RevokeIdentity{}
		require.NoError(t, proto.Unmarshal([]byte(r.items()[0].Held), of))
		require.Equal(t, said.UnixNano(), of.GetIssuedUntil(), "a log that takes it in says no less than the one that was lost")
		again, err := openHostRevocations(r.path, r.creds, r.log)
		require.NoError(t, err)
		again.now, r = r.now, again
	}
	known := revokedList(2, 6, "b")
	known.Controllers[0].IssuedUntil = said.UnixNano()
	r.take(a, known)
	require.Empty(t, r.items(), "the same time is the same revocation, whatever the clock of the host")
}

// A newer build wrote the file: what this one does not know of it stops nobody, and what it knows counts.
func TestAFileOfRevocationsOfANewerBuildIsRead(t *testing.T) {
	r := newTestRevocations(t)
	r.take(controllerCertificate("a", -time.Hour), revokedList(1, 10, "b"))
	content, err := os.ReadFile(r.path)
	require.NoError(t, err)
	newer := append([]byte(`{"addedLater":{"x":[1]},`), content[1:]...)
	require.NoError(t, os.WriteFile(r.path, newer, 0o600))
	for range 2 {
		again, err := openHostRevocations(r.path, r.creds, r.log)
		require.NoError(t, err)
		require.Error(t, again.check(controllerCertificate("b", -time.Hour)))
	}
}
