package controller

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/bootstrap"
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
	require.NoError(t, (&enrollFlags{caDir: "ca", selfIssue: true}).check())
	require.NoError(t, (&enrollFlags{listen: ":1", caDir: "ca", account: "holdfast/holdfast-node"}).check())
	for _, f := range []enrollFlags{{listen: ":1"}, {caDir: "ca"}, {selfIssue: true}, {account: "a/b"}, {caDir: "ca", selfIssue: true, account: "a/b"}, {listen: ":1", caDir: "ca", account: "a"}} {
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

// A controller in a pod takes up what kube-init decided, and does not start before something was.
func TestS167_AControllerFoundsOnlyWhatWasDecided(t *testing.T) {
	dir := t.TempDir()
	file := bootstrap.File(dir)
	id := strings.Repeat("a", 32)
	for name, tc := range map[string]struct {
		content string
		founds  bool
		exit    int
	}{
		"it founds":                {`{"id":"` + id + `","bootstrap":true}`, true, exit.OK},
		"it joins":                 {`{"id":"` + id + `","bootstrap":false}`, false, exit.OK},
		"S167: nothing is said":    {"", false, exit.Refused},
		"S167: half of it":         {`{"id":"` + id + `","boot`, false, exit.Refused},
		"S167: it is of no folder": {`{"bootstrap":true}`, false, exit.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(tc.content), 0o600))
			for range 2 {
				o := options{bootstrapFrom: file}
				require.Equal(t, tc.exit, exit.Code(o.readVerdict()))
				require.Equal(t, tc.founds, o.bootstrap)
			}
		})
	}
	require.NoError(t, os.Remove(file))
	require.Equal(t, exit.Refused, exit.Code((&options{bootstrapFrom: file}).readVerdict()), "the folder was lost under a pod that runs")
	require.NoError(t, (&options{}).readVerdict())
}

func TestAControllerIssuesItselfACertificate(t *testing.T) {
	dir := t.TempDir()
	o := &options{name: "holdfast-controller-0"}
	o.enrollFlags.caDir, o.enrollFlags.selfIssue, o.Join.Dir = filepath.Join(dir, "ca"), true, filepath.Join(dir, "tls")
	log := slog.New(slog.DiscardHandler)
	require.Equal(t, exit.Usage, exit.Code(o.issueOwn(log)), "there is no CA")
	require.NoError(t, pki.MakeCA(o.enrollFlags.caDir, "prod"))
	for range 2 {
		require.NoError(t, o.issueOwn(log))
		creds, err := pki.Load(o.Files)
		require.NoError(t, err)
		require.Equal(t, "spiffe://prod/controller/holdfast-controller-0", creds.Identity().String())
	}
	require.NoError(t, (&options{}).issueOwn(log))
}
