package deb

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	day := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for described, want := range map[string]string{
		"v1.2.0": "1.2.0", "v1.2.0-5-gabcdef0": "1.2.0+5+gabcdef0", "v1.2.0-modified": "1.2.0+modified", "abcdef0": "0~20260304.abcdef0", "abcdef0-modified": "0~20260304.abcdef0+modified",
	} {
		require.Equal(t, want, Version(described, day), described)
	}
	for _, order := range [][2]string{{"abcdef0", "v0.1.0"}, {"v1.2.0", "v1.2.0-5-gabcdef0"}, {"v1.2.0-5-gabcdef0", "v1.2.1"}} {
		require.NoError(t, exec.CommandContext(t.Context(), "dpkg", "--compare-versions", Version(order[0], day), "lt", Version(order[1], day)).Run(), order)
	}
}

func TestPackageIsTheSameTwice(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "holdfast")
	require.NoError(t, os.WriteFile(binary, []byte("program"), 0o600))
	var packages [2]string
	for i := range packages {
		file, err := Write(t.TempDir(), Source{Version: "v1.2.0", Time: time.Unix(1_700_000_000, 0), Binary: binary, Repository: "../../.."})
		require.NoError(t, err)
		require.Equal(t, "holdfast_1.2.0_amd64.deb", filepath.Base(file))
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		packages[i] = string(content)
		requireContents(t, file)
	}
	require.Equal(t, packages[0], packages[1])
}

// requireContents asks dpkg-deb what is in the package.
func requireContents(t *testing.T, file string) {
	listed := dpkgDeb(t, "-c", file)
	for _, want := range []string{
		"-rwxr-xr-x root/root         7 2023-11-14 22:13 ./usr/sbin/holdfast\n", "./usr/bin/kubectl-holdfast -> ../sbin/holdfast\n", "./usr/sbin/mount.holdfast -> holdfast\n",
		"./usr/lib/systemd/system/holdfast-controller.service\n", "./usr/lib/systemd/system/holdfast-mount@.service\n", "./usr/lib/sysusers.d/holdfast.conf\n",
	} {
		require.Contains(t, listed, want)
	}
	require.Equal(t, "/etc/holdfast/controller.yaml\n/etc/holdfast/node.yaml\n", dpkgDeb(t, "-I", file, "conffiles"))
	require.Contains(t, dpkgDeb(t, "-I", file, "control"), "Version: 1.2.0\n")
	units, err := filepath.Glob("../../systemd/*.service")
	require.NoError(t, err)
	require.Len(t, units, len(unitNames), "every unit is in the package")
}

func dpkgDeb(t *testing.T, args ...string) string {
	cmd := exec.CommandContext(t.Context(), "dpkg-deb", args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}
