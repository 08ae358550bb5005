package controller

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// Between the switch to another CA and the controllers' new certificates a token would name a CA that signs nothing any more.
func TestNoTokenNamesACAThatSignsNoMore(t *testing.T) {
	dir := t.TempDir()
	ca, own := filepath.Join(dir, "ca"), filepath.Join(dir, "own")
	require.NoError(t, pki.MakeCA(ca, "prod"))
	files, err := pki.Issue(ca, own, pki.Identity{Role: pki.Controller, Name: "c1"}, time.Hour)
	require.NoError(t, err)
	signer, err := pki.NewSigner(ca, "prod")
	require.NoError(t, err)
	issuing := &controller{enrollment: &enrollment{signer: signer}}
	pinOf := func(c *controller) ([]byte, error) {
		var err error
		c.creds, err = pki.Load(files)
		require.NoError(t, err)
		pin, cluster, err := c.tokenAuthority("node", "n1")
		if err == nil {
			require.Equal(t, "prod", cluster)
		}
		return pin, err
	}
	carryOut := func(p *pki.FilePlan, err error) {
		t.Helper()
		require.NoError(t, err)
		require.NoError(t, p.CarryOut())
	}
	former, err := pinOf(issuing)
	require.NoError(t, err)
	carryOut(pki.PlanRotate(ca, []string{own}))
	pin, err := pinOf(issuing)
	require.NoError(t, err, "the former CA still signs")
	require.Equal(t, former, pin)
	carryOut(pki.PlanSwitch(ca, nil, time.Hour))
	for range 2 {
		_, err = pinOf(issuing)
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.ErrorContains(t, err, "`holdfast ca rotate --switch`")
		_, err = pinOf(&controller{})
		require.NoError(t, err, "it cannot tell")
	}
	carryOut(pki.PlanSwitch(ca, []string{own}, time.Hour))
	pin, err = pinOf(issuing)
	require.NoError(t, err)
	require.NotEqual(t, former, pin)
	signs, err := signer.Signs(pin)
	require.NoError(t, err)
	require.True(t, signs)
}
