package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/controller"
	"github.com/holdfast-storage/holdfast/cmd/node"
)

const (
	unitsDir    = "../../deploy/systemd"
	unitProgram = "/usr/sbin/holdfast"
)

// The units call commands and flags that there are, and systemd understands them.
func TestUnitsAreValid(t *testing.T) {
	units, err := filepath.Glob(unitsDir + "/*.service")
	require.NoError(t, err)
	require.Len(t, units, 4)
	dir := t.TempDir()
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		calls := 0
		for line := range strings.Lines(string(text)) {
			if _, command, found := strings.Cut(strings.TrimSpace(line), "="+unitProgram+" "); found {
				cmd, rest, err := Root().Find(strings.Fields(command))
				require.NoError(t, err, line)
				require.NoError(t, cmd.ParseFlags(rest), line)
				calls++
			}
		}
		require.NotZero(t, calls, unit)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(unit)), []byte(strings.ReplaceAll(string(text), unitProgram, "/bin/true")), 0o600))
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("skipped: there is no systemd-analyze here")
	}
	for _, unit := range units {
		name := strings.Replace(filepath.Base(unit), "@", "@data", 1)
		if name != filepath.Base(unit) {
			require.NoError(t, os.Symlink(filepath.Base(unit), filepath.Join(dir, name)))
		}
		cmd := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join(dir, name))
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, said)
		require.NotContains(t, string(said), name, "%s", said)
	}
}

// The controller takes every protection of systemd's that it can work under.
func TestTheControllersUnitIsHardened(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("skipped: there is no systemd-analyze here")
	}
	said, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "--threshold=20",
		filepath.Join(unitsDir, "holdfast-controller.service")).CombinedOutput()
	require.NoError(t, err, "its exposure is above 2.0:\n%s", said)
	require.NotEmpty(t, unitSetting(t, "holdfast-controller", "User"))
	require.Equal(t, []string{""}, unitSetting(t, "holdfast-controller", "CapabilityBoundingSet"))
}

// In a mount namespace of its own, what the node mounts would not reach the kubelet; these settings make one.
func TestTheNodesUnitMakesNoMountNamespace(t *testing.T) {
	namespaces := regexp.MustCompile(`^(Protect(System|Home|Proc|KernelTunables|KernelModules|KernelLogs|ControlGroups)|Private(Tmp|Devices|Users|IPC)|` +
		`ProcSubset|DynamicUser|MountFlags|MountAPIVFS|Root(Directory|Image)|Bind(ReadOnly)?Paths|TemporaryFileSystem|(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|` +
		`ExtensionImages|ExtensionDirectories|LogNamespace|LoadCredential|SetCredential)=`)
	text, err := os.ReadFile(filepath.Join(unitsDir, "holdfast-node.service"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		require.NotRegexp(t, namespaces, line)
	}
	require.Equal(t, []string{"no"}, unitSetting(t, "holdfast-node", "PrivateMounts"))
	require.Equal(t, []string{"process"}, unitSetting(t, "holdfast-node", "KillMode"))
}

// The configurations that are installed have keys that there are, and the controller's name only folders that its unit gives it.
func TestTheUnitsConfigurationsAreValid(t *testing.T) {
	for _, cmd := range []*cobra.Command{controller.Command(), node.Command()} {
		flags := cmd.Flags()
		require.NoError(t, flags.Set(config.FileFlag, filepath.Join(unitsDir, cmd.Name()+".yaml")))
		require.NoError(t, config.Fill(flags, func(string) (string, bool) { return "", false }))
		unit := "holdfast-" + cmd.Name()
		given := append(below("unix:///run", unitSetting(t, unit, "RuntimeDirectory")), below("/var/lib", unitSetting(t, unit, "StateDirectory"))...)
		for _, name := range []string{"csi-endpoint", "data-dir", "bootstrap-marker"} {
			f := flags.Lookup(name)
			if f == nil {
				continue // the node has none
			}
			require.True(t, slices.ContainsFunc(given, func(dir string) bool {
				return f.Value.String() == dir || strings.HasPrefix(f.Value.String(), dir+"/")
			}), "%s: %s is in none of %v", unit, f.Value, given)
		}
	}
}

// unitSetting is what a unit sets, line by line.
func unitSetting(t *testing.T, unit, name string) []string {
	text, err := os.ReadFile(filepath.Join(unitsDir, unit+".service"))
	require.NoError(t, err)
	var values []string
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

// below are the folders of a setting, below the one that systemd puts them in.
func below(parent string, setting []string) []string {
	var dirs []string
	for _, dir := range strings.Fields(strings.Join(setting, " ")) {
		dirs = append(dirs, parent+"/"+dir)
	}
	return dirs
}
