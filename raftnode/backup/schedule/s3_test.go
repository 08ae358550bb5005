package schedule

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// newS3 serves S3; its keys come from the environment.
func newS3(t *testing.T) target.Target {
	t.Helper()
	memory := s3mem.New()
	require.NoError(t, memory.CreateBucket("backups"))
	server := httptest.NewTLSServer(gofakes3.New(memory).Server())
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	to, err := target.Open(target.Options{To: "s3://backups/prod", Endpoint: server.URL, CA: ca})
	require.NoError(t, err)
	return to
}

// fetch copies what a target has into a folder.
func fetch(t *testing.T, from target.Target) string {
	t.Helper()
	dir := t.TempDir()
	all, err := from.Names(t.Context())
	require.NoError(t, err)
	for _, name := range all {
		in, err := from.Open(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, target.Folder(dir).Put(t.Context(), name, func(w io.Writer) error {
			_, err := io.Copy(w, in)
			return errors.Join(err, in.Close())
		}))
	}
	return dir
}

func TestAnEncryptedScheduleInS3(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	to, m, c := newS3(t), backuptest.New(t, "one").Nodes(0, 3), &clock{now: time.Unix(1_000_000, 0)}
	for i := range 3 { // each time another leader
		s := newScheduler(t, m, to, c)
		s.Recipients = []age.Recipient{identity.Recipient()}
		for range 2 {
			require.NoError(t, s.Once(t.Context()))
		}
		c.add(time.Minute)
		m.Nodes(10*(i+1), 10*(i+1)+2)
	}
	full, increments := names(t, to)
	require.Len(t, full, 1)
	require.Len(t, increments, 2)
	dir := fetch(t, to)
	f := backup.Files{Full: filepath.Join(dir, full[0].String()), Identities: []age.Identity{identity}}
	for _, n := range increments {
		require.True(t, n.Encrypted)
		f.Increments = append(f.Increments, filepath.Join(dir, n.String()))
	}
	content, err := backup.Load(f)
	require.NoError(t, err)
	require.Equal(t, increments[1].Index, content.Index())
	f.Identities = nil
	_, err = backup.Load(f)
	require.ErrorContains(t, err, "--identity")
}
