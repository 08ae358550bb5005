package enroll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// authority attests tokens by a table.
type authority struct {
	nodes map[string]string // by token
	down  bool
	asked atomic.Int64
}

func (a *authority) Attest(_ context.Context, token string) (*Attested, error) {
	a.asked.Add(1)
	node, known := a.nodes[token]
	switch {
	case a.down:
		return nil, errors.New("connection refused")
	case !known:
		return nil, fmt.Errorf("%w: it is not known", ErrNotAttested)
	}
	return &Attested{Node: node, By: "pod p on " + node, Expires: time.Now().Add(10 * time.Minute)}, nil
}

// attestedLab is a lab in which tokens t1, t2 are n1's and t9 is n9's.
func attestedLab(t *testing.T) (*lab, *authority) {
	l, a := newLab(t), &authority{nodes: map[string]string{"secret-1": "n1", "secret-2": "n1", "secret-9": "n9"}}
	l.attestor = a
	return l, a
}

// node is one that has a token and the CA.
func (l *lab) node(name, token string, endpoints ...string) *Node {
	l.t.Helper()
	dir := l.t.TempDir()
	n := &Node{Name: name, Endpoints: endpoints, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "bundle.crt"), Files: filesIn(filepath.Join(dir, "tls"))}
	n.take(l, token)
	return n
}

// take gives the node another token, and the CAs as they are now.
func (n *Node) take(l *lab, token string) {
	l.t.Helper()
	trust, err := pki.TrustOf(l.caDir())
	require.NoError(l.t, err)
	require.NoError(l.t, os.WriteFile(n.CAFile, trust.PEM(), 0o644))
	require.NoError(l.t, os.WriteFile(n.TokenFile, []byte(token+"\n"), 0o644))
}

func (n *Node) enrolled(t *testing.T, now time.Time, want bool) {
	t.Helper()
	changed, err := n.Enroll(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, want, changed)
	require.True(t, n.Usable(time.Now()))
}

