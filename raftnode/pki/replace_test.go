package pki

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// replaceLab is a CA, and the files of a process that has none yet.
func replaceLab(t *testing.T) (caDir string, files Files) {
	dir := t.TempDir()
	caDir = filepath.Join(dir, "ca")
	require.NoError(t, MakeCA(caDir, "prod"))
	own := filepath.Join(dir, "tls")
	return caDir, Files{Cert: filepath.Join(own, "tls.crt"), Key: filepath.Join(own, "tls.key"), CA: filepath.Join(own, "ca.crt")}
}

// killedBehind ends what is done behind the n-th file that it writes, as a kill would.
func killedBehind(t *testing.T, n int, do func() error) (killed bool) {
	t.Helper()
	errKilled := errors.New("killed")
	afterWrite = func(string) error {
		if n--; n == 0 {
			return errKilled
		}
		return nil
	}
	defer func() { afterWrite = nil }()
	err := do()
	if !errors.Is(err, errKilled) {
		require.NoError(t, err)
	}
	return err != nil
}

func TestAControllerIssuesItsOwnCertificate(t *testing.T) {
	caDir, files := replaceLab(t)
	id := Identity{Role: Controller, Name: "c1"}
	issue := func(now time.Time) bool {
		changed, err := IssueOwn(caDir, files, id, 90*24*time.Hour, now)
		require.NoError(t, err)
		creds, err := Load(files)
		require.NoError(t, err)
		require.Equal(t, Identity{Cluster: "prod", Role: Controller, Name: "c1"}, creds.Identity())
		return changed
	}
	require.True(t, issue(time.Now()))
	require.False(t, issue(time.Now().Add(59*24*time.Hour)))
	require.True(t, issue(time.Now().Add(61*24*time.Hour)), "a third of its life is left")
	require.NoError(t, os.Remove(files.Key))
	require.True(t, issue(time.Now()))
	_, err := IssueOwn(caDir, files, Identity{Role: Controller, Name: "c2"}, time.Hour, time.Now())
	require.ErrorContains(t, err, "is the certificate of controller/c1, not of controller/c2")
	for stage, plan := range map[string]func() (*FilePlan, error){
		"1": func() (*FilePlan, error) { return PlanRotate(caDir, nil) },
	} {
		p, err := plan()
		require.NoError(t, err, stage)
		require.NoError(t, p.CarryOut())
		require.False(t, issue(time.Now()), "the former CA still signs")
	}
	p, err := PlanSwitch(caDir, nil, time.Hour)
	require.NoError(t, err)
	require.NoError(t, p.CarryOut())
	require.True(t, issue(time.Now()))
	p, err = PlanFinish(caDir, nil)
	require.NoError(t, err)
	require.NoError(t, p.CarryOut())
	require.False(t, issue(time.Now()))
	known, err := readBundle(files.CA)
	require.NoError(t, err)
	require.Len(t, known, 1, "the former CA is trusted no more")
}

// Whenever a replacement is ended, there is a pair that can be used, and the same call goes on.
func TestAReplacementThatWasKilledLeavesAPair(t *testing.T) {
	id := Identity{Cluster: "prod", Role: Node, Name: "n1"}
	for name, replace := range map[string]func(caDir string, files Files, now time.Time) error{
		"issued by itself": func(caDir string, files Files, now time.Time) error {
			_, err := IssueOwn(caDir, files, id, 90*24*time.Hour, now)
			return err
		},
		"enrolled": enrolNext,
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				caDir, files := replaceLab(t)
				require.NoError(t, replace(caDir, files, time.Now()))
				before, _, err := Installed(files.Cert)
				require.NoError(t, err)
				later := time.Now().Add(61 * 24 * time.Hour)
				killed := killedBehind(t, n, func() error { return replace(caDir, files, later) })
				_, err = Load(files)
				require.NoError(t, err, "killed behind write %d", n)
				for range 2 {
					require.NoError(t, replace(caDir, files, later))
					_, err = Load(files)
					require.NoError(t, err)
				}
				after, _, err := Installed(files.Cert)
				require.NoError(t, err)
				require.NotEqual(t, before.Serial, after.Serial)
				require.NoFileExists(t, files.Key+nextKeySuffix)
				if !killed {
					require.Greater(t, n, 3)
					return
				}
			}
		})
	}
}

// enrolNext does what a node does, with the controller's part.
func enrolNext(caDir string, files Files, _ time.Time) error {
	request, keyFile, err := RequestNext(files)
	if err != nil {
		return err
	}
	public, _, err := ReadRequest(request)
	if err != nil {
		return err
	}
	ca, err := loadCA(caDir)
	if err != nil {
		return err
	}
	id := Identity{Cluster: "prod", Role: Node, Name: "n1"}
	cert, err := certify(leafTemplate(id, time.Hour, ca.Leaf), public, ca.Leaf, ca.PrivateKey)
	if err != nil {
		return err
	}
	return InstallNext(files, keyFile, id, cert, [][]byte{ca.Leaf.Raw})
}

func TestTrustThatIsNoCA(t *testing.T) {
	caDir, files := replaceLab(t)
	_, err := IssueOwn(caDir, files, Identity{Role: Node, Name: "n1"}, time.Hour, time.Now())
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, MakeCA(other, "test"))
	both := append(readAll(t, filepath.Join(caDir, caCert)), readAll(t, filepath.Join(other, caCert))...)
	for want, content := range map[string][]byte{
		"there is no PEM certificate": []byte("nothing"), "is not that of a holdfast CA": readAll(t, files.Cert), "of two clusters, prod and test": both,
	} {
		_, err := ParseTrust(content)
		require.ErrorContains(t, err, want)
	}
	_, err = ReadTrust(filepath.Join(caDir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	trust, err := ReadTrust(filepath.Join(caDir, caCert))
	require.NoError(t, err)
	require.Equal(t, "prod", trust.Cluster)
	require.True(t, trust.SignsFirst(files.Cert))
	require.False(t, (&Trust{cas: []*x509.Certificate{}}).SignsFirst(filepath.Join(caDir, "none")))
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}
