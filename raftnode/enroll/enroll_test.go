package enroll

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// lab is a cluster's log with one state, and controllers that serve enrolment from it.
type lab struct {
	t     *testing.T
	dir   string
	mu    sync.Mutex
	st    *fsm.State
	index uint64
	now   time.Time
	logs  bytes.Buffer // of all controllers: by one handler, which writes one line at a time
	log   *slog.Logger
	lost  int // answers of commands that are lost after they are applied

	attestor Attestor
	then     func() // once, behind the next command of a controller
}

const clusterName = "prod"

func newLab(t *testing.T) *lab {
	l := &lab{t: t, dir: t.TempDir(), st: fsm.New(), now: time.Now()}
	l.log = slog.New(slog.NewTextHandler(&l.logs, nil))
	require.NoError(t, pki.MakeCA(l.caDir(), clusterName))
	require.NoError(t, l.apply("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{ClusterId: "c", IncarnationId: make([]byte, 16), FeatureLevel: fsm.MaxFeatureLevel}}}))
	return l
}

func (l *lab) caDir() string { return filepath.Join(l.dir, "ca") }

func (l *lab) apply(actor string, cmd *fsmpb.Command) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	cmd.RequestId = binary.BigEndian.AppendUint64(make([]byte, 8), l.index)
	cmd.Actor, cmd.ProposedAt, cmd.SchemaVersion = actor, l.now.UnixNano(), fsm.LeastLevel(cmd)
	return fsm.Err(l.st.Apply(l.index, cmd).Outcome)
}

func (l *lab) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if err := l.apply(cmd.GetActor(), cmd); err != nil {
		return nil, err
	}
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
	if l.lost > 0 {
		l.lost--
		return nil, status.Error(codes.Unavailable, "the answer is lost")
	}
	return &fsmpb.Outcome{}, nil
}

func (l *lab) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index, fn(l.st)
}

// serve starts a controller and returns the address of its listener.
func (l *lab) serve(name string) string {
	l.t.Helper()
	files, err := pki.Issue(l.caDir(), filepath.Join(l.dir, name), pki.Identity{Role: pki.Controller, Name: name}, time.Hour)
	require.NoError(l.t, err)
	creds, err := pki.Load(files)
	require.NoError(l.t, err)
	signer, err := pki.NewSigner(l.caDir(), clusterName)
	require.NoError(l.t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(l.t, err)
	_, server := NewServer(Config{
		Cluster: l, Credentials: creds, Signer: signer, Logger: l.log, Attestor: l.attestor,
		Addresses: func(context.Context) ([]string, []string) {
			return []string{"10.0.0.1:9800"}, []string{"10.0.0.1:9802"}
		},
		Error: func(err error) error {
			var rejection *fsm.Rejection
			switch {
			case !errors.As(err, &rejection):
				return err
			case rejection.Reason == fsm.Unauthenticated:
				return status.Error(codes.Unauthenticated, err.Error())
			}
			return status.Error(codes.FailedPrecondition, err.Error())
		},
	})
	go func() { _ = server.Serve(LimitConnections(listener)) }()
	l.t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// token creates one of a node.
func (l *lab) token(name string, addresses ...string) *Token {
	l.t.Helper()
	id, secret, err := NewSecret()
	require.NoError(l.t, err)
	pin := l.pin()
	require.NoError(l.t, l.apply("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_CreateJoinToken{CreateJoinToken: &fsmpb.CreateJoinToken{
		TokenId: id, SecretHash: SecretHash(secret), Role: "node", Name: name, CaPin: pin[:], Ttl: int64(time.Hour), Address: "10.0.0.9"}}}))
	return &Token{ID: id, Secret: secret, Pin: pin, Cluster: clusterName, Role: pki.Node, Name: name, Addresses: addresses}
}

func (l *lab) pin() pki.Pin {
	l.t.Helper()
	files, err := pki.Issue(l.caDir(), filepath.Join(l.dir, "probe"), pki.Identity{Role: pki.Viewer, Name: "probe"}, time.Hour)
	require.NoError(l.t, err)
	creds, err := pki.Load(files)
	require.NoError(l.t, err)
	pin, err := creds.IssuerPin()
	require.NoError(l.t, err)
	return pin
}

func (l *lab) certificate(files pki.Files) pki.Certificate {
	l.t.Helper()
	cert, ok, err := pki.Installed(files.Cert)
	require.NoError(l.t, err)
	require.True(l.t, ok)
	return cert
}

// fresh are the files of a host that has none yet.
func fresh(t *testing.T) pki.Files {
	t.Helper()
	return filesIn(filepath.Join(t.TempDir(), "tls"))
}

func filesIn(dir string) pki.Files {
	return pki.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
}