func TestS168_ANodeEnrolsByAnAttestedToken(t *testing.T) {
	l, a := attestedLab(t)
	n := l.node("n1", "secret-1", "127.0.0.1:1", l.serve("c1"))
	require.False(t, n.Usable(time.Now()))
	n.enrolled(t, time.Now(), true)
	first, key := l.certificate(n.Files), readFile(t, n.Files.Key)
	require.Equal(t, pki.Identity{Cluster: clusterName, Role: pki.Node, Name: "n1"}, first.Identity)
	joined, err := ReadJoined(n.Files)
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.1:9802"}, joined.APIAddresses)
	n.enrolled(t, time.Now(), false)
	require.EqualValues(t, 1, a.asked.Load(), "a good certificate is left as it is")

	n.take(l, "secret-2")
	n.enrolled(t, time.Now().Add(Validity*2/3+time.Hour), true)
	require.NotEqual(t, key, readFile(t, n.Files.Key), "a certificate that ends soon is replaced, with its key")
	require.NotEqual(t, first.Serial, l.certificate(n.Files).Serial)
	require.NoFileExists(t, n.Files.Key+".next")
	require.NotContains(t, l.logs.String(), "secret-")
	require.Contains(t, l.logs.String(), "pod p on n1")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// The log records what the token brought, and the same key gets the same certificate again when the answer was lost.
func TestAnAttestedEnrolmentThatWasInterruptedGoesOn(t *testing.T) {
	l, _ := attestedLab(t)
	n := l.node("n1", "secret-1", l.serve("c1"), l.serve("c2"))
	l.lost = 1
	entries := l.index
	n.enrolled(t, time.Now(), true) // the second controller is asked
	require.Equal(t, entries+1, l.index)
	first := l.certificate(n.Files)
	require.NoError(t, os.Remove(n.Files.Cert))
	n.enrolled(t, time.Now(), true)
	require.Equal(t, first, l.certificate(n.Files))
	require.Equal(t, entries+1, l.index, "who asks again writes nothing into the log")
	for token := range l.st.JoinTokens() {
		require.Equal(t, "n1", token.Name)
		require.True(t, token.Attested())
	}
}

func TestS168_WhoGetsNoCertificateByAToken(t *testing.T) {
	revoked := &fsmpb.Command{Body: &fsmpb.Command_RevokeIdentity{RevokeIdentity: &fsmpb.RevokeIdentity{Role: "node", Name: "n1", IssuedUntil: 1, Reason: "stolen"}}}
	for name, tc := range map[string]struct {
		as, token string
		before    func(*lab, string)
		down      bool
		is        error
		want      string
	}{
		"S168: the token is not known":             {as: "n1", token: "secret-0", is: ErrRefused, want: "the token is not attested"},
		"S168: the token is another node's":        {as: "n1", token: "secret-9", is: ErrRefused, want: "the token is of node n9"},
		"S168: the token was used for another key": {as: "n1", token: "secret-1", before: func(l *lab, addr string) { l.node("n1", "secret-1", addr).enrolled(l.t, time.Now(), true) }, is: ErrRefused, want: "for another key"},
		"S168: the node is revoked":                {as: "n1", token: "secret-1", before: func(l *lab, _ string) { require.NoError(l.t, l.apply("admin/ann", revoked)) }, is: ErrRefused, want: "an operator revoked it at index"},
		"the authority is down":                    {as: "n1", token: "secret-1", down: true, is: ErrUnavailable, want: "ask whose token it is: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			l, a := attestedLab(t)
			addr := l.serve("c1")
			if tc.before != nil {
				tc.before(l, addr)
			}
			a.down = tc.down
			n, entries := l.node(tc.as, tc.token, addr), l.index
			for range 2 {
				_, err := n.Enroll(t.Context(), time.Now())
				require.ErrorIs(t, err, tc.is)
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), "secret-")
				require.NoFileExists(t, n.Files.Cert)
			}
			require.Equal(t, entries, l.index, "who is refused writes nothing into the log")
			require.NotContains(t, l.logs.String(), "secret-")
		})
	}
}

