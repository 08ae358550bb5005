package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

func TestEverySecretIsMadeOnce(t *testing.T) {
	c := Config{Dir: t.TempDir(), Nodes: 2}
	require.NoError(t, c.makeSecrets())
	ca, err := os.ReadFile(c.pki("ca.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	for user, s := range c.subjects() {
		pair, err := tls.LoadX509KeyPair(c.pki(user+".crt"), c.pki(user+".key"))
		require.NoError(t, err)
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		require.NoError(t, err, user)
		require.Equal(t, s.name, pair.Leaf.Subject.CommonName)
		for _, host := range s.hosts {
			require.NoError(t, pair.Leaf.VerifyHostname(host))
		}
		rest, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(user))
		require.NoError(t, err)
		require.Equal(t, apiServer, rest.Host)
	}
	require.NoError(t, c.makeSecrets())
	again, err := os.ReadFile(c.pki("ca.crt"))
	require.NoError(t, err)
	require.Equal(t, ca, again)
}

func TestMissingProgramsAreNamed(t *testing.T) {
	c := Config{Dir: t.TempDir(), Programs: t.TempDir(), Version: "v1.37.2"}
	require.ErrorContains(t, c.StartControlPlane(t.Context()), "kube-apiserver-v1.37.2")
}
