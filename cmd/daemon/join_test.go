package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"

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
