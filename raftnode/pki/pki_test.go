package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newCA makes a CA and says where it lies.
func newCA(t *testing.T, cluster string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, MakeCA(dir, cluster))
	return dir
}

func issue(t *testing.T, ca string, role Role, name string) Files {
	t.Helper()
	files, err := Issue(ca, filepath.Join(t.TempDir(), "out"), Identity{Role: role, Name: name}, time.Hour)
	require.NoError(t, err)
	return files
}

func credentialsOf(t *testing.T, ca string, role Role, name string) *Credentials {
	t.Helper()
	c, err := Load(issue(t, ca, role, name))
	require.NoError(t, err)
	return c
}

// handshake does one over TCP and says what the server and the client made of
// it; a client learns that it was refused when it reads.
func handshake(t *testing.T, server, client *tls.Config) (atServer, atClient error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	done := make(chan error, 1)
	go func() { done <- serveOne(listener) }()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Minute}, Config: client}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		return <-done, err
	}
	_, err = conn.Read(make([]byte, 1))
	return <-done, errors.Join(err, conn.Close())
}

func serveOne(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*tls.Conn).HandshakeContext(context.Background()); err != nil {
		return err
	}
	_, err = conn.Write([]byte{1})
	return err
}

// S20 begins here: what a listener refuses never reaches a handler.
func TestEachRoleAgainstEachListener(t *testing.T) {
	ca := newCA(t, "prod.example")
	server := credentialsOf(t, ca, Controller, "c1")
	for listener, allowed := range map[string][]Role{
		"the Raft listener": {Controller},
		"the API listener":  {Controller, Node, Admin, Operator, Viewer},
		"the admins' only":  {Admin},
		"nobody's":          nil,
	} {
		for _, role := range roles {
			t.Run(listener+" and "+string(role), func(t *testing.T) {
				client := credentialsOf(t, ca, role, "x")
				for range 2 {
					atServer, atClient := handshake(t, server.Server(allowed...), client.Client(Controller))
					if slices.Contains(allowed, role) {
						require.NoError(t, errors.Join(atServer, atClient))
						continue
					}
					require.ErrorContains(t, atServer, "does not have the role that is needed here")
					require.Error(t, atClient)
				}
			})
		}
	}
}

func TestHandshakesThatAreRefused(t *testing.T) {
	ca := newCA(t, "one")
	server := credentialsOf(t, ca, Controller, "c1")
	good := credentialsOf(t, ca, Node, "n1")
	none := good.Client(Controller)
	none.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	old := good.Client(Controller)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, tc := range map[string]struct {
		client *tls.Config
		want   string
	}{
		"a certificate of another CA with the same cluster's name": {credentialsOf(t, newCA(t, "one"), Node, "n1").Client(Controller), "unknown authority|verify|bad certificate"},
		"no certificate":                    {none, "didn't provide a certificate"},
		"TLS 1.2":                           {old, "unsupported versions|protocol version"},
		"another cluster under the same CA": {forged(t, good, ca, "spiffe://two/node/n1", time.Hour), "another cluster"},
		"an expired certificate":            {forged(t, good, ca, "spiffe://one/node/n1", -time.Minute), "expired"},
		"a role that nobody has":            {forged(t, good, ca, "spiffe://one/king/n1", time.Hour), "role \"king\""},
		"a name with a slash":               {forged(t, good, ca, "spiffe://one/node/n1/x", time.Hour), "name \"n1/x\""},
		"a name that is not a SPIFFE one":   {forged(t, good, ca, "https://one/node/n1", time.Hour), "not of the form"},
		"a query behind the name":           {forged(t, good, ca, "spiffe://one/node/n1?x", time.Hour), "not of the form"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				atServer, atClient := handshake(t, server.Server(Controller, Node), tc.client)
				require.Error(t, atServer)
				require.Error(t, atClient)
				require.Regexp(t, tc.want, errors.Join(atServer, atClient).Error())
			}
		})
	}
}

// forged is a client whose certificate the CA signed with another name or end.
func forged(t *testing.T, base *Credentials, caDir, uri string, validity time.Duration) *tls.Config {
	t.Helper()
	ca, err := loadCA(caDir)
	require.NoError(t, err)
	template := leafTemplate(Identity{Cluster: ca.cluster, Role: Node, Name: "n1"}, validity, ca.Leaf)
	parsed, err := url.Parse(uri)
	require.NoError(t, err)
	template.URIs = []*url.URL{parsed}
	template.NotBefore = time.Now().Add(-time.Hour)
	cert, key, err := signCertificate(template, &ca.Certificate)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, writePEM(filepath.Join(dir, "c"), "CERTIFICATE", cert))
	require.NoError(t, writePEM(filepath.Join(dir, "k"), "PRIVATE KEY", key))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "c"), filepath.Join(dir, "k"))
	require.NoError(t, err)
	config := base.Client(Controller)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config
}

func TestClientsRefuseServersThatAreNotControllers(t *testing.T) {
	ca := newCA(t, "one")
	client := credentialsOf(t, ca, Node, "n1").Client(Controller)
	for name, server := range map[string]*Credentials{
		"a node of the cluster":      credentialsOf(t, ca, Node, "n2"),
		"a controller of another CA": credentialsOf(t, newCA(t, "one"), Controller, "c1"),
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, atClient := handshake(t, server.Server(Node), client)
				require.ErrorContains(t, atClient, "verify the peer's certificate")
			}
		})
	}
	t.Run("a server of the right CA without the role asked for", func(t *testing.T) {
		server := credentialsOf(t, ca, Controller, "c1")
		_, atClient := handshake(t, server.Server(Node), credentialsOf(t, ca, Node, "n1").Client(Admin))
		require.ErrorContains(t, atClient, "does not have the role that is needed here (admin)")
	})
}

