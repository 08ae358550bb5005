package controller

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func TestDialable(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1:9803": "10.0.0.1:9803", "c1.example:9803": "c1.example:9803", ":9803": "10.0.0.7:9803", "0.0.0.0:9803": "10.0.0.7:9803", "[::]:9803": "10.0.0.7:9803", "nonsense": "nonsense",
	} {
		require.Equal(t, want, dialable(addr, "10.0.0.7:9800"))
	}
	require.Equal(t, ":9803", dialable(":9803", "nonsense"))
}

func TestEnrollFlagsComeTogether(t *testing.T) {
	require.NoError(t, (&enrollFlags{}).check())
	require.NoError(t, (&enrollFlags{listen: ":1", caDir: "ca"}).check())
	for _, f := range []enrollFlags{{listen: ":1"}, {caDir: "ca"}} {
		require.Equal(t, exit.Usage, exit.Code(f.check()))
	}
	require.NoError(t, checkZone(""))
	require.NoError(t, checkZone("eu-1"))
	require.Equal(t, exit.Usage, exit.Code(checkZone("a b")))
}

// What the cluster said when this host joined stands in for flags that are not given, and for no others.
func TestAControllerTakesUpWhatTheClusterSaid(t *testing.T) {
	dir := t.TempDir()
	tls := filepath.Join(dir, "tls")
	require.NoError(t, pki.MakeCA(filepath.Join(dir, "ca"), "prod"))
	made, err := pki.Issue(filepath.Join(dir, "ca"), tls, pki.Identity{Role: pki.Controller, Name: "c4"}, 1<<40)
	require.NoError(t, err)
	require.NoError(t, os.Rename(made.Cert, filepath.Join(tls, "tls.crt")))
	require.NoError(t, os.Rename(made.Key, filepath.Join(tls, "tls.key")))
	require.NoError(t, os.WriteFile(filepath.Join(tls, "joined.json"), []byte(`{"raft_addresses":["10.0.0.1:9800"],"address":"10.0.0.4"}`), 0o600))
	for name, tc := range map[string]struct {
		set       []string
		given     options
		join      []string
		raft, api string
	}{
		"nothing is given":    {join: []string{"10.0.0.1:9800"}, raft: "10.0.0.4:9800", api: "10.0.0.4:9802"},
		"an address is given": {set: []string{"raft-listen"}, join: []string{"10.0.0.1:9800"}, raft: "127.0.0.1:9800", api: "10.0.0.4:9802"},
		"members are given":   {given: options{join: []string{"10.0.0.2:9800"}}, join: []string{"10.0.0.2:9800"}, raft: "10.0.0.4:9800", api: "10.0.0.4:9802"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				o := tc.given
				o.raftListen, o.apiListen, o.Join.Dir = "127.0.0.1:9800", "127.0.0.1:9802", tls
				o.isSet = func(flag string) bool { return len(tc.set) > 0 && tc.set[0] == flag }
				require.NoError(t, o.enroll(t.Context(), &controller{options: &o, log: slog.New(slog.NewTextHandler(io.Discard, nil))}))
				require.Equal(t, filepath.Join(tls, "tls.crt"), o.Files.Cert)
				require.Equal(t, tc.join, o.join)
				require.Equal(t, tc.raft, o.raftListen)
				require.Equal(t, tc.api, o.apiListen)
			}
		})
	}
}
