package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestMountOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		lists []string
		want  mountOptions
		code  int
	}{
		"none":                               {want: mountOptions{}},
		"those of fstab are not the mount's": {lists: []string{"defaults,rw,nofail,_netdev,noauto,x-systemd.after=holdfast-node.service,comment=x"}},
		"those of the filesystem":            {lists: []string{"ro,noatime", "errors=remount-ro"}, want: mountOptions{readOnly: true, flags: []string{"noatime", "errors=remount-ro"}}},
		"those of the helper":                {lists: []string{"secrets=/etc/s,wait=30s,even-if-orchestrated"}, want: mountOptions{secrets: "/etc/s", wait: 30 * time.Second, evenIfOrchestrated: true}},
		"a remount":                          {lists: []string{"remount,ro"}, code: exit.Usage},
		"no time":                            {lists: []string{"wait=soon"}, code: exit.Usage},
		"a time below zero":                  {lists: []string{"wait=-1s"}, code: exit.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got, err := parseMountOptions(tc.lists)
				require.Equal(t, tc.code, exit.Code(err))
				if tc.code == exit.OK {
					require.Equal(t, tc.want, got)
				}
			}
		})
	}
}

func TestSecretsAreReadFromAPrivateFileOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	require.NoError(t, os.WriteFile(path, []byte("encryptionPassphrase: canary\n"), 0o600))
	secrets, err := readSecrets(path)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"encryptionPassphrase": "canary"}, secrets)
	secrets, err = readSecrets("")
	require.NoError(t, err)
	require.Nil(t, secrets)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o666} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := readSecrets(path)
		require.Equal(t, exit.Usage, exit.Code(err))
		require.ErrorContains(t, err, "chmod 600")
	}
	require.NoError(t, os.WriteFile(path, []byte("canary"), 0o600))
	require.NoError(t, os.Chmod(path, 0o600))
	for _, bad := range []string{path, filepath.Dir(path), path + ".none"} {
		_, err := readSecrets(bad)
		require.Equal(t, exit.Usage, exit.Code(err))
		require.NotContains(t, err.Error(), "canary")
	}
}

func TestTheProgramIsAHelperByItsName(t *testing.T) {
	require.Equal(t, []string{"mount", "--helper", "data", "/mnt", "-o", "rw"}, Args([]string{"/sbin/mount.holdfast", "data", "/mnt", "-o", "rw"}))
	require.Equal(t, []string{"umount", "--helper", "/mnt"}, Args([]string{"umount.holdfast", "/mnt"}))
	require.Equal(t, []string{"status"}, Args([]string{"/usr/sbin/holdfast", "status"}))
	t.Setenv("HOLDFAST_CONFIG", "")
	for want, args := range map[int][]string{
		0: {"mount", "--helper", "data", "/mnt", "-f", "-o", "rw"}, 1: {"mount", "--helper", "data", "/mnt", "-o", "remount"}, 2: {"mount", "data", "/mnt", "-o", "remount"},
	} {
		for range 2 {
			var out strings.Builder
			require.Equal(t, want, Main(args, &out, &out), out.String())
		}
	}
	require.Equal(t, 1, Main([]string{"umount", "--helper", "/mnt", "-l"}, &strings.Builder{}, &strings.Builder{}))
	require.Equal(t, 32, helperExitCode(exit.Refused))
	require.Equal(t, 32, helperExitCode(exit.Unavailable))
}

// fakeUnpublishAPI leaves a publication to a node.
type fakeUnpublishAPI struct {
	adminpb.UnimplementedAdminServer
	left *adminpb.Publication
}

func (a *fakeUnpublishAPI) ChangeVolume(_ context.Context, req *adminpb.VolumeChangeRequest) (*adminpb.VolumeChangeResponse, error) {
	v := &adminpb.Volume{Id: req.GetVolume(), Name: "data"}
	if a.left != nil {
		v.Publications = []*adminpb.Publication{a.left}
	}
	return &adminpb.VolumeChangeResponse{Done: true, Volume: v}, nil
}

// An unmount is done also where an orchestrator's publication stays, and says so: no other host can mount the volume yet.
func TestAnUnmountSaysWhichPublicationItLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		left  *adminpb.Publication
		warns bool
	}{
		"nothing":                         {},
		"an orchestrator's":               {&adminpb.Publication{Node: "n1"}, true},
		"an orchestrator's, another node": {&adminpb.Publication{Node: "n2"}, false},
		"an operator's":                   {&adminpb.Publication{Node: "n1", MadeBy: "operator/ann"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var warnings strings.Builder
			m, cmd := &hostMounts{}, &cobra.Command{Use: "umount"}
			m.add(cmd)
			cmd.SetErr(&warnings)
			require.NoError(t, cmd.ParseFlags(serveAdmin(t, &fakeUnpublishAPI{left: tc.left})))
			require.NoError(t, cmd.PersistentPreRunE(cmd, nil))
			m.folder, m.csiEndpoint = t.TempDir(), "unix://"+filepath.Join(t.TempDir(), "node.sock")
			helper, closing, err := m.open(t.Context(), false)
			require.NoError(t, err)
			defer closing()
			for range 2 {
				warnings.Reset()
				require.NoError(t, helper.Controllers.Unpublish(t.Context(), "hf-00000000-0000-4000-8000-000000000001", "n1"))
				require.Equal(t, tc.warns, strings.Contains(warnings.String(), "volume data stays published to node n1"), warnings.String())
				require.Equal(t, tc.warns, warnings.Len() > 0)
			}
		})
	}
}
