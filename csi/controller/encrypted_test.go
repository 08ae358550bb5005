package controller_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestAVolumeIsEncryptedWhereItsClassSaysSo(t *testing.T) {
	w := newEnv(t, hostIn("n1", "z1"))
	create := func(name string, parameters ...string) error {
		_, err := w.CreateVolume(t.Context(), createRequest(name, withParameters(parameters...)))
		return err
	}
	require.NoError(t, create("secret", "encrypted", "true"))
	require.NoError(t, create("secret", "encrypted", "true"))
	requireCode(t, codes.AlreadyExists, create("secret"))
	require.NoError(t, create("clear"))
	require.NoError(t, create("clear", "encrypted", "false"), "what it is without")
	requireCode(t, codes.AlreadyExists, create("clear", "encrypted", "true"))
}

// S61: discards pass only where a class of encrypted volumes says so.
func TestDiscardsOfEncryptedVolumes(t *testing.T) {
	w := newEnv(t, hostIn("n1", "z1"))
	create := func(name string, parameters ...string) error {
		_, err := w.CreateVolume(t.Context(), createRequest(name, withParameters(parameters...)))
		return err
	}
	for range 2 {
		require.NoError(t, create("shown", "encrypted", "true", "encryptionDiscards", "true"))
		require.NoError(t, create("hidden", "encrypted", "true"))
		require.NoError(t, create("hidden", "encrypted", "true", "encryptionDiscards", "false"), "what it is without")
		require.NoError(t, create("hidden", "encrypted", "true", "encryptionDiscards", ""))
		require.NoError(t, create("clear", "encryptionDiscards", "false"))
	}
	requireCode(t, codes.AlreadyExists, create("shown", "encrypted", "true"))
	requireCode(t, codes.AlreadyExists, create("hidden", "encrypted", "true", "encryptionDiscards", "true"))
	requireCode(t, codes.InvalidArgument, create("clear", "encryptionDiscards", "true"))
	requireCode(t, codes.InvalidArgument, create("clear", "encrypted", "false", "encryptionDiscards", "true"))
	requireCode(t, codes.InvalidArgument, create("odd", "encrypted", "true", "encryptionDiscards", "yes"))
}

// A controller takes no passphrase on: what a caller sends with a creation is in no command (S63).
func TestS63_AControllerTakesNoPassphraseOn(t *testing.T) {
	w := newEnv(t, hostIn("n1", "z1"))
	var seen []string
	w.cluster.update(func(c *fakeCluster) {
		c.mutateCommand = func(cmd *fsmpb.Command) { seen = append(seen, cmd.String()) }
	})
	_, err := w.CreateVolume(t.Context(), createRequest("secret", withParameters("encrypted", "true"), func(r *csi.CreateVolumeRequest) {
		r.Secrets = map[string]string{"encryptionPassphrase": "canary-passphrase"}
	}))
	require.NoError(t, err)
	require.NotEmpty(t, seen)
	require.NotContains(t, strings.Join(seen, " "), "canary")
}