func TestAHostJoinsWithAToken(t *testing.T) {
	l := newLab(t)
	token := l.token("n1", "127.0.0.1:1", l.serve("c1"))
	text, err := token.Text()
	require.NoError(t, err)
	require.NotContains(t, text, " ")
	read, err := ParseToken(text + "\n")
	require.NoError(t, err)
	require.Equal(t, token, read)
	files := fresh(t)
	for range 2 {
		require.NoError(t, Join(t.Context(), read, files, time.Now()))
		creds, err := pki.Load(files)
		require.NoError(t, err)
		require.Equal(t, pki.Identity{Cluster: clusterName, Role: pki.Node, Name: "n1"}, creds.Identity())
		joined, err := ReadJoined(files)
		require.NoError(t, err)
		require.Equal(t, Joined{RaftAddresses: []string{"10.0.0.1:9800"}, APIAddresses: []string{"10.0.0.1:9802"}, Address: "10.0.0.9"}, joined)
	}
	require.Contains(t, l.logs.String(), token.ID)
	require.NotContains(t, l.logs.String(), string(token.Secret))
	var dump bytes.Buffer
	require.NoError(t, l.st.WriteDump(&dump, 1))
	require.Contains(t, dump.String(), string(SecretHash(token.Secret)))
	require.NotContains(t, dump.String(), string(token.Secret))
	first := l.certificate(files)
	l.now = l.now.Add(time.Minute)
	err = Join(t.Context(), read, files, time.Now().Add(Validity))
	require.NoError(t, err, "the certificate has expired by the host's clock: the same key asks again")
	require.Equal(t, first, l.certificate(files), "and gets the same one, which a revocation of the first covers")
	err = Join(t.Context(), read, fresh(t), time.Now())
	require.ErrorIs(t, err, ErrRefused, "another host")
	require.ErrorContains(t, err, "for another key")
	l.now = l.now.Add(2 * time.Hour)
	err = Join(t.Context(), read, files, time.Now().Add(Validity))
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "tls.crt expired on", "the unit file may have the token for ever")
}

// However far a host came, the same command goes on, with the key that it has; and when the answer was lost, too.
func TestAnEnrolmentThatWasInterruptedGoesOn(t *testing.T) {
	for name, left := range map[string][]string{"before the key": {}, "behind the key": {"tls.key"}, "behind the bundle": {"tls.key", "joined.json", "ca.crt"}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			token := l.token("n1", l.serve("c1"))
			dir := filepath.Join(t.TempDir(), "tls")
			l.lost = 1
			err := Join(t.Context(), token, filesIn(dir), time.Now())
			require.ErrorIs(t, err, ErrUnavailable)
			key, err := os.ReadFile(filesIn(dir).Key)
			require.NoError(t, err)
			require.NoError(t, Join(t.Context(), token, filesIn(dir), time.Now()))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			for _, e := range entries {
				if !strings.Contains(strings.Join(left, " ")+" tls.key", e.Name()) { // without its key a host is another one
					require.NoError(t, os.Remove(filepath.Join(dir, e.Name())))
				}
			}
			require.NoError(t, Join(t.Context(), token, filesIn(dir), time.Now()))
			_, err = pki.Load(filesIn(dir))
			require.NoError(t, err)
			after, err := os.ReadFile(filesIn(dir).Key)
			require.NoError(t, err)
			require.Equal(t, key, after)
			info, err := os.Stat(filesIn(dir).Key)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		})
	}
}