// A revocation that the log has between the use of the token and the signature is obeyed.
func TestS168_ARevocationIsObeyedBeforeAnythingIsSigned(t *testing.T) {
	l, _ := attestedLab(t)
	n := l.node("n1", "secret-1", l.serve("c1"))
	l.then = func() {
		require.NoError(t, l.apply("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_RevokeIdentity{RevokeIdentity: &fsmpb.RevokeIdentity{Role: "node", Name: "n1", IssuedUntil: 1, Reason: "stolen"}}}))
	}
	_, err := n.Enroll(t.Context(), time.Now())
	require.ErrorContains(t, err, "an operator revoked it at index")
	require.NoFileExists(t, n.Files.Cert)
	require.NoError(t, l.apply("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_UnrevokeIdentity{UnrevokeIdentity: &fsmpb.UnrevokeIdentity{Role: "node", Name: "n1", Since: l.revokedAt("n1")}}}))
	_, err = n.Enroll(t.Context(), time.Now())
	require.ErrorContains(t, err, "it was revoked at index", "its token ended with the revocation")
	n.take(l, "secret-2")
	n.enrolled(t, time.Now(), true)
}

// The token goes to nobody whom the cluster's CA did not certify as a controller.
func TestS168_AnImpostorNeverGetsTheToken(t *testing.T) {
	l, a := attestedLab(t)
	other, stolen := attestedLab(t)
	n := l.node("n1", "secret-1", other.serve("c1"))
	_, err := n.Enroll(t.Context(), time.Now())
	require.ErrorIs(t, err, ErrUnavailable)
	require.Zero(t, stolen.asked.Load())
	n.Endpoints = append(n.Endpoints, l.serve("c1"))
	n.enrolled(t, time.Now(), true)
	require.EqualValues(t, 1, a.asked.Load())
}

// Where the authority cannot be asked, a node with a good certificate goes on; one without waits and says so.
func TestANodeWaitsForItsFirstCertificateOnly(t *testing.T) {
	l, a := attestedLab(t)
	n := l.node("n1", "secret-1", l.serve("c1"))
	a.down = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	says := make(chan error, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- n.First(ctx, time.Millisecond, func(err error) {
			select {
			case says <- err:
			default:
			}
		})
	}()
	require.ErrorContains(t, <-says, "connection refused")
	cancel()
	require.ErrorIs(t, <-ended, errNoCertificate)
	a.down = false
	require.NoError(t, n.First(t.Context(), time.Millisecond, func(err error) { require.NoError(t, err) }))
	a.down = true
	require.NoError(t, n.First(t.Context(), time.Millisecond, func(err error) { require.NoError(t, err) }))
	require.NoError(t, os.Remove(n.CAFile), "also without a CA to ask by")
	require.NoError(t, n.First(t.Context(), time.Millisecond, func(err error) { require.NoError(t, err) }))
}

// A node whose certificate ended while it was away, or whose CA no longer signs, enrols again by itself.
func TestANodeEnrolsAgain(t *testing.T) {
	for name, change := range map[string]func(*lab, *Node) time.Time{
		"its certificate expired": func(*lab, *Node) time.Time { return time.Now().Add(Validity + time.Hour) },
		"its key is lost": func(l *lab, n *Node) time.Time {
			require.NoError(l.t, os.Remove(n.Files.Key))
			return time.Now()
		},
		"another CA signs": func(l *lab, _ *Node) time.Time {
			l.carryOut(pki.PlanRotate(l.caDir(), nil))
			l.carryOut(pki.PlanSwitch(l.caDir(), nil, time.Hour))
			return time.Now()
		},
		"there is another CA": func(l *lab, _ *Node) time.Time {
			require.NoError(l.t, os.RemoveAll(l.caDir()))
			require.NoError(l.t, pki.MakeCA(l.caDir(), clusterName))
			return time.Now()
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := attestedLab(t)
			n := l.node("n1", "secret-1", l.serve("c1"))
			n.enrolled(t, time.Now(), true)
			now := change(l, n)
			n.Endpoints = []string{l.serve("c2")} // with a certificate of the CA that signs
			n.take(l, "secret-2")
			n.enrolled(t, now, true)
			n.enrolled(t, time.Now(), false)
			trust, err := pki.TrustOf(l.caDir())
			require.NoError(t, err)
			require.Equal(t, string(trust.PEM()), readFile(t, n.Files.CA), "it trusts what the bundle names, and nothing else")
		})
	}
}

func (l *lab) carryOut(p *pki.FilePlan, err error) {
	l.t.Helper()
	require.NoError(l.t, err)
	require.NoError(l.t, p.CarryOut())
}

func TestTokensThatANodeDoesNotSend(t *testing.T) {
	l, a := attestedLab(t)
	n := l.node("n1", "", l.serve("c1"))
	for range 2 {
		_, err := n.Enroll(t.Context(), time.Now())
		require.ErrorContains(t, err, "is empty")
		require.NoError(t, os.WriteFile(n.TokenFile, make([]byte, maxAttestedToken+1), 0o600))
		_, err = n.Enroll(t.Context(), time.Now())
		require.ErrorContains(t, err, "has more than")
		require.NoError(t, os.WriteFile(n.TokenFile, nil, 0o600))
	}
	require.NoError(t, os.Remove(n.TokenFile))
	_, err := n.Enroll(t.Context(), time.Now())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Zero(t, a.asked.Load())
	l.attestor = nil
	n = l.node("n1", "secret-1", l.serve("c3"))
	_, err = n.Enroll(t.Context(), time.Now())
	require.ErrorIs(t, err, ErrUnavailable, "another controller may take it")
	require.ErrorContains(t, err, "takes join tokens only")
}
