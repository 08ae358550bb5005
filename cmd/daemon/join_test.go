package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func TestFilesOfAHostThatJoins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	given := pki.Files{Cert: "a.crt", Key: "a.key", CA: "ca.crt"}
	for name, tc := range map[string]struct {
		flags JoinFlags
		files pki.Files
		want  pki.Files
	}{
		"files are given":               {JoinFlags{Token: "t", Dir: dir}, given, given},
		"a token":                       {JoinFlags{Token: "t", Dir: dir}, pki.Files{}, pki.Files{Cert: dir + "/tls.crt", Key: dir + "/tls.key", CA: dir + "/ca.crt"}},
		"nothing, and there is nothing": {JoinFlags{Dir: dir}, pki.Files{}, pki.Files{}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				tc.flags.ChooseFiles(&tc.files)
				require.Equal(t, tc.want, tc.files)
			}
		})
	}
	require.False(t, (&JoinFlags{Dir: dir}).Known(pki.Files{}))
	require.True(t, (&JoinFlags{Dir: dir, Token: "t"}).Known(pki.Files{}))
	require.True(t, (&JoinFlags{Dir: dir, TokenFile: "t"}).Known(pki.Files{}))
}

// An error about a token has nothing of it.
func TestTokensThatADaemonRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	id, secret, err := enroll.NewSecret()
	require.NoError(t, err)
	text, err := (&enroll.Token{ID: id, Secret: secret, Cluster: "prod", Role: pki.Node, Name: "n1", Addresses: []string{"127.0.0.1:1"}}).Text()
	require.NoError(t, err)
	all := pki.Files{Cert: dir + "/tls.crt", Key: dir + "/tls.key", CA: dir + "/ca.crt"}
	for name, tc := range map[string]struct {
		token string
		role  pki.Role
		files pki.Files
		exit  int
		want  string
	}{
		"no token":          {"secret", pki.Node, all, exit.Usage, "it is no join token"},
		"of another role":   {text, pki.Controller, all, exit.Usage, "it is for a node"},
		"one file is given": {text, pki.Node, pki.Files{Cert: "x"}, exit.Usage, "name all of --cert"},
		"nobody answers":    {text, pki.Node, all, exit.Unavailable, "the same command goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := (&JoinFlags{Token: tc.token, Dir: dir}).Enroll(t.Context(), tc.files, tc.role, slog.New(slog.DiscardHandler))
				require.Equal(t, tc.exit, exit.Code(err))
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), tc.token)
			}
		})
	}
}

// A token in a file is not in the list of processes. Once the certificate is there the file may be gone.
func TestATokenFromAFile(t *testing.T) {
	dir := t.TempDir()
	id, secret, err := enroll.NewSecret()
	require.NoError(t, err)
	text, err := (&enroll.Token{ID: id, Secret: secret, Cluster: "prod", Role: pki.Node, Name: "n1", Addresses: []string{"127.0.0.1:1"}}).Text()
	require.NoError(t, err)
	path := func(name, content string, mode os.FileMode) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), mode))
		return filepath.Join(dir, name)
	}
	all := pki.Files{Cert: dir + "/tls/tls.crt", Key: dir + "/tls/tls.key", CA: dir + "/tls/ca.crt"}
	there := pki.Files{Cert: path("tls.crt", "", 0o600), Key: all.Key, CA: all.CA}
	for name, tc := range map[string]struct {
		flags JoinFlags
		files pki.Files
		exit  int
		want  string
	}{
		"a good one":                    {JoinFlags{TokenFile: path("good", text+"\n", 0o600)}, all, exit.Unavailable, "the same command goes on"},
		"others can read it":            {JoinFlags{TokenFile: path("open", text, 0o644)}, all, exit.Usage, "chmod 600"},
		"it is empty":                   {JoinFlags{TokenFile: path("empty", "", 0o600)}, all, exit.Usage, "it is empty"},
		"it holds something else":       {JoinFlags{TokenFile: path("other", "secret", 0o600)}, all, exit.Usage, "--join-token-file: it is no join token"},
		"it is gone":                    {JoinFlags{TokenFile: dir + "/gone"}, all, exit.Usage, "no such file"},
		"a token is beside it":          {JoinFlags{TokenFile: path("good", text, 0o600), Token: text}, all, exit.Usage, "give one of them"},
		"it is gone, after it was used": {JoinFlags{TokenFile: dir + "/gone"}, there, exit.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				err := tc.flags.useToken(t.Context(), tc.files, pki.Node, slog.New(slog.DiscardHandler))
				require.Equal(t, tc.exit, exit.Code(err))
				if tc.want != "" {
					require.ErrorContains(t, err, tc.want)
					require.NotContains(t, err.Error(), text)
				}
			}
		})
	}
}

// A unit's standard input is empty at a later start, and its token file may be cut off or have another mode by then.
func TestATokenIsNotReadOnceTheCertificateIsThere(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	require.NoError(t, pki.MakeCA(ca, "prod"))
	issued := func(role pki.Role, validity time.Duration) pki.Files {
		files, err := pki.Issue(ca, filepath.Join(dir, string(role)+validity.String()), pki.Identity{Role: role, Name: "n1"}, validity)
		require.NoError(t, err)
		return files
	}
	good, other, expired := issued(pki.Node, time.Hour), issued(pki.Controller, time.Hour), issued(pki.Node, time.Nanosecond)
	empty, open := filepath.Join(dir, "empty"), filepath.Join(dir, "open")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(open, []byte("secret"), 0o644))
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	for name, tc := range map[string]struct{ from, want string }{
		"standard input":     {"-", "it is empty"},
		"a truncated file":   {empty, "it is empty"},
		"others can read it": {open, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			null, err := os.Open(os.DevNull)
			require.NoError(t, err)
			defer func() { require.NoError(t, null.Close()) }()
			os.Stdin = null
			flags, log := &JoinFlags{TokenFile: tc.from}, slog.New(slog.DiscardHandler)
			for range 2 {
				require.NoError(t, flags.useToken(t.Context(), good, pki.Node, log))
				for _, files := range []pki.Files{expired, other} {
					require.ErrorContains(t, flags.useToken(t.Context(), files, pki.Node, log), tc.want)
				}
			}
		})
	}
}
