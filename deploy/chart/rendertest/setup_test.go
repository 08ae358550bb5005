package rendertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The setup's script gives a folder as kubelet makes it to the controller, and may be repeated over what is there. The image
// has busybox's programs, and no `install`.
func TestSetupMakesFoldersOfTheControllersOwn(t *testing.T) {
	command := podSpecs(objectsOfSet(t, "../../kubernetes/holdfast.yaml"))["holdfast-controller"].InitContainers[0].Command
	require.Equal(t, []string{"/bin/sh", "-ec"}, command[:2])
	dir, self := t.TempDir(), strconv.Itoa(os.Getuid())+":"+strconv.Itoa(os.Getgid())
	script := strings.NewReplacer("/var/lib/holdfast", dir, "9800:9800", self).Replace(command[2])
	for range 2 {
		out, err := exec.Command(command[0], command[1], script).CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, name := range []string{"controller", "tls"} {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, os.ModeDir|0o700, info.Mode(), name)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name, "kept"), nil, 0o600))
		}
	}
	require.FileExists(t, filepath.Join(dir, "controller", "kept"))
}
