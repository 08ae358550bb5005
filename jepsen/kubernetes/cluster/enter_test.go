package cluster

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAClusterIsOfOneVersion(t *testing.T) {
	c := Config{Dir: t.TempDir(), Version: "v1.37.2"}
	require.NoError(t, c.checkVersion())
	require.NoError(t, os.WriteFile(c.versionFile(), []byte("v1.37.2"), 0o600))
	require.NoError(t, c.checkVersion())
	c.Version = "v1.36.3"
	require.ErrorContains(t, c.checkVersion(), "is of Kubernetes v1.37.2, not v1.36.3")
}
