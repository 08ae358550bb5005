package pki

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errKilled = errors.New("killed")

// killAfter ends a verb behind its n-th file.
func killAfter(t *testing.T, n int) {
	t.Helper()
	afterWrite = func(string) error {
		if n--; n < 0 {
			return errKilled
		}
		return nil
	}
	t.Cleanup(func() { afterWrite = nil })
}

// rotated is a CA with two folders of certificates, and who must stay able to speak to whom.
type rotated struct {
	ca, servers, nodes string
	folders            []string
}

func newRotated(t *testing.T) *rotated {
	t.Helper()
	dir := t.TempDir()
	r := &rotated{ca: newCA(t, "one"), servers: filepath.Join(dir, "servers"), nodes: filepath.Join(dir, "nodes")}
	r.folders = []string{r.servers, r.nodes}
	for _, id := range []Identity{{Role: Controller, Name: "c1"}, {Role: Controller, Name: "c2"}} {
		_, err := Issue(r.ca, r.servers, id, time.Hour)
		require.NoError(t, err)
	}
	_, err := Issue(r.ca, r.nodes, Identity{Role: Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	return r
}

// requireAllSpeak: whoever starts now can be loaded, and a node and a controller trust each other.
func (r *rotated) requireAllSpeak(t *testing.T) {
	t.Helper()
	var all []*Credentials
	for _, files := range []Files{FilesIn(r.servers, Controller, "c1"), FilesIn(r.servers, Controller, "c2"), FilesIn(r.nodes, Node, "n1")} {
		creds, err := Load(files)
		require.NoError(t, err)
		all = append(all, creds)
	}
	_, err := loadCA(r.ca)
	require.NoError(t, err)
	require.NoError(t, errors.Join(handshake(t, all[0].Server(Node), all[2].Client(Controller))))
	require.NoError(t, errors.Join(handshake(t, all[0].Server(Controller), all[1].Client(Controller))))
}

// toEnd carries a verb out, killed behind its first file, behind its second, and so on, until it is done.
func (r *rotated) toEnd(t *testing.T, plan func() (*FilePlan, error)) {
	t.Helper()
	for kill := 0; ; kill++ {
		p, err := plan()
		require.NoError(t, err)
		if p.Todo() == 0 {
			return
		}
		require.Less(t, kill, 100, "it never ends")
		killAfter(t, kill)
		if err := p.CarryOut(); err != nil {
			require.ErrorIs(t, err, errKilled)
		}
		afterWrite = nil
		r.requireAllSpeak(t)
	}
}

// Each stage is killed behind each of its files, and repeated.
func TestARotationOfTheCAOutlivesKills(t *testing.T) {
	r := newRotated(t)
	old, err := loadCA(r.ca)
	require.NoError(t, err)
	outsider := credentialsOf(t, r.ca, Node, "n2")
	rotate := func() (*FilePlan, error) { return PlanRotate(r.ca, r.folders) }
	change := func() (*FilePlan, error) { return PlanSwitch(r.ca, r.folders, time.Hour) }
	finish := func() (*FilePlan, error) { return PlanFinish(r.ca, r.folders) }

	_, err = change()
	require.ErrorContains(t, err, "there is none", "the stages have an order")
	r.toEnd(t, rotate)
	_, err = finish()
	require.ErrorContains(t, err, "it still signs")
	r.toEnd(t, rotate)
	r.toEnd(t, change)
	_, err = rotate()
	require.ErrorContains(t, err, "not finished")
	r.toEnd(t, change)
	renewed, err := loadCA(r.ca)
	require.NoError(t, err)
	require.False(t, renewed.Leaf.Equal(old.Leaf), "another CA signs")
	server, err := Load(FilesIn(r.servers, Controller, "c1"))
	require.NoError(t, err)
	_, atClient := handshake(t, server.Server(Node), outsider.Client(Controller))
	require.Error(t, atClient, "who was given no bundle trusts the old CA only")
	r.toEnd(t, finish)
	r.toEnd(t, finish)
	atServer, _ := handshake(t, server.Server(Node), outsider.Client(Controller))
	require.Error(t, atServer, "the old CA is dropped")
	for _, dir := range append(r.folders, r.ca) {
		bundle, err := readBundle(filepath.Join(dir, caCert))
		require.NoError(t, err)
		require.Len(t, bundle, 1, dir)
		requirePrivate(t, dir)
	}
}

func TestTheOldCAIsNotDroppedWhileACertificateIsItsOwn(t *testing.T) {
	r := newRotated(t)
	for _, plan := range []func() (*FilePlan, error){
		func() (*FilePlan, error) { return PlanRotate(r.ca, r.folders) },
		func() (*FilePlan, error) { return PlanSwitch(r.ca, []string{r.servers}, time.Hour) },
	} {
		p, err := plan()
		require.NoError(t, err)
		require.NoError(t, p.CarryOut())
	}
	for range 2 {
		_, err := PlanFinish(r.ca, r.folders)
		require.ErrorContains(t, err, "node/n1")
	}
	r.requireAllSpeak(t)
}

func TestRenewOutlivesKills(t *testing.T) {
	r := newRotated(t)
	killed, other := filepath.Join(r.nodes, tempPrefix+"1"), filepath.Join(r.nodes, tempPrefix+"2")
	for _, path := range []string{killed, other} {
		require.NoError(t, os.WriteFile(path, []byte("half a key"), 0o600))
	}
	require.NoError(t, os.Chtimes(killed, time.Time{}, time.Now().Add(-2*unfinishedFor)))
	_, err := Issue(r.ca, r.nodes, Identity{Role: Node, Name: "n9"}, 1000*time.Hour)
	require.NoError(t, err)
	before, err := os.ReadFile(FilesIn(r.nodes, Node, "n9").Cert)
	require.NoError(t, err)
	r.toEnd(t, func() (*FilePlan, error) { return PlanRenew(r.ca, r.folders, 2*time.Hour, 30*time.Hour) })
	after, err := os.ReadFile(FilesIn(r.nodes, Node, "n9").Cert)
	require.NoError(t, err)
	require.Equal(t, before, after, "what is good for longer stays")
	creds, err := Load(FilesIn(r.nodes, Node, "n1"))
	require.NoError(t, err)
	require.Greater(t, time.Until(creds.Certificate().NotAfter), 29*time.Hour)
	require.NoFileExists(t, killed)
	require.FileExists(t, other, "it may be another verb's, which runs now")
	_, err = PlanRenew(r.ca, r.folders, 2*time.Hour, time.Hour)
	require.ErrorContains(t, err, "renewed again at once")
}

// A new pair takes the place of the old one file by file.
func TestIssueAgainOutlivesKills(t *testing.T) {
	r := newRotated(t)
	for kill := range 4 {
		killAfter(t, kill)
		_, err := Issue(r.ca, r.nodes, Identity{Role: Node, Name: "n1"}, time.Hour)
		require.Equal(t, kill < 3, err != nil, "a pair is three files, one of them twice")
		afterWrite = nil
		r.requireAllSpeak(t)
	}
}
