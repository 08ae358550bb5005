package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// socketDir is short: a socket's path is bounded.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// CSI-OPS-Conn-03, CSI-OPS-Env-02..04, CSI-OPS-Sec-04.
func TestSocketPath(t *testing.T) {
	for name, tc := range map[string]struct{ endpoint, path, problem string }{
		"unix:///path":               {"unix:///run/csi.sock", "/run/csi.sock", ""},
		"unix://path":                {"unix://csi.sock", "csi.sock", ""},
		"unix:/path":                 {"unix:/run/csi.sock", "/run/csi.sock", ""},
		"the bare path":              {"/run/csi.sock", "/run/csi.sock", ""},
		"nothing":                    {"", "", "CSI_ENDPOINT"},
		"nothing after the scheme":   {"unix://", "", "CSI_ENDPOINT"},
		"no .sock at the end":        {"unix:///run/x", "", ".sock"},
		"TCP is not served":          {"tcp://127.0.0.1:1", "", "only unix sockets"},
		"a path too long for Linux":  {"unix:///" + strings.Repeat("d", 120) + ".sock", "", "107"},
		"a path of exactly 107 byte": {"/" + strings.Repeat("d", 101) + ".sock", "/" + strings.Repeat("d", 101) + ".sock", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := SocketPath(tc.endpoint)
			require.Equal(t, tc.path, path)
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				_, err = Listen(tc.endpoint)
				require.ErrorContains(t, err, tc.problem)
			}
		})
	}
}

// CSI-OPS-Conn-02, CSI-OPS-FS-02: the socket is there, for its owner only, and alone.
func TestListen(t *testing.T) {
	dir := socketDir(t)
	path := filepath.Join(dir, "csi.sock")
	listener, err := Listen("unix://" + path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, info.Mode())

	client, err := net.Dial("unix", path)
	require.NoError(t, err)
	conn, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, client.Close())

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, listener.Close())
	require.NoFileExists(t, path)
}

// CSI-OPS-Env-05: the socket of a dead process makes way.
func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false) // as after SIGKILL
	require.NoError(t, dead.Close())
	require.FileExists(t, path)
	for range 2 {
		listener, err := Listen(path)
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}
}

// CSI-OPS-Oper-06: what cannot be served is refused with a line that says why, and
// what is there stays.
func TestListenRefuses(t *testing.T) {
	dir := socketDir(t)
	live := filepath.Join(dir, "live.sock")
	first, err := Listen(live)
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Close()) }()
	file := filepath.Join(dir, "file.sock")
	require.NoError(t, os.WriteFile(file, []byte("data"), 0o600))
	for name, tc := range map[string]struct{ path, problem string }{
		"a socket that is served": {live, "another process serves this socket"},
		"a file":                  {file, "is no socket"},
		"a folder that is absent": {filepath.Join(dir, "no", "x.sock"), "open the socket's folder"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := Listen(tc.path)
				require.ErrorContains(t, err, tc.problem)
				require.NotContains(t, err.Error(), "\n")
			}
		})
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "data", string(content))
	client, err := net.Dial("unix", live)
	require.NoError(t, err)
	require.NoError(t, client.Close())
}

// TestListenAtOnce: of two processes that start at once one serves.
func TestListenAtOnce(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	type result struct {
		listener net.Listener
		err      error
	}
	results := make(chan result, 8)
	for range cap(results) {
		go func() {
			listener, err := Listen(path)
			results <- result{listener, err}
		}()
	}
	served := 0
	var open []net.Listener
	for range cap(results) {
		if r := <-results; r.err == nil {
			served++
			open = append(open, r.listener)
		}
	}
	require.Equal(t, 1, served)
	require.NoError(t, open[0].Close())
}

// A socket that somebody removed is missed, and what took its path stays.
func TestASocketIsRemovedByItsOwnListenerOnly(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	first, err := ListenSocket(path)
	require.NoError(t, err)
	require.True(t, first.Present())
	require.NoError(t, os.Remove(path))
	require.False(t, first.Present())
	second, err := ListenSocket(path)
	require.NoError(t, err)
	require.False(t, first.Present())
	for range 2 {
		require.NoError(t, first.Close())
		require.True(t, second.Present())
	}
	for range 2 {
		require.NoError(t, second.Close())
		require.NoFileExists(t, path)
	}
}
