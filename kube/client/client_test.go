package client

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: a
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
contexts:
- {name: a, context: {cluster: one, user: me, namespace: left}}
- {name: b, context: {cluster: one, user: me}}
`

func TestAKubeconfigNamesServerAndNamespace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(path, []byte(kubeconfig), 0o600))
	for context, namespace := range map[string]string{"": "left", "b": "default"} {
		config, got, err := Source{Kubeconfig: path, Context: context}.Config()
		require.NoError(t, err)
		require.Equal(t, namespace, got)
		require.Equal(t, "https://127.0.0.1:1", config.Host)
		require.Equal(t, requestTimeout, config.Timeout)
	}
	_, _, err := Source{Kubeconfig: path, Context: "c"}.Config()
	require.ErrorContains(t, err, `context "c" does not exist`)
	_, _, err = Source{Kubeconfig: path + ".missing"}.Config()
	require.ErrorContains(t, err, "read the kubeconfig")
}
