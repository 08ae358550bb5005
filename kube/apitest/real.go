package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// BinariesEnv names a folder with kube-apiserver-VERSION and etcd-VERSION.
const BinariesEnv = "HOLDFAST_KUBERNETES_BIN"

// adminToken is that of a user who may do everything at the server of one test.
const adminToken = "admin-of-one-test"

// startTimeout bounds the start of the server on a busy machine.
const startTimeout = 4 * time.Minute

// Start starts an API server with etcd, until the test ends, and returns the configuration of who may do everything. It skips where
// the programs are not there.
func Start(t *testing.T) *rest.Config {
	t.Helper()
	etcd, server := binary(t, "etcd"), binary(t, "kube-apiserver")
	dir := t.TempDir()
	ports := freePorts(t, 3)
	client := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	run(t, dir, etcd, "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	key, users := filepath.Join(dir, "accounts.key"), filepath.Join(dir, "users.csv")
	writeKey(t, key)
	require.NoError(t, os.WriteFile(users, []byte(adminToken+",admin,1,system:masters\n"), 0o600))
	run(t, dir, server, "--etcd-servers", client, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]), "--cert-dir", filepath.Join(dir, "tls"),
		"--service-account-issuer", "https://api.test", "--service-account-signing-key-file", key, "--service-account-key-file", key,
		"--api-audiences", "https://api.test", "--authorization-mode", "RBAC", "--token-auth-file", users, "--service-cluster-ip-range", "10.0.0.0/24",
		"--disable-admission-plugins", "ServiceAccount", "--allow-privileged")
	config := &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	awaitReady(t, config, dir)
	return config
}

// Client is a client of the server.
func Client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	api, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return api
}

func binary(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv(BinariesEnv)
	if dir == "" {
		t.Skipf("%s is not set: name a folder with kube-apiserver-VERSION and etcd-VERSION to run against a real API server", BinariesEnv)
	}
	found, err := filepath.Glob(filepath.Join(dir, name+"-v*"))
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skipf("there is no %s-VERSION in %s=%s", name, BinariesEnv, dir)
	}
	return found[len(found)-1]
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
		defer func() { _ = listener.Close() }()
	}
	return ports
}

// run runs a program until the test ends, or this process does. What it says is in a file of its name.
func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	require.NoError(t, err)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
}

func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
}

func awaitReady(t *testing.T, config *rest.Config, dir string) {
	t.Helper()
	api := Client(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		err := api.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			for _, path := range logs {
				content, _ := os.ReadFile(path)
				t.Logf("%s: %s", path, content[max(0, len(content)-2000):])
			}
			require.NoError(t, err, "start an API server")
		case <-time.After(time.Second):
		}
	}
}