func TestChangedFilesAreUsedByTheNextHandshake(t *testing.T) {
	ca := newCA(t, "one")
	out := filepath.Join(t.TempDir(), "out")
	files, err := Issue(ca, out, Identity{Role: Controller, Name: "c1"}, time.Hour)
	require.NoError(t, err)
	server, err := Load(files)
	require.NoError(t, err)
	client := credentialsOf(t, ca, Node, "n1")
	config := server.Server(Node) // made once: it must not hold on to what was loaded
	first := server.currentMaterial().cert.Leaf.SerialNumber
	for range 2 {
		_, err = Issue(ca, out, Identity{Role: Controller, Name: "c1"}, time.Hour)
		require.NoError(t, err)
		require.NoError(t, errors.Join(handshake(t, config, client.Client(Controller))))
		require.NotEqual(t, first, server.currentMaterial().cert.Leaf.SerialNumber)
		require.NoError(t, server.Err())
		first = server.currentMaterial().cert.Leaf.SerialNumber
	}

	t.Run("files that cannot be used leave the last good ones in use, and say so", func(t *testing.T) {
		require.NoError(t, os.WriteFile(files.Cert, []byte("half"), 0o600))
		require.NoError(t, errors.Join(handshake(t, config, client.Client(Controller))))
		require.ErrorContains(t, server.Err(), files.Cert)
	})
	t.Run("another identity needs a restart", func(t *testing.T) {
		other := issue(t, ca, Controller, "c2")
		copyFile(t, other.Cert, files.Cert)
		copyFile(t, other.Key, files.Key)
		require.ErrorContains(t, server.Err(), "restart the process")
		require.Equal(t, "c1", server.Identity().Name)
	})
	t.Run("another CA refuses who was good before", func(t *testing.T) {
		fresh := newCA(t, "one")
		_, err = Issue(fresh, out, Identity{Role: Controller, Name: "c1"}, time.Hour)
		require.NoError(t, err)
		atServer, _ := handshake(t, config, client.Client(Controller))
		require.Error(t, atServer)
		require.NoError(t, errors.Join(handshake(t, config, credentialsOf(t, fresh, Node, "n1").Client(Controller))))
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
}

func TestLoadRefusesReadableOrIncompleteFiles(t *testing.T) {
	ca := newCA(t, "one")
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, f Files)
		want  func(f Files) string
	}{
		"a key that the group can read": {
			func(t *testing.T, f Files) { require.NoError(t, os.Chmod(f.Key, 0o640)) },
			func(f Files) string { return "chmod 600 " + f.Key }},
		"a certificate that all can read": {
			func(t *testing.T, f Files) { require.NoError(t, os.Chmod(f.Cert, 0o644)) },
			func(f Files) string { return "chmod 600 " + f.Cert }},
		"a CA file that all can write": {
			func(t *testing.T, f Files) { require.NoError(t, os.Chmod(f.CA, 0o602)) },
			func(f Files) string { return "chmod 600 " + f.CA }},
		"a folder that all can enter": {
			func(t *testing.T, f Files) { require.NoError(t, os.Chmod(filepath.Dir(f.Key), 0o701)) },
			func(f Files) string { return "chmod 700 " + filepath.Dir(f.Key) }},
		"no key": {
			func(t *testing.T, f Files) { require.NoError(t, os.Remove(f.Key)) },
			func(f Files) string { return f.Key }},
		"a CA file without a certificate": {
			func(t *testing.T, f Files) { require.NoError(t, os.WriteFile(f.CA, []byte("x"), 0o600)) },
			func(f Files) string { return f.CA + " holds no PEM certificate" }},
		"a key of another certificate": {
			func(t *testing.T, f Files) { copyFile(t, issue(t, ca, Node, "n1").Key, f.Key) },
			func(f Files) string { return f.Key + " cannot be used together" }},
		"a certificate of another CA": {
			func(t *testing.T, f Files) { copyFile(t, issue(t, newCA(t, "one"), Node, "n1").CA, f.CA) },
			func(f Files) string { return "not good under the CA " + f.CA }},
	} {
		t.Run(name, func(t *testing.T) {
			files := issue(t, ca, Node, "n1")
			tc.spoil(t, files)
			for range 2 {
				_, err := Load(files)
				require.ErrorContains(t, err, tc.want(files))
			}
		})
	}
}

func TestErrorsNeverCarryKeys(t *testing.T) {
	files := issue(t, newCA(t, "one"), Node, "n1")
	key, err := os.ReadFile(files.Key)
	require.NoError(t, err)
	body := strings.Split(string(key), "\n")[1]
	for name, content := range map[string]string{
		"a key cut short":            string(key[:len(key)/2]),
		"a key whose body is broken": strings.Replace(string(key), body, body[1:], 1),
		"a key without its frame":    body,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(files.Key, []byte(content), 0o600))
			_, err := Load(files)
			require.Error(t, err)
			require.NotContains(t, err.Error(), body[:12])
		})
	}
}