func TestAJoinThatIsRefused(t *testing.T) {
	l := newLab(t)
	addr := l.serve("c1")
	for name, tc := range map[string]struct {
		change func(*Token)
		log    *fsmpb.Command
		late   bool
		is     error
		want   string
	}{
		"another name":     {change: func(t *Token) { t.Name = "n2" }, is: ErrRefused, want: "not for node/n2"},
		"another role":     {change: func(t *Token) { t.Role = pki.Controller }, is: ErrRefused, want: "not for controller/n1"},
		"another secret":   {change: func(t *Token) { t.Secret = bytes.Repeat([]byte{1}, secretLen) }, is: ErrRefused, want: "it is not known"},
		"another id":       {change: func(t *Token) { t.ID = "0000000000000000" }, is: ErrRefused, want: "it is not known"},
		"another CA":       {change: func(t *Token) { t.Pin[0]++ }, is: ErrUnavailable, want: "does not show the CA that the token names"},
		"another cluster":  {change: func(t *Token) { t.Cluster = "test" }, is: ErrUnavailable, want: "is no controller of cluster test"},
		"nobody is there":  {change: func(t *Token) { t.Addresses = []string{"127.0.0.1:1"} }, is: ErrUnavailable, want: "127.0.0.1:1"},
		"it has expired":   {late: true, is: ErrRefused, want: "it expired at"},
		"it is revoked":    {log: &fsmpb.Command{Body: &fsmpb.Command_RevokeJoinToken{RevokeJoinToken: &fsmpb.RevokeJoinToken{}}}, is: ErrRefused, want: "it was revoked at"},
		"so is its holder": {log: &fsmpb.Command{Body: &fsmpb.Command_RevokeIdentity{RevokeIdentity: &fsmpb.RevokeIdentity{Role: "node", Name: "n1", IssuedUntil: 1}}}, is: ErrRefused, want: "it was revoked at"},
	} {
		t.Run(name, func(t *testing.T) {
			_ = l.apply("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_UnrevokeIdentity{UnrevokeIdentity: &fsmpb.UnrevokeIdentity{Role: "node", Name: "n1", Since: l.revokedAt("n1")}}})
			token := l.token("n1", addr)
			id := token.ID
			if tc.change != nil {
				tc.change(token)
			}
			if r := tc.log.GetRevokeJoinToken(); r != nil {
				r.TokenId = id
			}
			if tc.log != nil {
				require.NoError(t, l.apply("admin/ann", tc.log))
			}
			if tc.late { // the log's time, which an entry moves
				l.now = l.now.Add(2 * time.Hour)
				l.token("other", addr)
			}
			files, entries := fresh(t), l.index
			for range 2 {
				err := Join(t.Context(), token, files, time.Now())
				require.ErrorIs(t, err, tc.is)
				require.ErrorContains(t, err, tc.want)
				require.NoFileExists(t, files.Cert)
			}
			require.Equal(t, entries, l.index, "who has no good token writes nothing into the log")
		})
	}
}

func (l *lab) revokedAt(name string) uint64 {
	if r, ok := l.st.Revocation("node", name); ok {
		return r.Since
	}
	return 0
}

// Of two hosts with one token, one gets a certificate, whichever controllers they ask.
func TestOneOfTwoHostsIsServed(t *testing.T) {
	l := newLab(t)
	one, two := l.token("n1", l.serve("c1")), (*Token)(nil)
	copied := *one
	copied.Addresses = []string{l.serve("c2")}
	two = &copied
	errs := make(chan error, 2)
	for _, token := range []*Token{one, two} {
		files := fresh(t)
		go func() { errs <- Join(context.Background(), token, files, time.Now()) }()
	}
	first, second := <-errs, <-errs
	require.True(t, (first == nil) != (second == nil), "%v, %v", first, second)
	require.ErrorContains(t, errors.Join(first, second), "for another key")
}

// What a request says of itself beside its key does not count, and a key of another kind is refused.
func TestARequestThatIsNotGood(t *testing.T) {
	l := newLab(t)
	token := l.token("n1", l.serve("c1"))
	for name, request := range map[string][]byte{"empty": nil, "garbage": []byte("garbage"), "large": bytes.Repeat([]byte{1}, maxRequest+1)} {
		t.Run(name, func(t *testing.T) {
			entries := l.index
			for range 2 {
				_, err := token.askOne(t.Context(), token.Addresses[0], request)
				require.Error(t, err)
			}
			require.Equal(t, entries, l.index)
		})
	}
	require.NoError(t, Join(t.Context(), token, fresh(t), time.Now()))
}

func TestTextsThatAreNoTokens(t *testing.T) {
	l := newLab(t)
	text, err := l.token("n1", "127.0.0.1:1").Text()
	require.NoError(t, err)
	for name, text := range map[string]string{
		"empty": "", "cut off": text[:len(text)-3], "a letter changed": strings.Replace(text, text[20:21], "-", 1) + "A", "another version": "hfjoin2_" + text[8:], "a prefix only": tokenPrefix, "long": tokenPrefix + strings.Repeat("A", 8192),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseToken(text)
			require.ErrorIs(t, err, errToken)
		})
	}
}

// Another token of a controller with a certificate of the former CA would be refused as well, so the remedy begins with that.
func TestATokenOfACAThatSignsNoMore(t *testing.T) {
	l := newLab(t)
	addr := l.serve("c1")
	token := l.token("n1", addr)
	for _, plan := range []func() (*pki.FilePlan, error){
		func() (*pki.FilePlan, error) { return pki.PlanRotate(l.caDir(), []string{filepath.Join(l.dir, "c1")}) },
		func() (*pki.FilePlan, error) { return pki.PlanSwitch(l.caDir(), nil, time.Hour) },
	} {
		p, err := plan()
		require.NoError(t, err)
		require.NoError(t, p.CarryOut())
	}
	files, entries := fresh(t), l.index
	for range 2 {
		err := Join(t.Context(), token, files, time.Now())
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, "give all controllers their certificates of the CA that signs")
		require.Equal(t, entries, l.index)
	}
}
