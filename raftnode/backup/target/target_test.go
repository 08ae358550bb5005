package target

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/backup"
)

// openTargets opens each kind.
func openTargets(t *testing.T) map[string]Target {
	t.Helper()
	memory := s3mem.New()
	require.NoError(t, memory.CreateBucket("backups"))
	server := httptest.NewTLSServer(gofakes3.New(memory).Server())
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	keys := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(keys, []byte("[default]\naws_access_key_id = key\naws_secret_access_key = secret\n"), 0o600))
	s3, err := Open(Options{To: "s3://backups/of/one", Endpoint: server.URL, Region: "here", CA: ca, CredentialsFile: keys})
	require.NoError(t, err)
	folder, err := Open(Options{To: t.TempDir()})
	require.NoError(t, err)
	return map[string]Target{"S3": s3, "folder": folder}
}

func write(content []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(content); return err }
}

func TestTargets(t *testing.T) {
	large := bytes.Repeat([]byte("holdfast"), 5<<18) // more than the smallest part of S3
	for kind, to := range openTargets(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			names, err := to.Names(ctx)
			require.NoError(t, err)
			require.Empty(t, names)
			for name, content := range map[string][]byte{"small": []byte("x"), "large": large} {
				require.NoError(t, to.Put(ctx, name, write(content)))
				in, err := to.Open(ctx, name)
				require.NoError(t, err)
				got, err := io.ReadAll(in)
				require.NoError(t, errors.Join(err, in.Close()))
				require.True(t, bytes.Equal(content, got), "%s %q", name, got[:min(len(got), 400)])
			}
			interrupted := errors.New("interrupted")
			for range 2 {
				require.ErrorIs(t, to.Put(ctx, "never", func(w io.Writer) error {
					return errors.Join(write(large[:1<<20])(w), interrupted)
				}), interrupted)
			}
			names, err = to.Names(ctx)
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"small", "large"}, names)
			for range 2 {
				require.NoError(t, to.Remove(ctx, "large"))
			}
			names, err = to.Names(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{"small"}, names)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			require.Error(t, to.Put(ended, "late", write(large)))
		})
	}
}

func TestS3ThatDoesNotAnswer(t *testing.T) {
	to, err := Open(Options{To: "s3://backups", Endpoint: "http://127.0.0.1:1"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = to.Names(ctx)
	require.ErrorContains(t, err, "s3://backups")
}

func TestAFolderMustBeThere(t *testing.T) {
	to, err := Open(Options{To: filepath.Join(t.TempDir(), "not-mounted")})
	require.NoError(t, err)
	_, err = to.Names(t.Context())
	require.Error(t, err)
	require.Error(t, to.Put(t.Context(), "x", write([]byte("x"))))
}

func TestOpenRefuses(t *testing.T) {
	for _, o := range []Options{
		{To: ""}, {To: "relative"}, {To: "ftp://host/x"}, {To: "s3://"}, {To: "s3:///prefix"},
		{To: "s3://b", Endpoint: "not a url"}, {To: "s3://b", Endpoint: "ftp://host"}, {To: "s3://b", Endpoint: "https://name:secret@host"},
	} {
		_, err := Open(o)
		require.Error(t, err, "%+v", o)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestNames(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	full := backup.Header{Kind: backup.Full, ClusterID: "6ba7b810-9dad", Incarnation: 3, IncarnationID: "00112233445566", Index: 77, Time: at}
	increment := full
	increment.Kind, increment.Since, increment.Index = backup.Increment, 77, 99
	for _, n := range []Name{NameOf(full, false), NameOf(full, true), NameOf(increment, false), NameOf(increment, true)} {
		got, ok := ParseName(n.String())
		require.True(t, ok, n.String())
		require.Equal(t, n, got)
		_, ok = ParseName("x" + n.String())
		require.False(t, ok)
	}
	require.Equal(t, "holdfast_6ba7b810-9dad_000003-00112233_00000000000000000077_20260102T030405Z.full", NameOf(full, false).String())
	require.Less(t, NameOf(full, false).String(), NameOf(increment, false).String())
	for _, other := range []string{"", "full", "holdfast_a_1-0_2_3.full"} {
		_, ok := ParseName(other)
		require.False(t, ok)
	}
}
